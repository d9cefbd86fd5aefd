/* A collective operation from tca_coll_...() to tca_coll_free(). */
#pragma once

#include <assert.h>
#include <stddef.h>

#include "client/coll/copies.h"
#include "client/coll/cost.h"
#include "client/coll/kept.h"
#include "client/coll/leaf.h"
#include "client/coll/siblings.h"
#include "client/core/agree.h"
#include "client/core/subgroup.h"

enum {
    COLL_SLOTS_MAX = COLL_CHAINS_MAX * COLL_SLOTS,
};

/* What a start does one after the other: a plan; or, in this process, the combination of two
 * vectors by a function of the program, or a wait for a notification. */
struct coll_item {
    struct tca_plan *plan; /* NULL: the step */
    const struct coll_step *step;
};

struct coll_sequence {
    struct coll_item *items;
    uint32_t count, room;
    uint32_t next; /* item of the current start */
    bool started;  /* the plan of the next item runs */
};

/* Sequences that run side by side. */
struct coll_set {
    struct coll_sequence sequences[COLL_CHAINS_MAX];
    uint32_t count;
};

/* What the program has asked for, which must be the same at all ranks. */
struct coll_asked {
    uint32_t operation, wanted, root, regular, ordered, combine, type, copies;
    uint64_t bytes, element_bytes, wanted_segment_bytes;
    uint64_t digest; /* of the blocks */
};
static_assert(sizeof(struct coll_asked) == 64, "no gaps: ranks compare bytes");

struct tca_coll {
    struct tca *session;
    struct tca_group *group; /* its ranks take part; NULL: all */
    struct coll_shape shape;
    struct coll_asked asked;
    uint64_t own_args;           /* a digest of the arguments that concern this rank only */
    bool is_same;                /* the module's own (client/coll/kept.h) */
    bool has_said;               /* coll_say_first() */
    uint32_t *nodes, *clusters;  /* [size], of shape.places */
    struct coll_span *spans;     /* [size], of shape.spans; or NULL */
    uint64_t *targets;           /* [size], of shape.targets; or NULL */
    struct tca_coll_edge *edges; /* [edge_count], with own layouts: of neighbours only */
    uint32_t edge_count;
    uint32_t *arriving; /* [size]: edges that lead here, by rank */
    struct tca_coll_operator reduction;
    /* The algorithm is chosen from `shape` and from these, which are the same at all ranks: */
    enum tca_coll_algorithm wanted;
    uint64_t wanted_segment_bytes; /* 0: by predicted cost */
    bool any_in_place;             /* a rank does it in place, not necessarily this one, */
    bool any_by_daemon;            /* or in the daemon's seat */
    enum coll_same_state same;     /* of all ranks, once they have met */
    struct tca_coll_costs costs;
    enum tca_coll_algorithm algorithm;
    struct collective shown; /* by tcactl plan explain: of its plans */
    struct coll_program program;
    const uint8_t *in; /* of its plans: the program's memory or, with copies, the own */
    uint8_t *out, *scratch;
    uint64_t in_bytes, out_bytes;
    struct coll_copies copies;
    uint32_t slot, slot_count;
    uint32_t watch_slot;             /* never notified: testing it detects ranks that have ended */
    bool by_thread;                  /* waits are items: plans have none */
    struct coll_set sets[COLL_SETS]; /* program.sets of them; empty if it is a leaf */
    struct coll_leaf leaf;
    bool shared;   /* other ranks may notify the slots, and put into the scratch memory */
    uint64_t made; /* names it among those of the group, at all ranks */
    struct tca_coll *next_kept;
    uint64_t taken_over; /* how often, after it had been freed */
    struct coll_siblings *siblings;
    struct tca_coll *next_open; /* in siblings->open */
    bool quick;                 /* each set is one plan, and it has not failed */
    /* ---- the current start */
    uint64_t starts;
    uint32_t set;     /* of the next one */
    uint32_t current; /* set */
    uint64_t done;    /* items of all starts */
    bool open;        /* started, and not found complete */
    uint32_t tests;   /* since the start that found it running */
    int failed;       /* a negative errno: permanent */
    char why[256];    /* its text */
};

/* An operation is prepared in rounds. At the end of each, all ranks learn whether all have
 * succeeded. */
