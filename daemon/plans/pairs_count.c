/* Counting pairs, and what they take, for displays. */
#include "daemon/plans/pairs_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/seat_bytes.h"

uint64_t pair_bytes(const struct pair *pair)
{
    return seat_bytes(rail_at(pair->tcad, pair->rail)->driver, pair->encrypts);
}

uint64_t pairs_bytes(const struct session *session)
{
    uint64_t bytes = 0;
    for (const struct pair *pair = session->pairs; pair; pair = pair->next_of_session)
        bytes += pair_bytes(pair);
    return bytes;
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
