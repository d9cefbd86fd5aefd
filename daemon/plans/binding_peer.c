/* Bindings that other daemons ask for. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/peers/peer.h"
#include "daemon/plans/binding.h"
#include "daemon/rails/exposure.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/bounce.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

struct question {
    struct tcad *tcad;
    uint32_t node, tag;
};

static void answer(void *context, int status, struct binding *binding, const char *text)
{
    struct question *question = context;
    struct tcad *tcad = question->tcad;
    Tca__PeerBound bound = TCA__PEER_BOUND__INIT;
    Tca__Landing landings[RAIL_COUNT], *pointers[RAIL_COUNT];
    Tca__Message message = TCA__MESSAGE__INIT;

    if (status < 0) {
        peers_fail(tcad->peers, question->node, question->tag, status, "%s", text);
        free(question);
        return;
    }
    for (int rail = 0; rail < RAIL_COUNT; rail++) {
        if (!(binding->rails & (1u << rail)))
            continue;
        Tca__Landing *landing = &landings[bound.n_landings];
        tca__landing__init(landing);
        landing->driver = (char *)rail_name(rail);
        landing->blob = (ProtobufCBinaryData){binding->blob_bytes[rail], binding->blob[rail]};
        pointers[bound.n_landings++] = landing;
    }
    bound.binding = binding->id;
    bound.owner = binding->region ? binding->region->session_id : 0;
    bound.attached = binding->bounces != NULL;
    bound.address = binding->region ? binding->region->address : 0;
    bound.landings = pointers;
    message.body_case = TCA__MESSAGE__BODY_PEER_BOUND;
    message.peer_bound = &bound;
    peers_answer(tcad->peers, question->node, question->tag, &message);
    free(question);
}

/* Whether that session may be notified by the asker: the same user, the same group, and the rank is
 * the asker's. */
static int check_notified(struct tcad *tcad, uint32_t node, const Tca__PeerBind *bind,
                          struct session **ret_session, char *text, size_t text_bytes)
{
    struct session *session = session_find(tcad, bind->notify_session);
    if (!session) {
        snprintf(text, text_bytes,
                 "session %" PRIu64 " of node %" PRIu32 ", to be notified, has ended",
                 bind->notify_session, tcad->node);
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
        session->members[bind->rank].node != node ||
        session->members[bind->rank].session != bind->session) {
        snprintf(text, text_bytes,
                 "session %" PRIu64 " of node %" PRIu32 " is not rank %u of group \"%s\"",
                 bind->session, node, bind->rank, bind->group);
        return -EACCES;
    }
    if (bind->notify_slot >= SLOTS_PER_SOURCE) {
        snprintf(text, text_bytes, "slot %u: 0 to %d are possible", bind->notify_slot,
                 SLOTS_PER_SOURCE - 1);
        return -EINVAL;
    }
    *ret_session = session;
    return 0;
}

static int check_target(struct tcad *tcad, const Tca__PeerBind *bind, struct binding_args *args,
                        char *text, size_t text_bytes)
{
    struct region *region;
    struct handle handle;
    const char *why;

    int r = region_resolve(tcad, bind->handle.data, bind->handle.len, bind->user, &region, &handle,
                           text, text_bytes);
    if (r < 0)
        return r;
    r = bounce_admit(region, BOUNCE_IN, text, text_bytes);
    if (r < 0)
        return r;
    struct layout *layout = malloc(bind->layout.len ? bind->layout.len : 1);
    if (!layout) {
        snprintf(text, text_bytes, "no memory for a layout of %zu bytes", bind->layout.len);
        return -ENOMEM;
    }
    if (bind->layout.len > 0) /* empty ones have no data at all */
        memcpy(layout, bind->layout.data, bind->layout.len);
    args->layout = layout; /* freed by the caller on failure */
    r = layout_check(layout, bind->layout.len, &why);
    if (r < 0) {
        snprintf(text, text_bytes, "target layout: %s", why);
        return r;
    }
    if (!layout_fits(layout, bind->offset, handle.length_bytes)) {
        char description[128];
        layout_describe(layout, description, sizeof description);
        snprintf(text, text_bytes,
                 "target layout %s at offset %" PRIu64 " does not fit the %" PRIu64
                 " bytes of the handle",
                 description, bind->offset, handle.length_bytes);
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
    args->offset_bytes = handle.offset_bytes + bind->offset;
    return 0;
}

void bindings_asked(struct tcad *tcad, uint32_t node, uint32_t tag, const Tca__PeerBind *bind)
{
    struct binding_args args = {
        .node = node, .asker = bind->session, .rank = bind->rank, .slot = bind->notify_slot};
    char text[512] = "a binding needs a handle or a notification";
    int r = bind->handle.len || bind->notify ? 0 : -EINVAL;

    if (r == 0 && bind->handle.len)
        r = check_target(tcad, bind, &args, text, sizeof text);
    if (r == 0 && bind->notify)
        r = check_notified(tcad, node, bind, &args.notify, text, sizeof text);
    for (size_t i = 0; i < bind->n_drivers; i++) {
        const struct driver_ops *ops = driver_find(bind->drivers[i]);
        if (ops && links_possible(tcad, ops->rail, node))
            args.rails |= 1u << ops->rail;
    }
    if (r == 0 && !args.rails) {
        const char *off = exposure_off(tcad, RAIL_OFI);
        snprintf(text, sizeof text,
                 "node %" PRIu32 " has none of the rails that node %" PRIu32 " offers%s%s%s%s",
                 tcad->node, node, off ? "; its rail ofi is " : "", off ? off : "", off ? ": " : "",
                 off ? exposure_remedy(tcad) : "");
        r = -ENETDOWN;
    }
    if (r == 0)
        r = binding_charge(tcad, &args, text, sizeof text);
    struct question *question = r == 0 ? malloc(sizeof *question) : NULL;
    if (r == 0 && !question) {
        snprintf(text, sizeof text, "no memory");
        r = -ENOMEM;
    }
    if (r < 0) {
        free(args.layout);
        charge_drop(&args.charge);
        peers_fail(tcad->peers, node, tag, r, "%s", text);
        return;
    }
    *question = (struct question){tcad, node, tag};
    binding_new(tcad, &args, answer, question);
}

void bindings_unbind(struct tcad *tcad, uint32_t node, const Tca__PeerUnbind *unbind)
{
    for (size_t i = 0; i < unbind->n_bindings; i++) {
        struct binding *binding = binding_find(tcad, unbind->bindings[i]);
        if (binding && binding->node == node && !binding->making)
            binding_end(binding);
    }
}
