/* A commit, step by step: see the states in plan.h. Whatever fails, plan_advance() answers the
 * client and releases what was made. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/binding.h"
#include "daemon/bounce.h"
#include "daemon/link.h"
#include "daemon/peer.h"
#include "daemon/plan.h"
#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"
#include "daemon/worker.h"

/* ---- BINDING ---- */

static void bound_here(void *context, int status, struct binding *binding, const char *text)
{
    struct plan_unit *unit = context;
    struct plan *plan = unit->plan;
    if (status < 0) {
        plan_fail(plan, status, "%s", text);
    } else {
        unit->binding = binding;
        unit->rails = binding->rails;
        memcpy(unit->blob, binding->blob, sizeof unit->blob);
        memcpy(unit->blob_bytes, binding->blob_bytes, sizeof unit->blob_bytes);
    }
    plan->pending--;
    plan_advance(plan);
}

static void bound_there(void *context, int status, const Tca__Message *answer, const char *text)
{
    struct plan_unit *unit = context;
    struct plan *plan = unit->plan;
    if (status < 0) {
        plan_fail(plan, status, "%s", text);
    } else if (answer->body_case != TCA__MESSAGE__BODY_PEER_BOUND) {
        plan_fail(plan, -EPROTO, "node %" PRIu32 " answered a bind with something else",
                  unit->node);
    } else {
        const Tca__PeerBound *bound = answer->peer_bound;
        unit->remote_binding = bound->binding;
        unit->owner = bound->owner;
        unit->attached = bound->attached;
        for (size_t i = 0; i < bound->n_landings; i++) {
            const Tca__Landing *landing = bound->landings[i];
            enum rail rail = rail_from_name(landing->driver);
            if (rail == RAIL_NONE || landing->blob.len > LANDING_MAX_BYTES)
                continue;
            unit->rails |= 1u << rail;
            unit->blob_bytes[rail] = landing->blob.len;
            memcpy(unit->blob[rail], landing->blob.data, landing->blob.len);
        }
    }
    plan->pending--;
    plan_advance(plan);
}

static void ask_peer(struct plan *plan, struct plan_unit *unit)
{
    Tca__PeerBind bind = TCA__PEER_BIND__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    char *drivers[RAIL_COUNT];

    bind.user = plan->session->uid;
    bind.session = plan->session->id;
    bind.group = plan->session->group;
    bind.rank = plan->session->rank;
    if (unit->has_target) {
        bind.handle = (ProtobufCBinaryData){sizeof unit->handle_bytes, unit->handle_bytes};
        bind.offset = unit->target_offset;
        bind.layout = (ProtobufCBinaryData){layout_bytes(unit->target_layout),
                                            (uint8_t *)unit->target_layout};
    }
    bind.notify = unit->notify;
    bind.notify_session = unit->notify_session;
    bind.notify_slot = unit->slot;
    bind.drivers = drivers;
    for (int rail = 0; rail < RAIL_COUNT; rail++) {
        if (links_possible(plan->tcad, rail, unit->node) &&
            (!plan->wanted_rail || plan->wanted_rail == (enum rail)rail))
            drivers[bind.n_drivers++] = (char *)rail_name(rail);
    }
    if (bind.n_drivers == 0) {
        plan_fail(plan, -ENETDOWN,
                  "no rail of ours leads to node %" PRIu32 ": %s was asked for (rails.enable)",
                  unit->node, plan->wanted_rail ? rail_name(plan->wanted_rail) : "any");
        return;
    }
    message.body_case = TCA__MESSAGE__BODY_PEER_BIND;
    message.peer_bind = &bind;
    plan->pending++;
    peers_ask(plan->tcad->peers, unit->node, &message, plan->timeout_ns, bound_there, unit);
}

/* On this node: the handle and the notified session are looked up now. */
static int resolve_here(struct plan *plan, struct plan_unit *unit)
{
    char text[256];
    if (unit->has_target) {
        struct region *region;
        struct handle handle;
        int r = region_resolve(plan->tcad, unit->handle_bytes, HANDLE_BYTES, plan->session->uid,
                               &region, &handle, text, sizeof text);
        if (r < 0)
            return plan_fail(plan, r, "%s", text);
        if (plan->landed && region->attached)
            return plan_fail(
                plan, -EOPNOTSUPP,
                "region %" PRIu64
                " is memory that its process has attached: what is put there lands when "
                "that process looks (no TCA_PLAN_LANDED)",
                region->id);
        unit->region = region_ref(region);
        unit->owner = region->session_id;
        unit->attached = region->attached;
    }
    if (unit->notify) {
        struct session *session = session_find(plan->tcad, unit->notify_session);
        if (!session)
            return plan_fail(plan, -EOWNERDEAD, "rank %" PRIu32 ", to be notified, has ended",
                             unit->rank);
        if (plan->session->rank >= session->sources)
            return plan_fail(plan, -EPROTO, "rank %" PRIu32 " has said that its group is smaller",
                             unit->rank);
    }
    return 0;
}

