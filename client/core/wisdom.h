/*
 * Wisdom: which copy mode was the fastest for puts of a kind, which rail for chains of a kind, and
 * which seat for plans of a kind, as trials found it (client/plan/trial.h, trial_route.h), kept for
 * later plans and, in a file of the user, for later runs.
 *
 * The file belongs to the user and is replaced as a whole, by rename. It is read once and checked
 * as a whole; a file that is damaged counts as empty. Its contents are hints: only modes and rails
 * that the library would try anyway are taken from it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/shm/copy_modes.h"
#include "proto/limits.h"

enum {
    WISDOM_ENTRIES_MAX = 4096, /* the oldest go first */
    WISDOM_PATH_BYTES = 4096,
    WISDOM_DISTANCES = 16, /* classes of distance */
    WISDOM_FILTER_BITS = 1 << 14,
};

struct wisdom_entry {
    uint64_t key[2]; /* of the layouts, the processor and the version: wisdom_key() */
    uint64_t bytes;  /* of the put, or of all puts of the chain or plan */
    uint32_t blocks; /* of the finer of its layouts */
    uint32_t piece_bytes;
    float ns;       /* between two starts, when it was found */
    uint32_t rails; /* a hash of the rails that were tried; 0 for a copy mode or a seat */
    uint8_t distance;
    uint8_t method; /* COPY_NONE for a rail or a seat */
    uint8_t stream;
    uint8_t seat;                   /* SEAT_NONE for a copy mode or a rail */
    uint8_t load_tenths;            /* for each processor, when it was written (proto/load.h) */
    uint8_t reserved[3];            /* 0 */
    char rail[RAIL_NAME_MAX_BYTES]; /* "" for a copy mode; no other bytes behind the NUL */
};
static_assert(sizeof(struct wisdom_entry) == 80, "file format");

struct wisdom {
    uint32_t count;
    uint32_t added;                              /* the last ones, which are not in the file yet */
    uint64_t described[WISDOM_FILTER_BITS / 64]; /* a filter: see wisdom_may_know() */
    struct wisdom_entry entries[WISDOM_ENTRIES_MAX]; /* the newest last */
};

/* Identifies the version and the kind of the processor: keys begin with it. */
void wisdom_seed(uint64_t ret_key[2]);
/* Identifies puts between these layouts, wherever they begin, on processors of this kind. */
void wisdom_key(const struct layout *target, const struct layout *source, uint64_t ret_key[2]);

/* NULL: nothing is known. */
const struct wisdom_entry *wisdom_find(const struct wisdom *wisdom, const uint64_t key[2],
                                       unsigned distance);
/* Whether an entry may exist that describes its puts like this one: by kind (copy mode, rail or
 * seat), bytes and blocks. If not, keys, which take a time that grows with the layouts, need not be
 * made. */
bool wisdom_may_know(const struct wisdom *wisdom, const struct wisdom_entry *puts);
/* Replaces what was known. Neither allocates nor enters the kernel. */
void wisdom_add(struct wisdom *wisdom, const struct wisdom_entry *entry);

/* The path of the file: TCA_WISDOM, else $XDG_CACHE_HOME/tca/wisdom, else ~/.cache/tca/wisdom. 0;
 * -ENOENT: none is wanted, or there is no home; -EINVAL or -ENAMETOOLONG, with an error text. */
int wisdom_path(char path[WISDOM_PATH_BYTES]);

/* Call for each entry that was put into the table otherwise than by wisdom_add(). */
void wisdom_describe(struct wisdom *wisdom, const struct wisdom_entry *entry);

/* Reads a file into an empty wisdom. 0, also without a file; or, with a static text in *ret_why,
 * -EPERM: another user owns it or could write to it; -EINVAL: it is damaged; another error of
 * open() or read(). */
int wisdom_read(const char *path, struct wisdom *wisdom, const char **ret_why);
/* Forgets what was found on a busy machine, if it is quiet now: it is tried again. load: of each
 * processor. After wisdom_read(). */
void wisdom_doubt(struct wisdom *wisdom, double load);
/* Adds what was added to the file, as found under this load of each processor. Returns as
 * wisdom_read(), or -EBUSY: another process is writing; or an error of open(), write() or
 * rename(). */
int wisdom_write(const char *path, struct wisdom *wisdom, double load);
