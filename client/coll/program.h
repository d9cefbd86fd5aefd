/* What one rank does in a collective operation: chains of steps, as in a plan, over three buffers.
 * Pure data, without a session. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    COLL_CHAINS_MAX = 3,
    COLL_SETS = 8,            /* copies of the scratch memory: at most */
    COLL_LEAD = COLL_SETS / 2 /* starts between two credits, see coll_add_credits() */
};

enum coll_buffer {
    COLL_IN = 0,      /* the caller's: only read */
    COLL_OUT = 1,     /* the caller's: written between start and completion only */
    COLL_SCRATCH = 2, /* the library's */
};

struct coll_place {
    enum coll_buffer buffer;
    uint64_t offset;
};

enum coll_kind {
    COLL_PUT,     /* from a place of this rank to a place of the peer, which may be this rank */
    COLL_NOTIFY,  /* the peer's counter (this rank, slot); everything put before is visible by
                   * then */
    COLL_WAIT,    /* for one notification of the peer */
    COLL_COMBINE, /* combines two places of this rank: `to` receives the result */
};

/* Slots of a chain: a multiple of COLL_SLOTS, plus one of these. */
enum { COLL_DATA, COLL_CREDIT, COLL_SLOTS };

struct coll_step {
    enum coll_kind kind;
    uint32_t peer;
    uint32_t slot;
    struct coll_place from, to;
    uint64_t bytes;
    bool from_left; /* combine: `from` is the left operand */
    uint32_t part;  /* put: not 0: by layouts that the caller knows, instead of places */
    bool seldom;    /* only in every start whose number is a multiple of COLL_LEAD */
};

struct coll_chain {
    struct coll_step *steps;
    uint32_t count, room;
};

struct coll_program {
    struct coll_chain chains[COLL_CHAINS_MAX];
    uint32_t chain_count;
    uint32_t rank;
    uint64_t scratch_bytes;
    /* Copies of the scratch memory, which starts use in turn: 1, or
     * - 2: no credits are needed if nobody completes a start before all ranks have begun it, that
     *   is, are done with the one before;
     * - COLL_SETS: puts to scratch memory only, in which a rank may be ahead of its peers. */
    uint32_t sets;
    bool out_of_memory; /* steps are missing */
};

void coll_program_init(struct coll_program *program, uint32_t rank, uint32_t chains);
void coll_program_deinit(struct coll_program *program);

static inline struct coll_place coll_at(enum coll_buffer buffer, uint64_t offset)
{
    return (struct coll_place){buffer, offset};
}

/* Reserves scratch memory, aligned for any type. */
struct coll_place coll_scratch(struct coll_program *program, uint64_t bytes);

/* Steps at the end of a chain. Without bytes, puts and reductions are left out. */
void coll_put(struct coll_program *program, uint32_t chain, uint32_t peer, struct coll_place from,
              struct coll_place to, uint64_t bytes);
void coll_put_part(struct coll_program *program, uint32_t chain, uint32_t peer, uint32_t part);
void coll_notify(struct coll_program *program, uint32_t chain, uint32_t peer);
void coll_wait(struct coll_program *program, uint32_t chain, uint32_t peer);
void coll_reduce(struct coll_program *program, uint32_t chain, struct coll_place from,
                 struct coll_place to, uint64_t bytes, bool from_left);
/* Within this rank; nothing if both places are the same. */
void coll_copy(struct coll_program *program, uint32_t chain, struct coll_place from,
               struct coll_place to, uint64_t bytes);

/* Adds credits to a complete program: each chain begins by telling the ranks that put to this rank
 * that it has started, and waits for the same from each peer before its first put to it. With
 * COLL_SETS copies of the scratch memory, a credit is good for COLL_LEAD starts, and each rank
 * gives one in advance: a rank can then begin COLL_LEAD starts before its peers begin the first. */
void coll_add_credits(struct coll_program *program);
