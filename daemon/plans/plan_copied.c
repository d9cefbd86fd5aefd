/*
 * Data for attached memory arrives in staging memory (bounce.h); only the daemon of the owning
 * process knows when the process has copied it to its final address. A chain that depends on that
 * has a call step, which asks this daemon through the loop, because it may be another node's.
 */

#include "daemon/base/loop.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/binding.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/tcad.h"

/* If the process is stopped for longer, the start fails. */
#define COPY_NS UINT64_C(60000000000)

/* ---- the request ---- */

static void finish(struct engine *engine, void *context)
{
    struct plan_unit *unit = context;
    struct driver_op *op = unit->copy_wait.op;
    unit->copy_wait.op = NULL;
    op->done(op, unit->copy_wait.status);
}

static void reply(struct plan_unit *unit, int status)
{
    unit->copy_wait.status = status;
    engine_call(unit->plan->tcad->engine, &unit->copy_wait.call, finish, NULL, unit);
}

static void copied_here(void *context, int status)
{
    reply(context, status);
}

static void copied_there(void *context, int status, const Tca__Message *message, const char *text)
{
    reply(context, status);
}

static void ask_peer(struct plan_unit *unit)
{
    Tca__PeerAwaitCopied request = TCA__PEER_AWAIT_COPIED__INIT;
    request.binding = unit->remote_binding;
    const Tca__Message message = MESSAGE_OF(PEER_AWAIT_COPIED, peer_await_copied, &request);
    peers_request(unit->plan->tcad->peers, unit->node, &message, COPY_NS, copied_there, unit);
}

static void ask(void *context)
{
    struct plan_unit *unit = context;
    if (unit->node != unit->plan->tcad->node) {
        ask_peer(unit);
        return;
    }
    int r = binding_await_copied(unit->binding, copied_here, unit);
    if (r < 0)
        reply(unit, r);
}

/* On the engine's thread. The plan stays until the op is done. */
static int post(void *context, struct driver_op *op)
{
    struct plan_unit *unit = context;
    unit->copy_wait.op = op;
    loop_post_own(unit->plan->tcad->loop, &unit->copy_wait.post, ask, unit);
    return 0;
}

/* ---- in a chain ---- */

static bool is_put(const struct plan *plan, const struct plan_chain *chain, uint32_t step)
{
    return !chain->steps[step].is_wait && plan->units[chain->steps[step].unit].has_target;
}

bool plan_same_owner(const struct plan_unit *a, const struct plan_unit *b)
{
    return a->node == b->node && a->owner == b->owner;
}

/* Puts into attached memory of one process, and notifications to it, keep their order of
 * arrival. */
bool plan_needs_copied(const struct plan_unit *before, const struct plan_unit *unit)
{
    if (unit->has_target && unit->attached)
        return !plan_same_owner(before, unit);
    return !unit->notify || before->node != unit->node || before->owner != unit->notify_session;
}

/* Whether a call for its process exists. */
static bool is_asked(const struct chain_step *calls, uint32_t count, const struct plan_unit *unit)
{
    for (uint32_t i = 0; i < count; i++)
        if (plan_same_owner(calls[i].call.context, unit))
            return true;
    return false;
}

uint32_t plan_await_copied(struct plan *plan, const struct plan_chain *chain, uint32_t from,
                           uint32_t to, struct chain_step *ret_calls)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < to; i++) {
        struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        if (!is_put(plan, chain, i) || !unit->attached || is_asked(ret_calls, count, unit))
            continue;
        ret_calls[count] = (struct chain_step){
            .kind = CHAIN_CALL, .fence = count == 0, .call = {.post = post, .context = unit}};
        count++;
    }
    return count;
}
