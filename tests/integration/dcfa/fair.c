/* Several offload processors, one of which is greedy. */
#include <sched.h>
#include <string.h>

#include "tests/integration/dcfa/tests.h"

enum { GREEDY_QPS = 8, LONG_BYTES = 64 << 10, FLAGS = MEMORY_BYTES - 4096 };

static bool all_have_finished(const struct world *world)
{
    const volatile uint8_t *flags = world->memory + FLAGS;
    for (uint32_t rank = 1; rank < world->size; rank++)
        if (!flags[rank])
            return false;
    return true;
}

/* Keeps all its queues full, until the others have written their last byte to it. */
static void be_greedy(struct world *world)
{
    struct dcfa_cq *cq;
    struct dcfa_qp *qps[GREEDY_QPS];
    const struct dcfa_piece piece = world_piece(world, 0, LONG_BYTES);
    const struct dcfa_send send = {.what = DCFA_WRITE,
                                   .flags = DCFA_SIGNALLED,
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .remote_address = world->cards[0].memory + HALF,
                                   .remote_key = world->cards[0].key};
    GOOD(dcfa_cq_new(world->processor, 2 * GREEDY_QPS * ENTRIES, &cq));
    for (uint32_t i = 0; i < GREEDY_QPS; i++) {
        struct dcfa_address own;
        GOOD(dcfa_qp_new(world->pd, &(struct dcfa_qp_args){cq, cq, ENTRIES, ENTRIES}, &qps[i]));
        dcfa_qp_address(qps[i], &own);
        GOOD(dcfa_qp_connect(qps[i], &own));
    }
    world_barrier(world);
    while (!all_have_finished(world)) {
        struct dcfa_completion completion;
        for (uint32_t i = 0; i < GREEDY_QPS; i++)
            while (dcfa_post_send(qps[i], &send) == 0)
                ;
        while (dcfa_poll(cq, 1, &completion) > 0)
            expect(completion, DCFA_OK);
        sched_yield();
    }
}

static void be_modest(struct world *world)
{
    enum { WRITES = 30 };
    const uint32_t peer = world->rank % (world->size - 1) + 1;
    world_barrier(world); /* the greedy one begins */
    for (uint32_t i = 0; i < WRITES; i++)
        expect(world_move(world, peer, DCFA_WRITE, HALF, world->rank * 4096, 4096), DCFA_OK);
    world->memory[HALF] = 1;
    expect(world_move(world, 0, DCFA_WRITE, HALF, FLAGS + world->rank, 1), DCFA_OK);
}

/* None waits for ever. */
void fair(struct world *world)
{
    if (world->rank == 0)
        be_greedy(world);
    else
        be_modest(world);
    world_barrier(world); /* until then, the peers have their queue pairs */
}
