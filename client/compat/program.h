/* Programs: what a chain of descriptors is compiled into. */
#pragma once

#include "client/compat/compat.h"
#include "client/compat/notice.h"

struct move;

/* One descriptor. */
struct transfer {
    struct reference target, source;
    uint64_t target_offset_bytes, source_offset_bytes;
    uint64_t target_pitch_bytes, source_pitch_bytes;
    uint64_t width_bytes, height; /* both 0: nothing to put */
    int flags, slot, tag;
    int unused; /* no padding: they are compared as bytes */
};

struct transfers {
    struct transfer *list;
    size_t count, room;
};

/* A notice that a start sends, and where it is put from. */
struct sending {
    struct place place;
    struct notice *notice;
};

/* Who is notified of a start, and how. */
struct notified {
    uint32_t rank;
    int slot, tag;
};

struct program {
    unsigned users;         /* a channel that it is loaded into or runs in; 0: it is kept */
    struct transfers chain; /* that it was made from */
    uint64_t identity;      /* a number that stands for it */
    int channel;
    struct tca_plan *plan; /* NULL: nothing to put, or dropped */
    bool dropped;          /* it has let go of its plan, and cannot run any more */
    bool spoiled;          /* a start has failed: the next chain like this gets a new one */
    struct sending *sendings;
    size_t sending_count;
    struct notice *notices;  /* of the sendings, in memory that may be put from */
    struct self_key *selves; /* notifications to this process itself */
    size_t self_count;
    struct notified *notified; /* by all of them; in order, each once */
    size_t notified_count;
    struct tca_region **sources; /* of memory of this process that it puts or moves: of device
                                    memory the card (memory.h) */
    size_t source_count;
    size_t put_count;
    struct move *moves; /* of device memory, before the plan */
    size_t move_count;
    bool reaches; /* device memory of another process, which stays as long as we do */
    struct program *next, *previous; /* all of them: programs.c */
};

/* ---- program.c ---- */

/* For one user: an old one, or made. */
tcaresult program_get(const struct transfers *chain, int channel, struct program **ret_program);
tcaresult program_start(struct program *program);
/* Waits for its end: 0, 1 it still runs, negative: it failed. */
int program_wait(struct program *program, int64_t timeout_ns);
/* Until it has put everything; program_wait() tells then at once what came of it. */
void program_finish(struct program *program);
/* Whether both notify somebody with the same slot and tag. */
bool program_notifies_like(const struct program *one, const struct program *other);
bool program_notifies_self(const struct program *program, struct self_key key);

/* ---- programs.c ---- */

void programs_add(struct program *program);
/* One of this chain that can run in this channel; NULL: there is none. */
struct program *programs_find(const struct transfers *chain, int channel);
struct program *program_ref(struct program *program);
/* NULL is fine. Returns NULL. It does not run when the last user goes. */
struct program *program_unref(struct program *program);
/* One that was not added. */
void program_free(struct program *program);
bool program_puts_from(const struct program *program, const struct tca_region *region);
void program_use(struct program *program, struct tca_region *region);
/* Memory is about to be freed: programs that put from it are dropped, once they have finished. */
void programs_drop(const struct tca_region *region);
/* Ends those that are kept: whether there were any. They can be made again. */
bool programs_trim(void);
