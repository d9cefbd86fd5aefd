/* All ranks of a collective operation in one process: their programs run step by step, in random
 * order, with puts that arrive late, and the memory of each is compared with the definition of the
 * operation. */
#pragma once

#include "client/coll/schedule.h"
#include "tests/unit/proto/random.h"

enum { COLL_WORLD_RANKS = 64 };

/* Of reductions, on elements of 8 bytes. */
enum coll_world_operator {
    COLL_WORLD_SUM,
    COLL_WORLD_COMPOSE, /* does not commute */
    COLL_WORLD_MIN_LOC, /* of int8_t and an index */
};

struct coll_world {
    struct coll_shape shape; /* with the spans and targets of rank 0 */
    enum coll_world_operator reduction;
    enum tca_coll_algorithm algorithm;
    struct random *random;
    uint32_t nodes[COLL_WORLD_RANKS], clusters[COLL_WORLD_RANKS];
    /* of every rank; alltoall has a row for each */
    struct coll_span spans[COLL_WORLD_RANKS][COLL_WORLD_RANKS];
    uint64_t targets[COLL_WORLD_RANKS][COLL_WORLD_RANKS];
    uint64_t in_bytes[COLL_WORLD_RANKS], out_bytes[COLL_WORLD_RANKS];
    struct coll_program programs[COLL_WORLD_RANKS];
    struct coll_rank *ranks;
};

/* A random operation among `size` ranks; `operation` and an algorithm that suits it. */
void coll_world_init(struct coll_world *world, struct random *random, enum coll_operation operation,
                     uint32_t size);
void coll_world_deinit(struct coll_world *world);

/* Bytes of a start: what a rank contributes, and what its OUT receives (-1: it is not written). */
uint8_t coll_world_input(uint32_t start, uint32_t rank, uint64_t index);
int coll_world_expected(const struct coll_world *world, uint32_t start, uint32_t rank,
                        uint64_t index);
/* Offset of a rank's contribution: in IN (*ret_in) or OUT; -1: it has none. */
int64_t coll_world_contribution(const struct coll_world *world, uint32_t rank, bool *ret_in);
void coll_world_combine(enum coll_world_operator reduction, const uint8_t *left,
                        const uint8_t *right, uint8_t *result);

/* Makes the programs for an algorithm. */
int coll_world_schedule(struct coll_world *world, enum tca_coll_algorithm algorithm);

/* Runs a number of starts at all ranks, which need not be at the same one. Returns NULL, or what is
 * wrong. */
const char *coll_world_run(struct coll_world *world, uint32_t starts);
