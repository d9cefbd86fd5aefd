/* BINDING: requests what the puts of a plan need at their targets, for up to BIND_PUTS_MAX puts at
 * a time, from this node's bindings (binding.c) or from another daemon. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bindings/binding.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/parts.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/status.h"

enum { REQUEST_BYTES_MAX = 1 << 20 }; /* of layouts, unless a single one is longer */

/* Consecutive requests for the same node. */
struct request {
    struct plan *plan;
    uint32_t first, count;
    uint32_t rail_count;
    uint8_t rails[RAILS_MAX]; /* offered to the other daemon, in this order */
};

static struct plan_transfer *transfer_of(const struct request *request, uint32_t i)
{
    const struct plan *plan = request->plan;
    return &plan->transfers[plan->asks[request->first + i].transfer];
}

static void replied(struct request *request)
{
    struct plan *plan = request->plan;
    free(request);
    plan_done(plan);
}

/* ---- on this node ---- */

static void bound_here(void *context, const struct bindings_made *made)
{
    struct request *request = context;
    if (made->status < 0)
        plan_fail_transfer(request->plan, transfer_of(request, (uint32_t)made->which), made->status,
                           made->text);
    for (uint32_t i = 0; made->status == 0 && i < request->count; i++) {
        struct plan_transfer *transfer = transfer_of(request, i);
        struct binding *binding = made->bindings[i];
        transfer->binding = made->bindings[i];
        transfer->rails = binding->rails;
        for (unsigned rail = 1; rail <= request->plan->tcad->rails->last; rail++)
            if (transfer->rails & 1u << rail)
                *plan_blob(request->plan, transfer, rail) = binding_landing(binding, rail)->blob;
    }
    replied(request);
}

/* Rails that lead both to other nodes and to this one. */
static unsigned rails_of_both(const struct tcad *tcad)
{
    unsigned rails = 0;
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
        rails |= caps && caps->same_node && caps->other_nodes ? 1u << rail : 0;
    }
    return rails;
}

static int fill_args(struct plan *plan, const struct plan_transfer *transfer,
                     struct binding_args *args)
{
    char text[512];
    int r = 0;
    const unsigned rail = plan_transfer_rail(transfer, plan->chains[transfer->chain].bound.rail);
    *args = (struct binding_args){
        .node = plan->tcad->node,
        .asker = plan->session->id,
        .region = transfer->region,
        .notify = transfer->notify ? session_find(plan->tcad, transfer->notify_session) : NULL,
        .line = transfer->line,
        .signal = transfer->signal,
        .rails = rail ? 1u << rail : rails_of_both(plan->tcad),
        .owned = true,
    };
    if (transfer->notify && !args->notify) {
        snprintf(text, sizeof(text), "rank %" PRIu32 ", to be notified, has ended", transfer->rank);
        r = -EOWNERDEAD;
    }
    if (r == 0 && transfer->has_target) {
        args->offset_bytes = transfer->handle.offset_bytes + transfer->target_offset;
        r = layout_dup(transfer->target_layout, &args->layout);
        if (r < 0)
            snprintf(text, sizeof(text), "out of memory for a layout");
    }
    if (r == 0)
        r = binding_charge(plan->tcad, args, text, sizeof(text));
    return r < 0 ? plan_fail_transfer(plan, transfer, r, text) : 0;
}

/* 0: bound_here() will be called. */
static int ask_here(struct request *request)
{
    struct plan *plan = request->plan;
    struct binding_args args[BIND_PUTS_MAX];
    int r = 0;
    for (uint32_t i = 0; i < request->count; i++) {
        if ((r = fill_args(plan, transfer_of(request, i), &args[i])) == 0)
            continue;
        binding_args_drop(plan->tcad, args, i + 1);
        return r;
    }
    r = bindings_make(plan->tcad, args, request->count, bound_here, request);
    return r < 0 ? plan_fail(plan, r, "out of memory for bindings") : 0;
}

/* ---- on another node ---- */

static bool is_direct(const struct request *request)
{
    return request->plan->asks[request->first].seat == SEAT_CLIENT;
}

