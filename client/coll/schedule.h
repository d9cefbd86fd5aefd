/* Schedules: from a collective operation and an algorithm to the program of a rank. Pure functions:
 * all ranks that are given the same shape get programs that fit together. */
#pragma once

#include "client/coll/program.h"
#include "client/coll/tree.h"

enum coll_operation {
    COLL_BARRIER,
    COLL_BROADCAST,
    COLL_ALLGATHER,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_REDUCE_SCATTER,
    COLL_ALLTOALL,
    COLL_OPERATIONS,
    COLL_NEIGHBOURS = COLL_OPERATIONS, /* scheduled by its edges (neighbours.c) */
};

/* Broadcasts up to this length do not wait for receivers. */
enum { COLL_SHORT_BYTES = 4096 };

struct coll_span {
    uint64_t offset, bytes;
};

/* Members are the same at all ranks unless noted. */
struct coll_shape {
    enum coll_operation operation;
    struct coll_places places;
    uint32_t root;  /* broadcast, reduce */
    uint64_t bytes; /* broadcast, reduce, allreduce: all of it; else, if regular, of a block */
    uint64_t element_bytes; /* reductions, cut between elements only */
    uint64_t segment_bytes; /* > 0 */
    /* Allgather: blocks of OUT by rank; reduce-scatter: of IN; alltoall: of this rank's IN. */
    const struct coll_span *spans;
    const uint64_t *targets; /* alltoall, of this rank: offset of its block in each rank's OUT */
    bool regular;            /* all blocks are equally long, and follow one another */
    bool in_place; /* IN is where OUT receives the own data; not in reduce-scatter, alltoall */
    bool ordered;  /* the operator does not commute: operands in the order of ranks */
};

/* Whether an algorithm can do it. Two ranks or more: alone, they all copy. */
bool coll_schedule_suits(const struct coll_shape *shape, enum tca_coll_algorithm algorithm);

/* -ENOMEM. The caller releases the program, also after a failure. */
int coll_schedule(const struct coll_shape *shape, enum tca_coll_algorithm algorithm, uint32_t rank,
                  struct coll_program *ret_program);

/* Block `index` of `bytes` bytes that are cut into `count` parts of nearly the same size, between
 * units (the last one may be cut short). */
struct coll_span coll_part(uint64_t bytes, uint64_t unit_bytes, uint32_t count, uint32_t index);

/* Number of segments of a length; at least 1, and limited. */
uint32_t coll_segments(uint64_t bytes, uint64_t segment_bytes);

/* ---- by operation */

int coll_schedule_barrier(struct coll_program *program, const struct coll_shape *shape,
                          enum tca_coll_algorithm algorithm);
int coll_schedule_broadcast(struct coll_program *program, const struct coll_shape *shape,
                            enum tca_coll_algorithm algorithm);
void coll_schedule_allgather(struct coll_program *program, const struct coll_shape *shape,
                             enum tca_coll_algorithm algorithm);
void coll_schedule_alltoall(struct coll_program *program, const struct coll_shape *shape,
                            enum tca_coll_algorithm algorithm);
int coll_schedule_reduce(struct coll_program *program, const struct coll_shape *shape,
                         enum tca_coll_algorithm algorithm);
void coll_schedule_reduce_scatter(struct coll_program *program, const struct coll_shape *shape,
                                  enum tca_coll_algorithm algorithm);
int coll_schedule_allreduce(struct coll_program *program, const struct coll_shape *shape,
                            enum tca_coll_algorithm algorithm);

/* The first half of a reduce-scatter or allreduce: returns where the own block is complete, in
 * scratch memory (or in IN, if this rank is alone). */
struct coll_place coll_scatter_direct(struct coll_program *program, const struct coll_span *spans,
                                      uint32_t size, struct coll_place in);
struct coll_place coll_scatter_ring(struct coll_program *program, const struct coll_span *spans,
                                    uint32_t size, struct coll_place in);
