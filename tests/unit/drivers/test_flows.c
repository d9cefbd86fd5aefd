/* Queues of flows, compared with a model: a list of waiting puts in the order of arrival. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "drivers/flows.h"

enum { PUTS = 40, PEERS = 2, FLOWS = 3, STEPS = 200000 };

static int peers[PEERS];
static struct flow_put items[PUTS];
static struct flow_put *waiting[PUTS]; /* oldest first */
static unsigned count;

static bool same(const struct flow_put *a, const struct flow_put *b)
{
    return a->peer == b->peer && a->flow == b->flow;
}

static unsigned find(const struct flow_put *put)
{
    unsigned at = 0;
    while (at < count && waiting[at] != put)
        at++;
    return at;
}

static bool first_of_flow(const struct flow_put *put)
{
    for (unsigned i = 0; i < count && waiting[i] != put; i++)
        if (same(waiting[i], put))
            return false;
    return true;
}

static void forget(struct flows *flows, struct flow_put *put)
{
    const unsigned at = find(put);
    cr_assert(flows_remove(flows, put) == (at < count));
    if (at == count)
        return;
    count--;
    for (unsigned i = at; i < count; i++)
        waiting[i] = waiting[i + 1];
}

static void check(const struct flows *flows, const struct flow_put *put)
{
    bool busy = false;
    for (unsigned i = 0; i < count; i++)
        busy = busy || same(waiting[i], put);
    cr_assert(flows_busy(flows, put) == busy);
    cr_assert((flows_next(flows) != NULL) == (count > 0));
    if (count > 0)
        cr_assert(first_of_flow(flows_next(flows)), "the next put is not the first of its flow");
}

Test(flows, as_the_model)
{
    struct flows flows = {0};
    srandom(7);
    for (unsigned i = 0; i < PUTS; i++)
        items[i] = (struct flow_put){.peer = &peers[i % PEERS], .flow = i / PEERS % FLOWS};
    for (unsigned step = 0; step < STEPS; step++) {
        struct flow_put *put = &items[random() % PUTS];
        switch (random() % 5) {
        case 0:
        case 1:
            if (find(put) == count) {
                flows_push(&flows, put);
                waiting[count++] = put;
            }
            break;
        case 2:
            if (count > 0)
                flows_turn(&flows);
            break;
        case 3:
            forget(&flows, put);
            break;
        default:
            if (count > 0)
                forget(&flows, flows_next(&flows));
        }
        check(&flows, put);
    }
    while (count > 0)
        forget(&flows, flows_next(&flows));
    cr_assert(!flows_next(&flows));
}

/* Every waiting flow is served once before any is served twice. */
Test(flows, turns)
{
    enum { EACH = 3 };
    struct flows flows = {0};
    for (unsigned i = 0; i < FLOWS * EACH; i++) {
        items[i] = (struct flow_put){.peer = &peers[0], .flow = i / EACH};
        flows_push(&flows, &items[i]);
    }
    for (unsigned round = 0; round < 4; round++)
        for (unsigned flow = 0; flow < FLOWS; flow++, flows_turn(&flows))
            cr_assert(flows_next(&flows) == &items[flow * EACH]);
    for (unsigned i = 0; i < EACH; i++)
        for (unsigned flow = 0; flow < FLOWS; flow++) {
            struct flow_put *put = flows_next(&flows);
            cr_assert(put == &items[flow * EACH + i], "round %u, flow %u", i, flow);
            flows_spend(&flows, 1);
            cr_assert(flows_remove(&flows, put));
        }
}

/* ---- shares ---- */

enum { TURN = 16384, PUT_BYTES = 256 };

static struct flow_put *of_flow(unsigned at, uint64_t flow)
{
    items[at] = (struct flow_put){.peer = &peers[0], .flow = flow};
    return &items[at];
}

/* Short puts, which each have less than a turn, get as many bytes as a long one beside them. */
Test(flows, shares_are_of_bytes)
{
    struct flows flows = {.turn_bytes = TURN};
    uint64_t moved[2] = {0};
    struct flow_put *put;
    flows_push(&flows, of_flow(0, 0)); /* the long one */
    for (unsigned i = 1; i < PUTS; i++)
        flows_push(&flows, of_flow(i, 1));
    while (moved[0] < 64 * TURN) {
        put = flows_next(&flows);
        const uint64_t bytes = put->flow == 0 ? TURN : PUT_BYTES;
        moved[put->flow] += bytes;
        flows_spend(&flows, bytes);
        if (put->flow == 1) { /* it is over, and another one is put behind the others */
            cr_assert(flows_remove(&flows, put));
            flows_push(&flows, put);
        }
        const int64_t ahead = (int64_t)moved[0] - (int64_t)moved[1];
        cr_assert(ahead <= 2 * TURN && ahead >= -2 * TURN, "%d bytes ahead", (int)ahead);
    }
}

/* A piece that is longer than what was left of a turn is paid for in the next ones. */
Test(flows, debts_are_paid)
{
    struct flows flows = {.turn_bytes = TURN};
    uint64_t moved[2] = {0};
    flows_push(&flows, of_flow(0, 0));
    flows_push(&flows, of_flow(1, 1));
    for (unsigned i = 0; i < 1000; i++) {
        const uint64_t flow = flows_next(&flows)->flow, bytes = flow == 0 ? TURN : TURN * 2 / 3;
        moved[flow] += bytes;
        flows_spend(&flows, bytes);
    }
    const int64_t ahead = (int64_t)moved[0] - (int64_t)moved[1];
    cr_assert(ahead <= 2 * TURN && ahead >= -2 * TURN, "%d bytes ahead", (int)ahead);
}

/* A short put does not wait for the long ones of others, however many these are. */
Test(flows, new_flows_come_first)
{
    struct flows flows = {.turn_bytes = TURN};
    for (unsigned i = 0; i < PUTS - 1; i++) {
        flows_push(&flows, of_flow(i, i));
        cr_assert(flows_next(&flows) == &items[i]);
        flows_spend(&flows, TURN);
    }
    flows_push(&flows, of_flow(PUTS - 1, PUTS));
    cr_assert(flows_next(&flows) == &items[PUTS - 1]);
}

/* A long put gets every second turn, however many short ones come. */
Test(flows, new_flows_leave_half)
{
    struct flows flows = {.turn_bytes = TURN};
    unsigned turns[2] = {0};
    flows_push(&flows, of_flow(0, 0));
    flows_spend(&flows, TURN);
    for (unsigned i = 1; i < PUTS; i++)
        flows_push(&flows, of_flow(i, i));
    for (unsigned i = 0; i < 1000; i++) {
        struct flow_put *put = flows_next(&flows);
        turns[put != &items[0]]++;
        if (put == &items[0]) {
            flows_spend(&flows, TURN);
            continue;
        }
        flows_spend(&flows, PUT_BYTES);
        cr_assert(flows_remove(&flows, put));
        flows_push(&flows, put);
    }
    cr_assert(turns[0] == 500 && turns[1] == 500, "%u and %u turns", turns[0], turns[1]);
}
