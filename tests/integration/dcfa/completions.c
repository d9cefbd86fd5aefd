/* Completions that the program leaves in their queue. */
#include <errno.h>
#include <unistd.h>

#include "tests/integration/dcfa/tests.h"

static int post(struct world *world, uint32_t peer, uint64_t id)
{
    const struct dcfa_piece piece = world_piece(world, 0, 8);
    const struct dcfa_send send = {.id = id,
                                   .what = DCFA_WRITE,
                                   .flags = DCFA_SIGNALLED,
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .remote_address = world->cards[peer].memory,
                                   .remote_key = world->cards[peer].key};
    return dcfa_post_send(world->qps[peer], &send);
}

/* Posts until the queue stays full: no completion gets lost or changes. */
static void unpolled(struct world *world)
{
    uint32_t posted = 0;
    for (int full = 0; full < 50 && posted < 3 * CQ_ENTRIES;) {
        int r = post(world, 1, posted);
        CHECK(r == 0 || r == -EAGAIN, "%d: %s", r, tca_error_text());
        posted += r == 0;
        full = r == 0 ? 0 : full + 1;
        if (r != 0)
            usleep(1000);
    }
    for (uint32_t i = 0; i < posted; i++) {
        const struct dcfa_completion completion = world_wait(world, world->qps[1]);
        expect(completion, DCFA_OK);
        CHECK(completion.id == i, "completion %llu is number %u of %u",
              (unsigned long long)completion.id, i, posted);
    }
}

/* Releases a queue pair whose completions lie between those of another. */
static void released(struct world *world)
{
    enum { EACH = 5 };
    const uint32_t number = dcfa_qp_number(world->qps[0]);
    uint32_t found = 0;
    for (uint32_t i = 0; i < EACH; i++) {
        GOOD(post(world, 0, i));
        GOOD(post(world, 1, 100 + i));
    }
    GOOD(dcfa_qp_free(world->qps[1]));
    world->qps[1] = NULL;
    while (found < EACH) {
        const struct dcfa_completion completion = world_wait(world, NULL);
        if (completion.qp != number)
            continue;
        expect(completion, DCFA_OK);
        CHECK(completion.id == found, "completion %llu is number %u",
              (unsigned long long)completion.id, found);
        found++;
    }
}

void completions(struct world *world)
{
    if (world->rank == 0) {
        unpolled(world);
        released(world);
    }
    world_barrier(world); /* until then, the peer has its queue pair */
    world_connect(world);
    writes_and_reads(world);
}
