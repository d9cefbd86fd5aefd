/*
 * coll-roots: broadcasts from and reductions to every rank of the group, of lengths that no block,
 * segment or word divides, and of nothing, each by another algorithm. Every byte is checked after
 * every start. Ends with 0, or prints what was wrong.
 */
#include <stdbool.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"

enum { BYTES_MAX = 5003, STARTS = 2, GUARD = 0x5a, GUARD_BYTES = 8 };

static struct tca *session;
static uint32_t size;
static uint8_t *in, *out;

static uint8_t value(uint32_t of_rank, uint32_t start, uint64_t i)
{
    return (uint8_t)(of_rank * 59 + start * 31 + i * 7 + 1);
}

/* The sum of all ranks' values. */
static uint8_t sum(uint32_t start, uint64_t i)
{
    uint8_t result = 0;

    for (uint32_t r = 0; r < size; r++)
        result = (uint8_t)(result + value(r, start, i));
    return result;
}

static void check_memory(bool reduces, uint32_t root, uint64_t bytes, uint32_t start,
                         const struct tca_coll *coll)
{
    bool written = !reduces || rank == root;

    for (uint64_t i = 0; i < bytes + GUARD_BYTES; i++) {
        uint8_t expected = i >= bytes || !written ? GUARD
                           : reduces              ? sum(start, i)
                                                  : value(root, start, i);
        if (out[i] == expected)
            continue;
        printf("rank %u: %s of %lu bytes, root %u, %s, start %u: byte %lu is %02x, not %02x\n",
               rank, reduces ? "reduce" : "broadcast", bytes, root,
               tca_coll_algorithm_name(tca_coll_algorithm_of(coll)), start, i, out[i], expected);
        exit(1);
    }
}

static void run(bool reduces, uint32_t root, uint64_t bytes, enum tca_coll_algorithm algorithm)
{
    const struct tca_coll_operator add = {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT8};
    const struct tca_coll_args args = {.algorithm = algorithm};
    struct tca_coll *coll;

    if (reduces)
        check(tca_coll_reduce(session, in, out, bytes, &add, root, &args, &coll), "a reduction");
    else
        check(tca_coll_broadcast(session, out, bytes, root, &args, &coll), "a broadcast");
    for (uint32_t start = 0; start < STARTS; start++) {
        memset(out, GUARD, BYTES_MAX + GUARD_BYTES);
        for (uint64_t i = 0; i < bytes; i++)
            (reduces ? in : out)[i] = reduces || rank == root ? value(rank, start, i) : GUARD;
        check(tca_coll_start(coll), "start");
        check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
        check_memory(reduces, root, bytes, start, coll);
    }
    tca_coll_free(coll);
}

int main(void)
{
    static const enum tca_coll_algorithm algorithms[] = {TCA_COLL_DIRECT, TCA_COLL_BINOMIAL,
                                                         TCA_COLL_CHAIN, TCA_COLL_HIERARCHICAL,
                                                         TCA_COLL_TRINARY};
    static const uint64_t bytes[] = {0, 1, 13, BYTES_MAX};
    enum { ALGORITHMS = sizeof(algorithms) / sizeof(algorithms[0]) };
    uint32_t turn = 0;

    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    size = tca_size(session);
    check(tca_alloc(session, BYTES_MAX + GUARD_BYTES, (void **)&in), "memory");
    check(tca_alloc(session, BYTES_MAX + GUARD_BYTES, (void **)&out), "memory");
    for (uint32_t root = 0; root < size; root++)
        for (size_t b = 0; b < sizeof(bytes) / sizeof(bytes[0]); b++, turn++) {
            run(false, root, bytes[b], algorithms[turn % ALGORITHMS]);
            run(true, root, bytes[b], algorithms[turn % (ALGORITHMS - 1)]);
        }
    tca_close(session);
    return wrong;
}
