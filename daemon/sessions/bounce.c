#include "daemon/sessions/bounce.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/engine/engine.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

int bounce_admit(struct region *region, enum bounce_way way, char *text, size_t text_bytes)
{
    const struct tcad *tcad = region->tcad;
    struct session *session = region->session;
    if (!region->attached)
        return 0;
    /* BOUNCE_OUT: its own commit, for whose reply it waits */
    if (way == BOUNCE_IN && session_refuses(session, text, text_bytes))
        return -EBUSY;
    if (region->memory_bytes > 0)
        return 0;
    const uint64_t bytes = region_round(tcad, region->bytes);
    char why[300];
    if (!region_may_have(session, bytes, why, sizeof why)) {
        snprintf(text, text_bytes,
                 "region %" PRIu64 " of node %" PRIu32
                 " was attached and needs staging memory of %" PRIu64
                 " bytes: %s; or attach less, or use tca_region_alloc()",
                 region->id, tcad->node, bytes, why);
        return -EDQUOT;
    }
    if (!session->bounces && engine_bounces_new(session->engine) < 0) {
        snprintf(text, text_bytes, "out of memory for the staging of session %" PRIu64,
                 session->id);
        return -ENOMEM;
    }
    session->bounces = true;
    region_charge(region, bytes);
    return 0;
}

int bounce_new(struct region *region, enum bounce_way way, uint64_t offset_bytes,
               const struct layout *layout, uint32_t *ret_id)
{
    struct session *session = region->session;
    Tca__Event event = TCA__EVENT__INIT;
    if (!session || !session->client)
        return -ESTALE;
    if (++session->last_bounce == 0)
        session->last_bounce = 1; /* 0 is not a valid id */
    Tca__Bounce bounce =
        BODY_OF(bounce, .id = session->last_bounce, .region = region->id, .offset = offset_bytes,
                .layout = (ProtobufCBinaryData){layout_bytes(layout), (uint8_t *)layout},
                .in = way == BOUNCE_IN, .fd = region->bounce_told ? 0 : 1, .pages = region->pages);
    event.kind = TCA__EVENT__KIND__BOUNCE;
    event.bounce = &bounce;
    session_event_fds(session, &event, &region->fd, bounce.fd);
    region->bounce_told = true;
    *ret_id = bounce.id;
    return 0;
}

void bounce_end(struct session *session, uint32_t id)
{
    session_withdraw(session, TCA__EVENT__KIND__UNBOUNCE, id, 0);
}
