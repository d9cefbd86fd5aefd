/* Counting pairs, and what they take, for limits and displays. */
#include "daemon/plans/pairs_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/tcad.h"
#include "drivers/seat_bytes.h"

uint64_t pair_bytes(const struct pair *pair)
{
    return seat_bytes(rail_at(pair->tcad, pair->rail)->driver, pair->encrypts);
}

struct count {
    uint64_t session, bytes;
    unsigned count;
};

static void count_one(void *context, void *owner)
{
    struct count *count = context;
    const struct pair *pair = owner;
    if (pair->session != count->session)
        return;
    count->count++;
    count->bytes += pair_bytes(pair);
}

static struct count count_pairs(const struct tcad *tcad, uint64_t session)
{
    struct count count = {.session = session};
    pairs_each(tcad, count_one, &count);
    return count;
}

unsigned pairs_count(const struct tcad *tcad, uint64_t session)
{
    return count_pairs(tcad, session).count;
}

uint64_t pairs_bytes(const struct tcad *tcad, uint64_t session)
{
    return count_pairs(tcad, session).bytes;
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
