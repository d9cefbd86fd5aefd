/* Counting pairs, for limits and displays. */
#include "daemon/plans/pairs_internal.h"
#include "daemon/tcad.h"

struct count {
    uint64_t session;
    unsigned count;
};

static void count_one(void *context, void *owner)
{
    struct count *count = context;
    const struct pair *pair = owner;
    count->count += pair->session == count->session;
}

unsigned pairs_count(const struct tcad *tcad, uint64_t session)
{
    struct count count = {.session = session};
    pairs_each(tcad, count_one, &count);
    return count.count;
}

struct count_to {
    uint32_t node;
    unsigned rail;
    bool made; /* by the daemons: then there is none before it was handed over */
    struct pairs_to to;
};

static void count_one_to(void *context, void *owner)
{
    struct count_to *count = context;
    const struct pair *pair = owner;
    if (pair->node != count->node || pair->rail != count->rail || (count->made && pair->turn == 0))
        return;
    count->to.encrypted += pair->encrypts;
    count->to.plain += !pair->encrypts;
}

struct pairs_to pairs_to_node(const struct tcad *tcad, uint32_t node, unsigned rail)
{
    struct count_to count = {.node = node, .rail = rail, .made = pairs_are_made(tcad, rail)};
    pairs_each(tcad, count_one_to, &count);
    return count.to;
}
