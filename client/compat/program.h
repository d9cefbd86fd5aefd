/* Programs: compiled chains of descriptors. */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/notice.h"

struct move;

/* One descriptor. */
struct transfer {
    struct reference target, source;
    uint64_t target_offset_bytes, source_offset_bytes;
    uint64_t target_pitch_bytes, source_pitch_bytes;
    uint64_t width_bytes, height; /* both 0: no data */
    int flags, slot, tag;
    int unused; /* fills the padding, because transfers are compared as bytes */
};

struct transfers {
    struct transfer *list;
    size_t count, room;
};

/* A notice that each start sends; `notice` is its source. */
struct sending {
    struct place place;
    struct notice *notice;
};

/* A notification of a start. */
struct notified {
    uint32_t rank;
    int slot, tag;
};

struct program {
    unsigned users;         /* channels that it is loaded into or runs in; 0: cached only */
    struct transfers chain; /* its source */
    uint64_t identity;      /* hash of the chain */
    int channel;
    struct tca_plan *plan; /* NULL: no data to put, or dropped */
    bool dropped;          /* its plan has been freed, so it cannot run */
    bool spoiled;          /* a start has failed: an equal chain needs a new program */
    struct sending *sendings;
    size_t sending_count;
    struct notice *notices;  /* of the sendings, in region memory */
    struct self_key *selves; /* notifications to this process */
    size_t self_count;
    struct notified *notified; /* all of them, sorted, without duplicates */
    size_t notified_count;
    struct tca_region **sources; /* memory of this process that it reads; for device memory, the
                                    card (memory.h) */
    size_t source_count;
    size_t put_count;
    struct move *moves; /* of device memory, done before the plan starts */
    size_t move_count;
    bool reaches; /* uses device memory of another process, which stays mapped until this process
                     ends */
    struct program *next, *previous; /* list of all programs: programs.c */
};

/* ---- program.c ---- */

/* Finds or compiles the program of a chain; the caller becomes one of its users. */
tcaresult program_get(const struct transfers *chain, int channel, struct program **ret_program);
tcaresult program_start(struct program *program);
/* Waits for the end of the last start: 0 (complete), 1 (still running) or a negative errno. */
int program_wait(struct program *program, int64_t timeout_ns);
/* Waits for the end of the last start; program_wait() then returns its result at once. */
void program_finish(struct program *program);
/* Whether both notify the same process with the same slot and tag. */
bool program_notifies_like(const struct program *one, const struct program *other);
bool program_notifies_self(const struct program *program, struct self_key key);

/* ---- programs.c ---- */

void programs_add(struct program *program);
/* An existing program of the chain for the channel, or NULL. */
struct program *programs_find(const struct transfers *chain, int channel);
struct program *program_ref(struct program *program);
/* Accepts NULL. Returns NULL. The last user may release it only when it is not running. */
struct program *program_unref(struct program *program);
/* Frees a program that was not added. */
void program_free(struct program *program);
bool program_puts_from(const struct program *program, const struct tca_region *region);
void program_use(struct program *program, struct tca_region *region);
/* Drops all programs that read the region, once they have finished: it is about to be freed. */
void programs_drop(const struct tca_region *region);
/* Frees the programs that are only cached. Returns whether there were any. */
bool programs_trim(void);
