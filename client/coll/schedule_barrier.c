#include "client/coll/schedule.h"

/* Dissemination: in round k, a rank tells the one 2^k further on, around the ring. Nobody is one
 * barrier ahead of a rank it notifies, so that counters need no credits. */
static void disseminate(struct coll_program *program, uint32_t size)
{
    for (uint32_t distance = 1; distance < size; distance *= 2) {
        coll_notify(program, 0, (program->rank + distance) % size);
        coll_wait(program, 0, (program->rank + size - distance) % size);
    }
}

/* The ranks of a node report to its leader, the leaders to rank 0; and back. */
static void climb(struct coll_program *program, const struct coll_shape *shape)
{
    uint32_t size = shape->size, me = program->rank;
    uint32_t leader = coll_leader(me, size, 0, shape->nodes);

    for (uint32_t rank = 0; leader == me && rank < size; rank++)
        if (rank != me && shape->nodes[rank] == shape->nodes[me])
            coll_wait(program, 0, rank);
    for (uint32_t rank = 1; me == 0 && rank < size; rank++)
        if (coll_leader(rank, size, 0, shape->nodes) == rank)
            coll_wait(program, 0, rank);
    if (me != 0) {
        uint32_t above = leader == me ? 0 : leader;
        coll_notify(program, 0, above);
        coll_wait(program, 0, above);
    }
    for (uint32_t rank = 1; me == 0 && rank < size; rank++)
        if (coll_leader(rank, size, 0, shape->nodes) == rank)
            coll_notify(program, 0, rank);
    for (uint32_t rank = 0; leader == me && rank < size; rank++)
        if (rank != me && shape->nodes[rank] == shape->nodes[me])
            coll_notify(program, 0, rank);
}

void coll_schedule_barrier(struct coll_program *program, const struct coll_shape *shape,
                           enum tca_coll_algorithm algorithm)
{
    if (algorithm == TCA_COLL_HIERARCHICAL)
        climb(program, shape);
    else
        disseminate(program, shape->size);
}
