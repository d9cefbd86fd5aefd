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
            cr_assert(flows_next(&flows) == &items[flow * EACH + i], "round %u, flow %u", i, flow);
            cr_assert(flows_remove(&flows, flows_next(&flows)));
        }
}
