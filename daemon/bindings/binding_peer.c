/* Bindings requested by other daemons. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/bindings/binding.h"
#include "daemon/bindings/pairs.h"
#include "daemon/peers/peer.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/status.h"

struct request {
    struct tcad *tcad;
    uint32_t node, tag;
    size_t count;
    uint8_t places[RAIL_SLOTS]; /* by rail: index in the request */
    unsigned pair_rail;         /* the asking process puts itself, over this rail; 0: it does not */
};

/* ---- replies ---- */

struct draft {
    Tca__BoundPut put;
    Tca__Landing landings[RAIL_SLOTS], *list[RAIL_SLOTS];
};

static void draft_pair(Tca__BoundPut *put, const struct binding *binding)
{
    struct pair *pair = pair_find(binding->tcad, binding->pair);
    put->landing = binding->place;
    put->generation = binding->generation;
    if (!pair)
        return;
    pair_name(pair);
    put->pair = pair->connection;
    put->secret =
        (ProtobufCBinaryData){pairs_secret_bytes(binding->tcad, pair->rail), pair->secret};
    put->receiver = pair->session;
}

static void draft_init(struct draft *draft, const struct request *request, struct binding *binding)
{
    Tca__BoundPut *put = &draft->put;
    tca__bound_put__init(put);
    put->binding = binding->id;
    put->owner = binding->region ? binding->region->session_id : 0;
    put->address = binding->region ? binding->region->address : 0;
    put->landings = draft->list;
    if (binding->pair)
        draft_pair(put, binding);
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++) {
        if (!(binding->rails & (1u << rail)))
            continue;
        Tca__Landing *landing = &draft->landings[put->n_landings];
        tca__landing__init(landing);
        struct landing_blob *blob = &binding_landing(binding, rail)->blob;
        landing->rail = request->places[rail];
        landing->blob = (ProtobufCBinaryData){blob->bytes, blob->blob};
        draft->list[put->n_landings++] = landing;
    }
}

static void reply(const struct request *request, Tca__PeerBound *bound)
{
    const Tca__Message message = MESSAGE_OF(PEER_BOUND, peer_bound, bound);
    peers_reply(request->tcad->peers, request->node, request->tag, &message);
}

static void reply_failure(const struct request *request, size_t which, int error, const char *text)
{
    Tca__Failure failure = BODY_OF(failure, .status = status_to_wire(error), .text = (char *)text);
    Tca__PeerBound bound = BODY_OF(peer_bound, .failure = &failure, .failed = (uint32_t)which);
    reply(request, &bound);
}

static void reply_bound(const struct request *request, struct binding *const *bindings)
{
    struct draft *drafts = calloc(request->count, sizeof(*drafts));
    Tca__BoundPut *list[BIND_PUTS_MAX];
    if (!drafts) {
        for (size_t i = 0; i < request->count; i++)
            binding_end(bindings[i]);
        reply_failure(request, 0, -ENOMEM, "out of memory for a reply");
        return;
    }
    for (size_t i = 0; i < request->count; i++) {
        draft_init(&drafts[i], request, bindings[i]);
        list[i] = &drafts[i].put;
    }
    Tca__PeerBound bound = BODY_OF(peer_bound, .n_puts = request->count, .puts = list);
    reply(request, &bound);
    free(drafts);
}

static void made(void *context, const struct bindings_made *made)
{
    struct request *request = context;
    if (made->status < 0)
        reply_failure(request, made->which, made->status, made->text);
    else
        reply_bound(request, made->bindings);
    free(request);
}

/* ---- checks ---- */

/* Checks that the requester may notify the session: same user, same group, and the rank is the
 * requester's. */
static int check_notified(struct tcad *tcad, uint32_t node, const Tca__PeerBind *bind,
                          const Tca__BindPut *put, struct binding_args *args, char *text,
                          size_t text_bytes)
{
    struct session *session = session_find(tcad, put->notify_session);
    if (!session) {
        snprintf(text, text_bytes,
                 "session %" PRIu64 " of node %" PRIu32 ", to be notified, has ended",
                 put->notify_session, tcad->node);
        return -EOWNERDEAD;
    }
    if (session->uid != bind->user || strcmp(session->group, bind->group) != 0 ||
        !session->joined) {
        snprintf(text, text_bytes,
                 "session %" PRIu64 " of node %" PRIu32 " is not of group \"%s\" of user %u",
                 session->id, tcad->node, bind->group, bind->user);
        return -EACCES;
    }
    if (bind->rank >= session->sources || bind->rank >= session->size ||
        session->members->list[bind->rank].node != node ||
        session->members->list[bind->rank].session != bind->session) {
        snprintf(text, text_bytes,
                 "session %" PRIu64 " of node %" PRIu32 " is not rank %u of group \"%s\"",
                 bind->session, node, bind->rank, bind->group);
        return -EACCES;
    }
    args->notify = session;
    return 0;
}