/* Those that lead to other nodes and to this one. */
static unsigned rails_of_both(const struct tcad *tcad)
{
    unsigned rails = 0;
    for (int rail = 0; rail < RAIL_COUNT; rail++) {
        const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
        rails |= caps && caps->same_node && caps->other_nodes ? 1u << rail : 0;
    }
    return rails;
}

static int bind_here(struct plan *plan, const struct plan_chain *chain, struct plan_unit *unit)
{
    struct session *notify = unit->notify ? session_find(plan->tcad, unit->notify_session) : NULL;
    char text[400];
    int r;
    if (chain->seat == SEAT_CLIENT)
        return 0; /* the client maps it */
    if (unit->has_target && (r = bounce_admit(unit->region, BOUNCE_IN, text, sizeof text)) < 0)
        return plan_fail(plan, r, "%s", text);
    struct binding_args args = {
        .node = plan->tcad->node,
        .asker = plan->session->id,
        .rank = plan->session->rank,
        .region = unit->region,
        .notify = notify,
        .slot = unit->slot,
        .rails = chain->rail ? 1u << chain->rail : rails_of_both(plan->tcad),
        .owned = true,
    };
    if (unit->has_target) {
        args.offset_bytes = unit->handle.offset_bytes + unit->target_offset;
        r = layout_dup(unit->target_layout, &args.layout);
        if (r < 0)
            return plan_fail(plan, r, "no memory for a layout");
    }
    plan->pending++;
    binding_new(plan->tcad, &args, bound_here, unit);
    return 0;
}

static bool is_local(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++)
        if (!chain->steps[i].is_wait && plan->units[chain->steps[i].unit].node != plan->tcad->node)
            return false;
    return true;
}

static int resolve_chain(struct plan *plan, const struct plan_chain *chain)
{
    int r = 0;
    for (uint32_t i = 0; i < chain->step_count && r == 0; i++) {
        struct plan_unit *unit =
            chain->steps[i].is_wait ? NULL : &plan->units[chain->steps[i].unit];
        if (unit && unit->node == plan->tcad->node)
            r = resolve_here(plan, unit);
    }
    return r;
}

static void bind_chain(struct plan *plan, struct plan_chain *chain)
{
    if (resolve_chain(plan, chain) < 0)
        return;
    /* Where everything is here, the way is known before anybody is asked; what goes elsewhere is
     * the daemon's. */
    if (is_local(plan, chain)) {
        if (plan_route(plan, chain) < 0)
            return;
    } else {
        if (plan->wanted_seat == SEAT_CLIENT) {
            plan_fail(plan, -ENETDOWN,
                      "chain %u goes to another node: the client cannot reach it by load and store",
                      (unsigned)(chain - plan->chains));
            return;
        }
        chain->seat = SEAT_DAEMON;
        chain->rail = RAIL_NONE; /* plan_route() decides when the others have answered: what lands
                                    here must be ready for any */
    }
    for (uint32_t i = 0; i < chain->step_count && plan->error == 0; i++) {
        if (chain->steps[i].is_wait)
            continue;
        struct plan_unit *unit = &plan->units[chain->steps[i].unit];
        if (unit->node == plan->tcad->node)
            bind_here(plan, chain, unit);
        else
            ask_peer(plan, unit);
    }
}

/* ---- REGISTERING: on the worker ---- */

static void register_work(void *context)
{
    struct plan *plan = context;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        struct plan_unit *unit = &plan->units[i];
        if (!unit->driver)
            continue;
        int r = unit->source ? region_register(unit->source, unit->driver) : 0;
        if (r == 0)
            r = link_connect(unit->link);
        if (r < 0) {
            plan_fail(plan, r, "rail %s to node %" PRIu32 ": %s",
                      rail_name(unit->driver->ops->rail), unit->node, strerror(-r));
            return;
        }
    }
}

static void settled(void *context)
{
    struct plan *plan = context;
    plan->pending--;
    plan_advance(plan);
}