static void take_landings(const struct request *request, struct plan_transfer *transfer,
                          const Tca__BoundPut *bound)
{
    transfer->bindings[request->plan->asks[request->first].seat] = bound->binding;
    transfer->owner = bound->owner;
    transfer->address = bound->address;
    for (size_t i = 0; i < bound->n_landings; i++) {
        const Tca__Landing *landing = bound->landings[i];
        if (landing->rail >= request->rail_count || landing->blob.len > LANDING_MAX_BYTES)
            continue;
        const unsigned rail = request->rails[landing->rail];
        struct landing_blob *blob = plan_blob(request->plan, transfer, rail);
        transfer->rails |= 1u << rail;
        blob->bytes = (uint8_t)landing->blob.len;
        memcpy(blob->blob, landing->blob.data, landing->blob.len);
    }
}

/* The other node knows the session that is to be notified, but not its rank once it has ended. */
static void fail_transfer(struct request *request, const struct plan_transfer *transfer,
                          const Tca__Failure *failure)
{
    char text[64];
    const int status = status_from_wire(failure->status);
    const bool ended = status == -EOWNERDEAD && transfer->notify;
    if (ended)
        snprintf(text, sizeof(text), "rank %" PRIu32 ", to be notified, has ended", transfer->rank);
    plan_fail_transfer(request->plan, transfer, status < 0 ? status : -EPROTO,
                       ended ? text : failure->text);
}

static void take_bound(struct request *request, const Tca__PeerBound *bound)
{
    struct plan *plan = request->plan;
    if (bound->failure && bound->failed < request->count) {
        fail_transfer(request, transfer_of(request, bound->failed), bound->failure);
        return;
    }
    for (uint32_t i = 0; i < request->count && i < bound->n_puts; i++) {
        struct plan_transfer *transfer = transfer_of(request, i);
        take_landings(request, transfer, bound->puts[i]);
        if (is_direct(request))
            plan_take_direct(plan, transfer, bound->puts[i]);
        else if (!transfer->rails)
            plan_fail_transfer(plan, transfer, -EPROTO,
                               "its node has bound it to none of the rails of this node");
        if (plan->state < PLAN_READY) /* else it does already */
            plan_use_owner(plan, transfer);
    }
    if (bound->failure || bound->n_puts != request->count)
        plan_fail(plan, -EPROTO,
                  "node %" PRIu32 " was asked to bind %" PRIu32 " puts, and bound %zu",
                  transfer_of(request, 0)->node, request->count, bound->n_puts);
}

static void bound_there(void *context, int status, const Tca__Message *reply, const char *text)
{
    struct request *request = context;
    if (status < 0)
        plan_fail(request->plan, status, "%s", text);
    else if (reply->body_case != TCA__MESSAGE__BODY_PEER_BOUND)
        plan_fail(request->plan, -EPROTO, "node %" PRIu32 " sent an unexpected reply to a bind",
                  transfer_of(request, 0)->node);
    else
        take_bound(request, reply->peer_bound);
    replied(request);
}

/* Fails the plan, with the reason why each eligible rail does not lead to the transfer's node. */
static int no_rail(struct plan *plan, const struct plan_transfer *transfer)
{
    const struct tcad *tcad = plan->tcad;
    const unsigned rails = plan->wanted_rails ? plan->wanted_rails : ~(1u << RAIL_SHM);
    const char *remedy = "";
    char text[320] = "", others[PLAN_OTHERS_BYTES];
    size_t used = 0;
    for (unsigned rail = 1; rail <= tcad->rails->count && used < sizeof(text); rail++) {
        if (!(rails & 1u << rail))
            continue;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s: %s", used ? "; " : "",
                                 rail_name(tcad, rail), links_why_not(tcad, rail, transfer->node));
        if (*rail_at(tcad, rail)->remedy)
            remedy = rail_at(tcad, rail)->remedy;
    }
    return plan_fail(plan, -ENETDOWN, "no rail %s leads to node %" PRIu32 ": %s%s%s%s",
                     plan->wanted_rails ? "that the plan may use" : "of this node", transfer->node,
                     text, *remedy ? ": " : "", remedy,
                     plan_other_rails(plan, transfer->node, others));
}

static void fill_put(struct plan_transfer *transfer, Tca__BindPut *put)
{
    tca__bind_put__init(put);
    if (transfer->has_target) {
        put->handle = (ProtobufCBinaryData){sizeof(transfer->handle_bytes), transfer->handle_bytes};
        put->offset = transfer->target_offset;
        put->layout = (ProtobufCBinaryData){layout_bytes(transfer->target_layout),
                                            (uint8_t *)transfer->target_layout};
    }
    put->signal = transfer->signal;
    put->notify = transfer->notify;
    put->notify_session = transfer->notify_session;
    put->notify_slot = transfer->slot;
}