static int check_target(struct tcad *tcad, uid_t user, const Tca__BindPut *put,
                        struct binding_args *args, char *text, size_t text_bytes)
{
    struct region *region;
    struct handle handle;
    const char *why;

    int r = region_resolve(tcad, put->handle.data, put->handle.len, user, &region, &handle, text,
                           text_bytes);
    if (r < 0)
        return r;
    struct layout *layout = malloc(put->layout.len ? put->layout.len : 1);
    if (!layout) {
        snprintf(text, text_bytes, "out of memory for a layout of %zu bytes", put->layout.len);
        return -ENOMEM;
    }
    if (put->layout.len > 0) /* an empty layout: no data */
        memcpy(layout, put->layout.data, put->layout.len);
    args->layout = layout; /* freed by the caller on failure */
    r = layout_check(layout, put->layout.len, &why);
    if (r < 0) {
        snprintf(text, text_bytes, "target layout: %s", why);
        return r;
    }
    if (!layout_fits(layout, put->offset, handle.length_bytes)) {
        char description[128];
        layout_describe(layout, description, sizeof(description));
        snprintf(text, text_bytes,
                 "target layout %s at offset %" PRIu64 " does not fit the %" PRIu64
                 " bytes of the handle",
                 description, put->offset, handle.length_bytes);
        return -EINVAL;
    }
    if (layout->size_bytes > handle.length_bytes) {
        snprintf(text, text_bytes,
                 "the target layout has %" PRIu64 " bytes, the handle's part %" PRIu64
                 ": some would be written more than once",
                 layout->size_bytes, handle.length_bytes);
        return -EINVAL;
    }
    args->region = region;
    args->offset_bytes = handle.offset_bytes + put->offset;
    args->part_offset_bytes = handle.offset_bytes;
    args->part_bytes = handle.length_bytes;
    return 0;
}

static int check_counter(const Tca__BindPut *put, struct binding_args *args, char *text,
                         size_t text_bytes)
{
    if (put->notify || !args->region || args->layout->size_bytes != sizeof(uint64_t) ||
        !layout_is_contiguous(args->layout) || args->layout->lower_bytes != 0) {
        snprintf(text, text_bytes,
                 "a signal adds to a counter of 8 bytes, and comes without a notification");
        return -EINVAL;
    }
    args->signal = put->signal;
    return region_counter(args->region, args->offset_bytes, &args->line, text, text_bytes);
}

static int check_put(struct tcad *tcad, uint32_t node, const Tca__PeerBind *bind,
                     const Tca__BindPut *put, struct binding_args *args, char *text,
                     size_t text_bytes)
{
    int r = 0;
    if (!put->handle.len && !put->notify) {
        snprintf(text, text_bytes, "a binding needs a handle or a notification");
        return -EINVAL;
    }
    if (put->notify) /* first: the end of a process says more than that of its memory */
        r = check_notified(tcad, node, bind, put, args, text, text_bytes);
    if (r == 0 && put->handle.len)
        r = check_target(tcad, bind->user, put, args, text, text_bytes);
    if (r == 0 && put->signal)
        r = check_counter(put, args, text, text_bytes);
    if (r == 0 && put->notify)
        r = session_line(args->notify, bind->rank, put->notify_slot, &args->line, text, text_bytes);
    return r < 0 ? r : binding_charge(tcad, args, text, text_bytes);
}

/* One process receives data and notification. */
static int check_pair(const struct request *request, const Tca__PeerBind *bind,
                      struct binding_args *args, char *text, size_t text_bytes)
{
    struct session *to = args->region ? args->region->session : args->notify;
    struct pair *pair;
    if (args->region && args->region->refused & 1u << request->pair_rail) {
        snprintf(text, text_bytes,
                 "the device of the rail %s cannot register the target's memory (dmabuf): only "
                 "tcad can put there (TCA_SEAT_DAEMON)",
                 rail_name(request->tcad, request->pair_rail));
        return -EOPNOTSUPP;
    }
    if (!to || (args->notify && args->notify != to)) {
        snprintf(text, text_bytes,
                 "data for one process and its notification for another: only tcad can put that "
                 "(TCA_SEAT_DAEMON)");
        return -EOPNOTSUPP;
    }
    if (!pairs_can(to, request->pair_rail)) {
        snprintf(text, text_bytes,
                 "rank %" PRIu32 " (session %" PRIu64 " of node %" PRIu32
                 ") cannot use the device of the rail %s: let it write to "
                 "/dev/infiniband/uverbs*, or let tcad put (TCA_SEAT_DAEMON)",
                 to->rank, to->id, request->tcad->node,
                 rail_name(request->tcad, request->pair_rail));
        return -EOPNOTSUPP;
    }
    if (session_refuses(to, text, text_bytes))
        return -EBUSY;
    int r = pair_from(request->tcad, request->node, bind->session, to, request->pair_rail, &pair,
                      text, text_bytes);
    if (r == 0)
        args->pair = pair->id;
    args->rails = 0;
    return r;
}