/* Picks every daemon-seat unit's driver and link. */
static int choose(struct plan *plan)
{
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        struct plan_chain *chain = &plan->chains[i];
        int r = is_local(plan, chain) ? 0 : plan_route(plan, chain);
        if (r < 0)
            return r;
        plan_note_unreached(plan, chain);
        if (chain->seat == SEAT_CLIENT) {
            plan->client_part = true;
            continue;
        }
        plan->run.chain_count++;
        r = plan_bounce_admit(plan, chain);
        if (r == 0)
            r = plan_take_links(plan, chain);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- the walk ---- */

void plan_register(struct plan *plan)
{
    if (!plan->run.chains)
        plan->run.chains = calloc(plan->run.chain_count, sizeof *plan->run.chains);
    if (!plan->run.chains) {
        plan_fail(plan, -ENOMEM, "no memory for %" PRIu32 " chains", plan->run.chain_count);
        return;
    }
    plan_set_state(plan, PLAN_REGISTERING);
    if (worker_submit(plan->tcad->worker, register_work, settled, plan) < 0)
        plan_fail(plan, -ENOMEM, "no memory");
    else
        plan->pending++;
}

static void become_ready(struct plan *plan)
{
    plan_set_state(plan, PLAN_READY);
    if (plan->committed) {
        plan_rebound(plan);
        return;
    }
    plan->committed = true;
    plan_answer(plan);
    plan_watch(plan);
}

void plan_advance(struct plan *plan)
{
    if (plan->pending > 0)
        return;
    if (plan->error < 0 && plan->committed && plan->state != PLAN_BROKEN && !plan->release_asked) {
        plan_end_starts(plan); /* it could not be re-bound */
        return;
    }
    if (plan->state == PLAN_BROKEN || plan->release_asked || plan->error < 0 || !plan->session) {
        plan_release(plan);
        return;
    }
    switch (plan->state) {
    case PLAN_BINDING:
        if (choose(plan) < 0)
            break;
        if (plan->run.chain_count > 0) {
            plan_register(plan);
            break;
        }
        become_ready(plan);
        return;
    case PLAN_REGISTERING:
        if (plan_bounce_tell(plan) < 0)
            break;
        plan_set_state(plan, PLAN_PREPARING);
        plan->pending++;
        engine_call(plan->tcad->engine, plan_prepare, settled, plan);
        return;
    case PLAN_PREPARING:
        become_ready(plan);
        return;
    default:
        return;
    }
    if (plan->error < 0 && plan->pending == 0)
        plan_release(plan);
}

static int take_id(struct session *session, struct plan *plan)
{
    if (!session->plans) {
        session->plans = calloc(PLANS_PER_SESSION_MAX, sizeof *session->plans);
        if (!session->plans)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < PLANS_PER_SESSION_MAX; i++) {
        if (session->plans[i])
            continue;
        plan->id = i;
        session->plans[i] = plan;
        session->plan_count++;
        session->plan_bytes += plan->memory_bytes;
        session->step_count += plan->step_count;
        return 0;
    }
    return -EDQUOT;
}

void plan_commit(struct session *session, uint32_t tag, const Tca__PlanCommit *commit)
{
    struct tcad *tcad = session->tcad;
    if (tcad->draining) {
        session_fail(session, tag, -EBUSY,
                     "node %s is draining: no new plans (tcactl drain off ends that)",
                     tcad->conf->node.name);
        return;
    }
    if (session->plan_count >= tcad->conf->limits.plans_per_session) {
        session_fail(session, tag, -EDQUOT,
                     "session %" PRIu64 " has %" PRIu32
                     " plans, limits.plans_per_session is %" PRIu32 ": free some",
                     session->id, session->plan_count, tcad->conf->limits.plans_per_session);
        return;
    }
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        session_fail(session, tag, -ENOMEM, "no memory for a plan");
        return;
    }
    plan->tcad = tcad;
    plan->session = session;
    plan->session_id = session->id;
    plan->tag = tag;
    int r = plan_parse(plan, commit);
    if (r == 0) {
        r = take_id(session, plan);
        if (r < 0)
            plan_fail(plan, r, "session %" PRIu64 " has no place for another plan: free some",
                      session->id);
    }
    if (r < 0) {
        session_fail(session, tag, r, "%s", plan->error_text);
        plan_free(plan);
        return;
    }
    plan_set_state(plan, PLAN_BINDING);
    plan->pending++;
    for (uint32_t i = 0; i < plan->chain_count && plan->error == 0; i++)
        bind_chain(plan, &plan->chains[i]);
    plan->pending--;
    plan_advance(plan);
}
