/* dcfa-hostile [direct]: offload processors that write garbage into their queues. Each is a process
 * of its own; the tcad at TCA_SOCKET survives them all, and ends the sessions of those that break a
 * ring. */
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/dcfa/dcfa.h"
#include "tests/integration/dcfa/hostile.h"

static uint64_t state;

uint64_t hostile_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

void hostile_scribble(void *at, size_t bytes)
{
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        const uint64_t number = hostile_random();
        memcpy((uint8_t *)at + i, &number, 8);
    }
}

/* Announces the ring's next entry, whatever it contains, and wakes tcad. */
static void ring(struct world *world, struct ring *queue, uint32_t entries)
{
    queue->mine += entries;
    atomic_store(&queue->shared->tail, queue->mine);
    atomic_store(&world->processor->head->armed, 0);
    eventfd_write(world->processor->wake_fd, 1);
}

static void await_loss(struct world *world)
{
    while (tca_dispatch(world->session) == 0)
        usleep(1000);
}

/* Garbage in entries fails queue pairs, not the session. */
static void entries(struct world *world)
{
    for (int round = 0; round < 20; round++) {
        struct dcfa_completion completion;
        struct dcfa_qp *qp = world->qps[0];
        uint32_t errors = 0;
        hostile_scribble(qp->send.entries, ENTRIES * sizeof(struct dcfa_entry));
        hostile_scribble(qp->receive.entries, ENTRIES * sizeof(struct dcfa_entry));
        ((struct dcfa_entry *)qp->send.entries)[0].opcode = DCFA_OPS; /* one that cannot succeed */
        ring(world, &qp->receive, ENTRIES);
        ring(world, &qp->send, ENTRIES);
        while (errors < ENTRIES) { /* all sends: malformed or flushed */
            GOOD(dcfa_wait(world->cq, 1, TCA_DEFAULT, &completion));
            CHECK(completion.result != DCFA_OK, "nonsense has succeeded");
            errors += completion.what < DCFA_RECEIVE;
        }
        world_connect(world);
    }
    const struct dcfa_completion completion = world_move(world, 0, DCFA_WRITE, 0, 8192, 4096);
    CHECK(completion.result == DCFA_OK, "%s", dcfa_result_name(completion.result));
}

static void producer(struct world *world)
{
    ring(world, &world->qps[0]->send, 100 * ENTRIES);
    await_loss(world);
}

static void consumer(struct world *world)
{
    atomic_store(&world->cq->ring.shared->head, 12345);
    ring(world, &world->qps[0]->send, 1);
    await_loss(world);
}

/* All fields that both sides write, while tcad uses them. */
static void everything(struct world *world)
{
    for (int i = 0; i < 200; i++) {
        hostile_scribble((uint8_t *)world->processor->head + sizeof(*world->processor->head),
                         1 << 18);
        atomic_store(&world->processor->head->armed, 0);
        eventfd_write(world->processor->wake_fd, 1);
    }
    await_loss(world);
}

/* The eventfd is shared: the processor fills it, empties it, and makes reading it block. */
static void eventfd_games(struct world *world)
{
    const int fd = world->processor->wake_fd;
    eventfd_t value;
    fcntl(fd, F_SETFL, 0);
    for (int i = 0; i < 1000; i++) {
        eventfd_write(fd, 1);
        eventfd_read(fd, &value);
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    eventfd_write(fd, UINT64_MAX - 1);
    eventfd_read(fd, &value); /* full, it would wake nobody */
    for (int i = 0; i < 100; i++) {
        const struct dcfa_completion completion = world_move(world, 0, DCFA_WRITE, 0, 8192, 4096);
        CHECK(completion.result == DCFA_OK, "%s", dcfa_result_name(completion.result));
    }
}

int main(int argc, char **argv)
{
    static void (*const served[])(struct world *) = {entries,    producer,      consumer,
                                                     everything, eventfd_games, NULL};
    void (*const *attacks)(struct world *) = argc > 1 ? hostile_direct : served;
    int failed = 0;
    for (unsigned i = 0; attacks[i]; i++) {
        state = 0x9e3779b97f4a7c15 + i;
        if (world_run(1, -1, attacks[i]) != 0) {
            fprintf(stderr, "attack %u\n", i);
            failed = 1;
        }
    }
    return failed;
}
