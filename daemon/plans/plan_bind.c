/* BINDING: every put and notification of a chain is bound where it lands, here or by asking its
 * node. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/peers/peer.h"
#include "daemon/plans/binding.h"
#include "daemon/plans/plan.h"
#include "daemon/rails/exposure.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/bounce.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

bool plan_chain_is_local(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++)
        if (!chain->steps[i].is_wait && plan->units[chain->steps[i].unit].node != plan->tcad->node)
            return false;
    return true;
}

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
        unit->address = bound->address;
        plan_use_owner(plan, unit);
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

/* Says of each rail that could be meant why it does not lead to the unit's node. */
static void no_rail(struct plan *plan, const struct plan_unit *unit)
{
    static const enum rail rails[] = {RAIL_PEACH2, RAIL_OFI};
    const size_t count = plan->wanted_rail ? 1 : sizeof rails / sizeof rails[0];
    const char *remedy = "";
    char text[320] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof text; i++) {
        const enum rail rail = plan->wanted_rail ? plan->wanted_rail : rails[i];
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s: %s", i ? "; " : "",
                                 rail_name(rail), links_why_not(plan->tcad, rail, unit->node));
        if (exposure_off(plan->tcad, rail))
            remedy = exposure_remedy(plan->tcad);
    }
    plan_fail(plan, -ENETDOWN, "no rail of ours leads to node %" PRIu32 ": %s%s%s", unit->node,
              text, *remedy ? ": " : "", remedy);
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
        no_rail(plan, unit);
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
        unit->region = region_ref(region);
        unit->owner = region->session_id;
        unit->attached = region->attached;
        unit->address = region->address;
        if (plan_use_owner(plan, unit) < 0)
            return plan->error;
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
    char text[512];
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
    r = binding_charge(plan->tcad, &args, text, sizeof text);
    if (r < 0) {
        free(args.layout);
        return plan_fail(plan, r, "%s", text);
    }
    plan->pending++;
    binding_new(plan->tcad, &args, bound_here, unit);
    return 0;
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

void plan_bind(struct plan *plan, struct plan_chain *chain)
{
    if (resolve_chain(plan, chain) < 0)
        return;
    /* Where everything is here, the way is known before anybody is asked; what goes elsewhere is
     * the daemon's. */
    if (plan_chain_is_local(plan, chain)) {
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
