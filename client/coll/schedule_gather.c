/* Allgather and alltoall. */
#include <stdlib.h>

#include "client/coll/schedule.h"

/* ---- allgather */

static struct coll_place block(const struct coll_shape *shape, uint32_t rank)
{
    return coll_at(COLL_OUT, shape->spans[rank].offset);
}

/* Where a rank reads its own block. */
static struct coll_place own_block(const struct coll_shape *shape, uint32_t rank)
{
    return shape->in_place ? block(shape, rank) : coll_at(COLL_IN, 0);
}

static void copy_own(struct coll_program *program, const struct coll_shape *shape)
{
    coll_copy(program, 0, own_block(shape, program->rank), block(shape, program->rank),
              shape->spans[program->rank].bytes);
}

static void gather_direct(struct coll_program *program, const struct coll_shape *shape)
{
    uint32_t size = shape->places.size, me = program->rank;

    copy_own(program, shape);
    for (uint32_t i = 1; i < size; i++) {
        uint32_t peer = (me + i) % size;
        coll_put(program, 0, peer, own_block(shape, me), block(shape, me), shape->spans[me].bytes);
        coll_notify(program, 0, peer);
    }
    for (uint32_t i = 1; i < size; i++)
        coll_wait(program, 0, (me + size - i) % size);
    coll_add_credits(program);
}

static void gather_ring(struct coll_program *program, const struct coll_shape *shape)
{
    uint32_t size = shape->places.size, me = program->rank;

    copy_own(program, shape);
    for (uint32_t i = 0; i + 1 < size; i++) {
        uint32_t rank = (me + size - i) % size;
        coll_put(program, 0, (me + 1) % size, i == 0 ? own_block(shape, me) : block(shape, rank),
                 block(shape, rank), shape->spans[rank].bytes);
        coll_notify(program, 0, (me + 1) % size);
        coll_wait(program, 0, (me + size - 1) % size);
    }
    coll_add_credits(program);
}

/* Bruck: after round k, a rank has the blocks of the 2^(k+1) ranks from itself on, in scratch
 * memory; then they are turned to their places. */
static void gather_doubling(struct coll_program *program, const struct coll_shape *shape)
{
    uint32_t size = shape->places.size, me = program->rank;
    uint64_t bytes = shape->bytes;
    struct coll_place scratch = coll_scratch(program, size * bytes);

    program->sets = 2;
    coll_copy(program, 0, own_block(shape, me), scratch, bytes);
    for (uint32_t distance = 1; distance < size; distance *= 2) {
        uint32_t peer = (me + size - distance) % size;
        uint32_t blocks = distance < size - distance ? distance : size - distance;
        coll_put(program, 0, peer, scratch,
                 coll_at(COLL_SCRATCH, scratch.offset + distance * bytes), blocks * bytes);
        coll_notify(program, 0, peer);
        coll_wait(program, 0, (me + distance) % size);
    }
    coll_copy(program, 0, scratch, block(shape, me), (size - me) * bytes);
    coll_copy(program, 0, coll_at(COLL_SCRATCH, scratch.offset + (size - me) * bytes),
              block(shape, 0), me * bytes);
}

void coll_schedule_allgather(struct coll_program *program, const struct coll_shape *shape,
                             enum tca_coll_algorithm algorithm)
{
    if (algorithm == TCA_COLL_DOUBLING)
        gather_doubling(program, shape);
    else if (algorithm == TCA_COLL_RING)
        gather_ring(program, shape);
    else
        gather_direct(program, shape);
}

/* ---- alltoall */

static void exchange_direct(struct coll_program *program, const struct coll_shape *shape)
{
    uint32_t size = shape->places.size, me = program->rank;

    for (uint32_t i = 0; i < size; i++) {
        uint32_t peer = (me + i) % size;
        coll_put(program, 0, peer, coll_at(COLL_IN, shape->spans[peer].offset),
                 coll_at(COLL_OUT, shape->targets[peer]), shape->spans[peer].bytes);
        if (peer != me)
            coll_notify(program, 0, peer);
    }
    for (uint32_t i = 1; i < size; i++)
        coll_wait(program, 0, (me + size - i) % size);
    coll_add_credits(program);
}

/* One round of Bruck's: the blocks whose distance has this bit are packed, and change places with
 * those of the rank that is so far behind. */
static void exchange_round(struct coll_program *program, const struct coll_shape *shape,
                           uint32_t distance, struct coll_place *places)
{
    uint32_t size = shape->places.size, me = program->rank, count = 0;
    uint64_t bytes = shape->bytes;

    for (uint32_t i = 0; i < size; i++)
        count += (i & distance) != 0;
    struct coll_place packed = coll_scratch(program, count * bytes);
    struct coll_place arrived = coll_scratch(program, count * bytes);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < size; i++) {
        if (!(i & distance))
            continue;
        coll_copy(program, 0, places[i], coll_at(COLL_SCRATCH, packed.offset + offset), bytes);
        places[i] = coll_at(COLL_SCRATCH, arrived.offset + offset);
        offset += bytes;
    }
    coll_put(program, 0, (me + distance) % size, packed, arrived, offset);
    coll_notify(program, 0, (me + distance) % size);
    coll_wait(program, 0, (me + size - distance) % size);
}

static void exchange_doubling(struct coll_program *program, const struct coll_shape *shape,
                              struct coll_place *places)
{
    uint32_t size = shape->places.size, me = program->rank;

    program->sets = 2;
    for (uint32_t i = 0; i < size; i++)
        places[i] = coll_at(COLL_IN, shape->spans[(me + i) % size].offset);
    for (uint32_t distance = 1; distance < size; distance *= 2)
        exchange_round(program, shape, distance, places);
    for (uint32_t i = 0; i < size; i++) /* from the rank i before this one */
        coll_copy(program, 0, places[i], coll_at(COLL_OUT, (me + size - i) % size * shape->bytes),
                  shape->bytes);
}

void coll_schedule_alltoall(struct coll_program *program, const struct coll_shape *shape,
                            enum tca_coll_algorithm algorithm)
{
    if (algorithm != TCA_COLL_DOUBLING) {
        exchange_direct(program, shape);
        return;
    }
    struct coll_place *places = calloc(shape->places.size, sizeof(*places));
    if (places)
        exchange_doubling(program, shape, places);
    else
        program->out_of_memory = true;
    free(places);
}
