/* The plans of a messenger. */
#include "client/msg/msg.h"

#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"
#include "client/core/seats.h"

int msg_plan_new(struct tca_msg *msg, uint32_t rank, struct tca_plan **ret_plan)
{
    struct tca_plan_args args = msg->args;
    char name[sizeof(msg->name) + 16];

    snprintf(name, sizeof(name), "%s:%u", msg->name, rank);
    args.name = name;
    return tca_plan_new(msg->session, &args, ret_plan);
}

int msg_commit(const struct msg_peer *peer, struct tca_plan *plan)
{
    const int r = tca_plan_commit(plan, TCA_DEFAULT);

    if (r != -ESTALE)
        return r;
    return error_prefix(msg_error_of(r), "rank %u has ended: ", peer->rank);
}

int msg_plan_put(struct msg_peer *peer, struct tca_msg *msg, const struct msg_put *put,
                 uint32_t slot, struct tca_plan **ret_plan)
{
    struct tca_plan *plan = NULL;
    int r = msg_plan_new(msg, peer->rank, &plan);

    if (r >= 0 && (!put || put->apart))
        plan_puts_apart(plan);
    if (r >= 0 && put)
        r = msg_put_to(plan, put->target, put->source, put->layout, put->bytes);
    if (r >= 0)
        r = tca_plan_notify(plan, peer->rank, slot);
    if (r >= 0)
        r = msg_commit(peer, plan);
    if (r < 0)
        tca_plan_free(plan);
    else
        *ret_plan = plan;
    return r;
}

int msg_plan_notify(struct msg_peer *peer, struct tca_msg *msg, uint32_t slot,
                    struct tca_plan **ret_plan)
{
    return msg_plan_put(peer, msg, NULL, slot, ret_plan);
}

/* The submission ring is full, or the last start, of which the receiver has already seen the
 * notification, is not known to be complete. */
static __attribute__((noinline, cold)) int start_again(struct tca_msg *msg, struct tca_plan *plan)
{
    int r = -EAGAIN;

    for (uint64_t round = 0; r == -EAGAIN || r == -EBUSY; round++) {
        tca_pause(round);
        r = tca_dispatch(msg->session);
        if (r >= 0)
            r = tca_start(plan);
    }
    return r;
}

int msg_plan_start(struct tca_msg *msg, struct tca_plan *plan)
{
    int r = tca_start(plan);

    if (__builtin_expect(r == -EAGAIN || r == -EBUSY, 0))
        r = start_again(msg, plan);
    return r;
}

void msg_plan_free(struct tca_plan *plan)
{
    if (plan && tca_test(plan) != 0)
        tca_plan_free(plan);
}

struct tca_plan *msg_plan_end(struct tca_plan *plan)
{
    if (!plan)
        return NULL;
    tca_wait(plan, TCA_DEFAULT);
    return tca_plan_free(plan);
}
