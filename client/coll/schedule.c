#include "client/coll/schedule.h"

#include <errno.h>

enum { SEGMENTS_MAX = 256 };

struct coll_span coll_part(uint64_t bytes, uint64_t unit_bytes, uint32_t count, uint32_t index)
{
    uint64_t units = bytes / unit_bytes + (bytes % unit_bytes != 0);
    uint64_t each = units / count, more = units % count;
    uint64_t first = index * each + (index < more ? index : more);
    uint64_t end = first + each + (index < more);
    uint64_t end_bytes = end < units ? end * unit_bytes : bytes;
    uint64_t offset = first < units ? first * unit_bytes : bytes;

    return (struct coll_span){offset, end_bytes - offset};
}

uint32_t coll_segments(uint64_t bytes, uint64_t segment_bytes)
{
    uint64_t segments = bytes / segment_bytes + (bytes % segment_bytes != 0);

    if (segments > SEGMENTS_MAX)
        return SEGMENTS_MAX;
    return segments ? (uint32_t)segments : 1;
}

bool coll_schedule_suits(const struct coll_shape *shape, enum tca_coll_algorithm algorithm)
{
#define BIT(algorithm) (1u << TCA_COLL_##algorithm)
    static const uint32_t suits[COLL_OPERATIONS] = {
        [COLL_BARRIER] = BIT(DOUBLING) | BIT(HIERARCHICAL),
        [COLL_BROADCAST] =
            BIT(DIRECT) | BIT(BINOMIAL) | BIT(CHAIN) | BIT(TRINARY) | BIT(HIERARCHICAL),
        [COLL_ALLGATHER] = BIT(DIRECT) | BIT(RING) | BIT(DOUBLING),
        [COLL_REDUCE] = BIT(DIRECT) | BIT(BINOMIAL) | BIT(CHAIN) | BIT(HIERARCHICAL),
        [COLL_ALLREDUCE] = BIT(DIRECT) | BIT(RING) | BIT(DOUBLING) | BIT(HIERARCHICAL),
        [COLL_REDUCE_SCATTER] = BIT(DIRECT) | BIT(RING),
        [COLL_ALLTOALL] = BIT(DIRECT) | BIT(DOUBLING),
    };
    bool blocks = shape->operation == COLL_ALLGATHER || shape->operation == COLL_ALLTOALL;

    if (!(suits[shape->operation] & 1u << algorithm))
        return false;
    if (shape->ordered && algorithm != TCA_COLL_DIRECT && algorithm != TCA_COLL_DOUBLING)
        return false;
    return !(blocks && algorithm == TCA_COLL_DOUBLING && !shape->regular);
#undef BIT
}

int coll_schedule(const struct coll_shape *shape, enum tca_coll_algorithm algorithm, uint32_t rank,
                  struct coll_program *ret_program)
{
    int r = 0;

    coll_program_init(ret_program, rank, 1);
    switch (shape->operation) {
    case COLL_BROADCAST:
        r = coll_schedule_broadcast(ret_program, shape, algorithm);
        break;
    case COLL_ALLGATHER:
        coll_schedule_allgather(ret_program, shape, algorithm);
        break;
    case COLL_REDUCE:
        r = coll_schedule_reduce(ret_program, shape, algorithm);
        break;
    case COLL_ALLREDUCE:
        r = coll_schedule_allreduce(ret_program, shape, algorithm);
        break;
    case COLL_REDUCE_SCATTER:
        coll_schedule_reduce_scatter(ret_program, shape, algorithm);
        break;
    case COLL_ALLTOALL:
        coll_schedule_alltoall(ret_program, shape, algorithm);
        break;
    default:
        r = coll_schedule_barrier(ret_program, shape, algorithm);
    }
    return r < 0 || ret_program->out_of_memory ? -ENOMEM : 0;
}
