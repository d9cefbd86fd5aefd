/* The states of links: which may follow which. */
#include <assert.h>

#include "daemon/rails/link_internal.h"

#define TO(state) (1u << LINK_##state)

/* From (row) to: a bit per state. */
static const unsigned legal[LINK_STATE_COUNT] = {
    [LINK_IDLE] = TO(CONNECTING) | TO(FAILED),
    /* the other node's offer may already be there, or the driver needs none */
    [LINK_CONNECTING] = TO(OFFERED) | TO(ANSWERING) | TO(CONNECTED) | TO(FAILED),
    [LINK_OFFERED] = TO(ANSWERING) | TO(FAILED),
    [LINK_ANSWERING] = TO(CONNECTED) | TO(FAILED),
    [LINK_CONNECTED] = TO(FAILED),
    [LINK_FAILED] = 0,
};

bool link_state_legal(enum link_state from, enum link_state to)
{
    return from < LINK_STATE_COUNT && to < LINK_STATE_COUNT && (legal[from] & (1u << to));
}

void link_move(struct link *link, enum link_state to)
{
    assert(link_state_legal(link->state, to));
    link->state = to;
}
