/* What regions may hold: of a session, of a user, and of the node. Only memory of ours counts, with the
 * memory beside an attached region once there is any. */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/region.h"
#include "daemon/session.h"
#include "daemon/tcad.h"

uint64_t region_user_bytes(const struct tcad *tcad, uid_t uid)
{
    uint64_t bytes = 0;
    for (const struct session *session = tcad->sessions; session; session = session->next)
        if (session->uid == uid)
            bytes += session->region_bytes;
    return bytes;
}

static bool fits(uint64_t bytes, uint64_t used, uint64_t limit, const char *who, const char *key,
                 char *text, size_t text_bytes)
{
    if (bytes <= limit && used <= limit - bytes)
        return true;
    snprintf(text, text_bytes,
             "%s has %" PRIu64 " of %" PRIu64 " (memory.%s): free regions or have the limit raised",
             who, used, limit, key);
    return false;
}

bool region_may_have(const struct session *session, uint64_t bytes, char *text, size_t text_bytes)
{
    const struct tcad *tcad = session->tcad;
    const struct tcad_conf *conf = tcad->conf;
    char who[NAME_MAX_BYTES + 16];
    if (!session_user_may_have(tcad, session->uid, 1, text, text_bytes))
        return false;
    snprintf(who, sizeof who, "user %u", session->uid);
    if (!fits(bytes, region_user_bytes(tcad, session->uid), conf->memory.region_bytes_per_user, who,
              "region_bytes_per_user", text, text_bytes))
        return false;
    snprintf(who, sizeof who, "session %" PRIu64, session->id);
    if (!fits(bytes, session->region_bytes, conf->memory.region_bytes_per_session, who,
              "region_bytes_per_session", text, text_bytes))
        return false;
    snprintf(who, sizeof who, "node %s", conf->node.name);
    return fits(bytes, regions_bytes(tcad->regions), conf->memory.region_bytes, who, "region_bytes",
                text, text_bytes);
}

void region_charge(struct region *region, uint64_t bytes)
{
    region->memory_bytes = bytes;
    region->session->region_bytes += bytes;
    region->session->region_fds++;
    regions_charge(region->tcad->regions, (int64_t)bytes);
}

void region_uncharge(struct region *region)
{
    if (region->memory_bytes == 0)
        return; /* attached, and no rail had to do with it */
    region->session->region_bytes -= region->memory_bytes;
    region->session->region_fds--;
    regions_charge(region->tcad->regions, -(int64_t)region->memory_bytes);
}