enum coll_round {
    COLL_MEET = 1,   /* all have chosen, and have slots and memory according to the choice */
    COLL_MEET_AGAIN, /* if they have not chosen from the same: now they have */
    COLL_AGREE,      /* the plans are made: from here on, starts may notify and put */
};

/* What ranks tell one another when they meet; in the last round, the head alone. */
struct coll_met {
    struct agree_head head;
    struct coll_asked asked;
    /* what they have chosen from besides, which need not, */
    uint32_t in_place, by_daemon;
    uint64_t places; /* a digest */
    /* and their choice. */
    uint64_t algorithm, segment_bytes;
    uint64_t same; /* enum coll_same_state */
    /* What is this rank's own: others need only that of the ranks with which they communicate. */
    uint32_t slot, cluster;
    uint64_t scratch_bytes;
    struct tca_handle out, scratch; /* zero if without bytes */
};
enum { COLL_SAME_BYTES = offsetof(struct coll_met, slot) };
static_assert(sizeof(struct coll_met) == 256, "no gaps");

static inline const struct coll_met *coll_met_of(const struct gathered *heads, uint32_t rank)
{
    return gathered_of(heads, rank);
}

static inline uint32_t coll_rank(const struct tca_coll *coll)
{
    return group_rank(coll->session, coll->group);
}

/* ---- collectives.c */

/* An operation of all ranks of the arguments' group, which may be NULL. NULL: out of memory. */
struct tca_coll *coll_begin(struct tca *session, enum coll_operation operation,
                            const struct tca_coll_args *args);
/* An allreduce in place for coll_same(). */
int coll_make_same(struct tca *session, void *memory, uint64_t count,
                   const struct tca_coll_operator *operation, const struct tca_coll_args *args,
                   struct tca_coll **ret_coll);

/* ---- new.c */

/* Completes an operation whose session, shape and buffers are set. `error`: 0, or why this rank has
 * failed already (tca_error_text() is its text). Collective. Consumes the operation, also if it
 * fails. */
int coll_make(struct tca_coll *coll, int error, const struct tca_coll_args *args,
              struct tca_coll **ret_coll);
/* Before collective calls that precede coll_make(), so that a rank that makes another call finds
 * out. */
void coll_say_first(struct tca_coll *coll);
/* Frees it, with its plans; complete: nobody notifies it or puts into its memory any more. Neither
 * its group nor its siblings learn of it. */
void coll_release(struct tca_coll *coll, bool complete);
/* The same without what is the session's: when that is closed. */
void coll_forget(struct tca_coll *coll);

/* ---- build.c: plans, from what is known of all ranks */

/* An empty plan, named after the operation unless `args` name it. */
int coll_plan_new(const struct tca_coll *coll, const struct tca_plan_args *args,
                  struct tca_plan **ret_plan);
int coll_build(struct tca_coll *coll, const struct gathered *met, const struct tca_plan_args *args);
/* The credits in advance: each rank has them of its peers as if they had sent them. Sends
 * nothing. */
int coll_grant_credits(struct tca_coll *coll);

/* ---- run.c */

/* The current start, if any, is not advanced any more. */
void coll_run_end(struct tca_coll *coll);
/* Advances all operations that need this process as far as possible without waiting; returns the
 * number of items done. Errors are stored in the operations that failed. */
uint64_t coll_run_all(const struct coll_siblings *siblings);
/* For a process that has to wait: processes the session's events, and if `look` fails the operation
 * if a rank has ended. 0, or the error with which it failed. */
int coll_run_watch(struct tca_coll *coll, bool look);

/* ---- explain.c */

const char *coll_operation_name(enum coll_operation operation);
/* What the algorithm is chosen from: nothing that only this rank knows. */
struct coll_shape coll_common_shape(const struct tca_coll *coll);
/* Sets coll->shown, except for its candidates, once the algorithm is chosen. */
void coll_show(struct tca_coll *coll);

/* ---- neighbours.c */

/* Instead of coll_choose() and coll_schedule(): -EINVAL, -ENOMEM. */
int coll_schedule_neighbours(struct tca_coll *coll, enum tca_coll_algorithm wanted);
void coll_free_edges(struct tca_coll *coll);