static int check_pair_rail(struct request *request, unsigned rails, char *text, size_t text_bytes)
{
    request->pair_rail = pairs_rail(request->tcad, request->node, rails);
    if (request->pair_rail)
        return 0;
    snprintf(text, text_bytes,
             "node %" PRIu32 " has no rail over which processes of node %" PRIu32
             " can put themselves: enable the rail tcp, or hca, on both",
             request->tcad->node, request->node);
    return -ENETDOWN;
}

static int check_rails(struct request *request, const Tca__PeerBind *bind, unsigned *ret_rails,
                       char *text, size_t text_bytes)
{
    struct tcad *tcad = request->tcad;
    const uint32_t node = request->node;
    unsigned rails = 0;
    for (size_t i = 0; i < bind->n_rails && i < RAILS_MAX; i++) {
        const unsigned rail = rail_find(tcad, bind->rails[i]->driver, bind->rails[i]->plane);
        if (!rail || !links_possible(tcad, rail, node))
            continue;
        rails |= 1u << rail;
        request->places[rail] = (uint8_t)i;
    }
    if (!rails) {
        const struct rail *off = rail_refused(tcad);
        snprintf(text, text_bytes,
                 "node %" PRIu32 " has none of the rails that node %" PRIu32 " offers%s%s%s%s%s%s",
                 tcad->node, node, off ? "; its rail " : "", off ? off->name : "",
                 off ? " is " : "", off ? off->off_text : "", off ? ": " : "",
                 off ? off->remedy : "");
        return -ENETDOWN;
    }
    *ret_rails = rails;
    return 0;
}

/* args: of the *ret_count puts so far, which are dropped on failure. */
static int check(struct request *request, const Tca__PeerBind *bind, struct binding_args *args,
                 size_t *ret_count, char *text, size_t text_bytes)
{
    struct tcad *tcad = request->tcad;
    const uint32_t node = request->node;
    unsigned rails;
    int r = check_rails(request, bind, &rails, text, text_bytes);
    if (r == 0 && bind->direct)
        r = check_pair_rail(request, rails, text, text_bytes);
    for (size_t i = 0; i < bind->n_puts && r == 0; i++) {
        const Tca__BindPut *put = bind->puts[i];
        args[i] = (struct binding_args){.node = node, .asker = bind->session, .rails = rails};
        *ret_count = i + 1;
        r = check_put(tcad, node, bind, put, &args[i], text, text_bytes);
        if (r == 0 && bind->direct)
            r = check_pair(request, bind, &args[i], text, text_bytes);
    }
    return r;
}

void bindings_requested(struct tcad *tcad, uint32_t node, uint32_t tag, const Tca__PeerBind *bind)
{
    struct request asked = {.tcad = tcad, .node = node, .tag = tag, .count = bind->n_puts},
                   *request;
    struct binding_args args[BIND_PUTS_MAX];
    char text[512];
    size_t count = 0;

    if (bind->n_puts == 0 || bind->n_puts > BIND_PUTS_MAX) {
        peers_fail(tcad->peers, node, tag, -EPROTO, "%zu puts to bind: 1 to %d are possible",
                   bind->n_puts, BIND_PUTS_MAX);
        return;
    }
    int r = check(&asked, bind, args, &count, text, sizeof(text));
    if (r < 0) {
        binding_args_drop(tcad, args, count);
        reply_failure(&asked, count ? count - 1 : 0, r, text);
        return;
    }
    request = malloc(sizeof(*request));
    if (request)
        *request = asked;
    else
        binding_args_drop(tcad, args, count);
    if (!request || bindings_make(tcad, args, count, made, request) < 0) {
        free(request);
        reply_failure(&asked, 0, -ENOMEM, "no memory");
    }
}

void bindings_unbind(struct tcad *tcad, uint32_t node, const Tca__PeerUnbind *unbind)
{
    for (size_t i = 0; i < unbind->n_bindings; i++) {
        struct binding *binding = binding_find(tcad, unbind->bindings[i]);
        if (binding && binding->node == node && !binding->making)
            binding_end(binding);
    }
    for (size_t i = 0; i < unbind->n_untaken_pairs; i++)
        pair_untaken(tcad, node, unbind->untaken_pairs[i]);
}
