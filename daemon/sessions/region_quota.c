/* Limits of region memory per session, user and node. */
#include <inttypes.h>
#include <stdio.h>

#include "daemon/sessions/descriptors.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static bool fits(uint64_t bytes, uint64_t used, uint64_t freed, uint64_t limit, const char *who,
                 const char *key, char *text, size_t text_bytes)
{
    char still[96] = "";
    if (bytes <= limit && used <= limit - bytes)
        return true;
    if (freed > 0)
        snprintf(still, sizeof(still), ", %" PRIu64 " of it freed but still in use", freed);
    snprintf(text, text_bytes,
             "%s has %" PRIu64 " of %" PRIu64
             " (memory.%s)%s: free regions or have the limit raised",
             who, used, limit, key, still);
    return false;
}

/* freed: assume that freed memory is no longer in use. */
static bool may_have(const struct session *session, uint64_t bytes, bool freed, char *text,
                     size_t text_bytes)
{
    const struct tcad *tcad = session->tcad;
    const struct tcad_conf *conf = tcad->conf;
    const struct user *user = session->charge.user;
    const struct users *users = &tcad->users;
    char who[NAME_MAX_BYTES + 16];
    if (!session_user_may_have(tcad, session->uid, 1, text, text_bytes))
        return false;
    snprintf(who, sizeof(who), "user %u", session->uid);
    if (!fits(bytes, user->memory_bytes - (freed ? user->freed_bytes : 0), user->freed_bytes,
              conf->memory.region_bytes_per_user, who, "region_bytes_per_user", text, text_bytes))
        return false;
    snprintf(who, sizeof(who), "session %" PRIu64, session->id);
    if (!fits(bytes, session->region_bytes, 0, conf->memory.region_bytes_per_session, who,
              "region_bytes_per_session", text, text_bytes))
        return false;
    snprintf(who, sizeof(who), "node %s", conf->node.name);
    return fits(bytes, users->memory_bytes - (freed ? users->freed_bytes : 0), users->freed_bytes,
                conf->memory.region_bytes, who, "region_bytes", text, text_bytes);
}

bool region_may_have(const struct session *session, uint64_t bytes, char *text, size_t text_bytes)
{
    return may_have(session, bytes, false, text, text_bytes);
}

bool region_may_have_soon(const struct session *session, uint64_t bytes)
{
    char text[512];
    return session->tcad->users.freed_bytes > 0 &&
           may_have(session, bytes, true, text, sizeof(text));
}

void region_charge(struct region *region, uint64_t bytes)
{
    region->memory_bytes = bytes;
    region->session->region_bytes += bytes;
    charge_memory(&region->charge, bytes);
    charge_descriptors(&region->charge, 1);
}

void region_uncharge(struct region *region)
{
    region->session->region_bytes -= region->memory_bytes;
    charge_memory_freed(&region->charge);
}
