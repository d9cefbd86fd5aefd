/* Daemons that send each other requests, on one loop. */
#pragma once

#include "nodes.h"

#include "daemon/peers/peer_internal.h"

static struct reply reply, other;

static inline bool answered(void)
{
    return reply.count == 1;
}

static inline bool both_answered(void)
{
    return reply.count == 1 && other.count == 1;
}

static inline void expect_answer(struct node *node, uint32_t whom, const char *name)
{
    reply = (struct reply){0};
    ask(node, whom, name, LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    cr_assert_str_eq(reply.handle, name);
}
