/* The cost of a write: a ping-pong like ib_write_lat, and bandwidth like ib_write_bw. Reports, and
 * asserts no time. */
#include <sched.h>
#include <string.h>
#include <time.h>

#include "tests/integration/dcfa/tests.h"

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void post(struct world *world, uint32_t bytes)
{
    const uint32_t peer = !world->rank;
    const struct dcfa_piece piece = world_piece(world, HALF, bytes);
    const struct dcfa_send send = {.what = DCFA_WRITE,
                                   .flags = DCFA_SIGNALLED | (bytes <= 8 ? DCFA_INLINE : 0),
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .remote_address = world->cards[peer].memory,
                                   .remote_key = world->cards[peer].key};
    GOOD(dcfa_post_send(world->qps[peer], &send));
}

/* tcad, if it serves the queues, may need a processor; ib_write_lat does not yield either. */
static void pause_unless_direct(const struct world *world)
{
    if (!strstr(dcfa_device(world->processor), "direct"))
        sched_yield();
}

static void latency(struct world *world)
{
    enum { ROUNDS = 1000 };
    static double half_us[ROUNDS];
    struct dcfa_completion completion;
    _Atomic uint64_t *in = (_Atomic uint64_t *)world->memory;
    uint64_t *out = (uint64_t *)(world->memory + HALF);
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        const double from = now_us();
        while (world->rank == 1 && *in != i)
            pause_unless_direct(world);
        *out = i;
        post(world, 8);
        while (world->rank == 0 && *in != i)
            pause_unless_direct(world);
        half_us[i - 1] = (now_us() - from) / 2;
        while (dcfa_poll(world->cq, 1, &completion) == 0)
            pause_unless_direct(world);
        expect(completion, DCFA_OK);
    }
    qsort(half_us, ROUNDS, sizeof(half_us[0]), compare);
    if (world->rank == 0)
        printf("%s: 8 B write, one way: least %.2f us, median %.2f, 90 %% %.2f\n",
               dcfa_device(world->processor), half_us[0], half_us[ROUNDS / 2],
               half_us[ROUNDS * 9 / 10]);
}

static void bandwidth(struct world *world)
{
    enum { WRITES = 50, WINDOW = 16, BYTES = 1 << 20 };
    if (world->rank == 0) {
        const double from = now_us();
        for (int i = 0; i < WRITES + WINDOW; i++) {
            if (i >= WINDOW)
                expect(world_wait(world, world->qps[1]), DCFA_OK);
            if (i < WRITES)
                post(world, BYTES);
        }
        printf("%s: 1 MiB writes: %.0f MiB/s\n", dcfa_device(world->processor),
               WRITES / ((now_us() - from) / 1e6));
    }
    world_barrier(world);
}

void measure(struct world *world)
{
    latency(world);
    world_barrier(world);
    bandwidth(world);
}