static void add_key(Tca__PeerBind *bind, const struct rail *rail, Tca__RailKey *key)
{
    tca__rail_key__init(key);
    key->driver = (char *)driver_name(rail->driver);
    key->plane = (char *)rail->plane;
    bind->rails[bind->n_rails++] = key;
}

/* 0: bound_there() will be called. */
static int ask_peer(struct request *request)
{
    struct plan *plan = request->plan;
    const uint32_t node = transfer_of(request, 0)->node;
    Tca__BindPut puts[BIND_PUTS_MAX], *list[BIND_PUTS_MAX];
    Tca__RailKey keys[RAILS_MAX], *key_list[RAILS_MAX];

    const struct plan_chain *chain = &plan->chains[transfer_of(request, 0)->chain],
                            *direct = is_direct(request) ? chain : NULL;
    Tca__PeerBind bind = BODY_OF(peer_bind, .direct = direct != NULL, .user = plan->session->uid,
                                 .session = plan->session->id, .group = plan->session->group,
                                 .rank = plan->session->rank, .rails = key_list);
    for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++) {
        if (!links_possible(plan->tcad, rail, node) || (direct && rail != direct->pair_rail) ||
            (plan->wanted_rails && !(plan->wanted_rails & 1u << rail)))
            continue;
        request->rails[bind.n_rails] = (uint8_t)rail;
        add_key(&bind, rail_at(plan->tcad, rail), &keys[bind.n_rails]);
    }
    request->rail_count = (uint32_t)bind.n_rails;
    if (bind.n_rails == 0)
        return no_rail(plan, transfer_of(request, 0));
    for (uint32_t i = 0; i < request->count; i++) {
        fill_put(transfer_of(request, i), &puts[i]);
        list[i] = &puts[i];
    }
    bind.n_puts = request->count;
    bind.puts = list;
    const Tca__Message message = MESSAGE_OF(PEER_BIND, peer_bind, &bind);
    peers_request(plan->tcad->peers, node, &message, plan->timeout_ns, bound_there, request);
    return 0;
}

/* ---- all asks ---- */

static int compare_asks(const void *a, const void *b)
{
    const struct plan_ask *one = a, *other = b;
    if (one->node != other->node)
        return one->node < other->node ? -1 : 1;
    if (one->seat != other->seat)
        return one->seat < other->seat ? -1 : 1;
    return (one->transfer > other->transfer) - (one->transfer < other->transfer);
}

/* The number of following requests that fit into one message. */
static uint32_t next_count(const struct plan *plan)
{
    const struct plan_ask *asks = plan->asks + plan->asked;
    const uint32_t left = plan->ask_count - plan->asked;
    size_t bytes = 0;
    uint32_t count = 0;
    while (count < left && count < BIND_PUTS_MAX && asks[count].node == asks[0].node &&
           asks[count].seat == asks[0].seat) {
        const struct plan_transfer *transfer = &plan->transfers[asks[count].transfer];
        bytes += transfer->has_target ? layout_bytes(transfer->target_layout) : 0;
        if (count > 0 && bytes > REQUEST_BYTES_MAX)
            break;
        count++;
    }
    return count;
}

static bool ask_next(struct plan *plan)
{
    if (plan->asked == plan->ask_count || !plan_works(plan))
        return false;
    struct request *request = malloc(sizeof(*request));
    if (!request)
        return plan_fail(plan, -ENOMEM, "out of memory for binding puts") == 0;
    *request = (struct request){plan, plan->asked, next_count(plan)};
    plan->asked += request->count;
    plan->pending++;
    if ((transfer_of(request, 0)->node == plan->tcad->node ? ask_here(request)
                                                           : ask_peer(request)) == 0)
        return true;
    plan->pending--;
    free(request);
    return false;
}

/* Mostly they are in order already: sorting 65,536 takes some 10 ms, in which the loop serves
 * nobody. */
static void sort_asks(struct plan *plan)
{
    for (uint32_t i = 1; i < plan->ask_count; i++) {
        if (compare_asks(&plan->asks[i - 1], &plan->asks[i]) < 0)
            continue;
        qsort(plan->asks, plan->ask_count, sizeof(plan->asks[0]), compare_asks);
        return;
    }
}

void plan_ask(struct plan *plan)
{
    sort_asks(plan);
    plan_in_slices(plan, ask_next, NULL);
}
