#include "daemon/sessions/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/text.h"
#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/remedy.h"
#include "daemon/engine/engine.h"
#include "daemon/sessions/client.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"
#include "proto/list.h"
#include "proto/wait.h"

#define LAST_CALL_NS 200000000ull

struct session *session_find(struct tcad *tcad, uint64_t id)
{
    struct session *session = session_find_any(tcad, id);
    return session && !session->closing ? session : NULL;
}

struct session *session_find_any(const struct tcad *tcad, uint64_t id)
{
    return table_find(&tcad->session_ids, id);
}

/* ---- beginning ---- */

int session_segment_fd(const char *name, size_t bytes)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        return fd;
    int r = -errno;
    close(fd);
    return r;
}

/* Creates a segment and maps it. Returns its descriptor. */
static int segment_new(const char *name, size_t bytes, void **ret_base)
{
    int fd = session_segment_fd(name, bytes);
    if (fd < 0)
        return fd;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        int r = -errno;
        close(fd);
        return r;
    }
    *ret_base = base;
    return fd;
}

/* The one with the fewest sessions. */
static struct engine *choose_engine(const struct tcad *tcad)
{
    struct engine *best = tcad->engine;
    for (unsigned i = 1; i < tcad->engine_count; i++)
        if (engine_session_count(tcad->engines[i]) < engine_session_count(best))
            best = tcad->engines[i];
    return best;
}

static int make_segments(struct session *session)
{
    void *base;
    int r = segment_new("tca-session", sizeof(struct session_segment), &base);
    if (r < 0)
        return r;
    session->segment_fd = r;
    session->segment = base;
    session->segment->magic = SEGMENT_MAGIC;
    session->segment->version = PROTO_VERSION;
    r = segment_new("tca-notify", NOTIFY_SEGMENT_BYTES, &base);
    if (r < 0)
        return r;
    session->notify_fd = r;
    session->notify = base;
    session->notify->magic = SEGMENT_MAGIC;
    session->notify->version = PROTO_VERSION;
    session->lines.segment = session->notify;
    r = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (r < 0)
        return -errno;
    session->engine_fd = r;
    return engine_session_new(choose_engine(session->tcad),
                              &(struct engine_session_args){.id = session->id,
                                                            .segment = session->segment,
                                                            .notify = session->notify,
                                                            .wake_fd = session->engine_fd},
                              &session->engine);
}

static void session_destroy(struct session *session)
{
    if (session->segment)
        munmap(session->segment, sizeof(*session->segment));
    if (session->notify)
        munmap(session->notify, NOTIFY_SEGMENT_BYTES);
    if (session->segment_fd >= 0)
        close(session->segment_fd);
    if (session->notify_fd >= 0)
        close(session->notify_fd);
    if (session->engine_fd >= 0)
        close(session->engine_fd);
    session->tcad->session_hooks->freed(session);
    charge_drop(&session->charge);
    lines_deinit(&session->lines);
    withdrawals_deinit(&session->withdrawals);
    members_unuse(session->members);
    members_unuse(session->self);
    free(session->plans);
    free(session);
}

static void welcome(struct session *session, uint32_t tag)
{
    struct tcad *tcad = session->tcad;
    Tca__Welcome welcome = BODY_OF(
        welcome, .version = PROTO_VERSION, .node = tcad->node, .node_name = tcad->conf->node.name,
        .incarnation = tcad->incarnation, .session = session->id,
        .session_segment_bytes = sizeof(struct session_segment),
        .notify_segment_bytes = NOTIFY_SEGMENT_BYTES, .daemon_version = (char *)TCAD_VERSION);
    Tca__Rail rails[RAILS_MAX], *rail_list[RAILS_MAX];
    welcome.n_rails = tcad->session_hooks->rails(tcad, rails);
    for (size_t i = 0; i < welcome.n_rails; i++)
        rail_list[i] = &rails[i];
    welcome.rails = rail_list;
    const Tca__Message message = MESSAGE_OF(WELCOME, welcome, &welcome);
    session_answer(session, tag, &message,
                   (int[]){session->segment_fd, session->notify_fd, session->engine_fd}, 3);
}

void session_take_name(char ret_name[static NAME_MAX_BYTES], const char *name)
{
    snprintf(ret_name, NAME_MAX_BYTES, "%s", name);
    if (config_text_clean(ret_name, strlen(ret_name)))
        return;
    for (char *c = ret_name; *c; c++)
        if (*c < ' ' || *c >= 0x7f)
            *c = '?';
}

enum room {
    ROOM,
    ROOM_SOON, /* none until sessions that have ended, or are about to, have gone */
    NO_ROOM,
};

/* Whether another session fits below `limit` for the user (NULL: for all). As many again may have
 * ended without being gone, as the engine has yet to let them go: programs that start one after the
 * other do not wait. */
static enum room room_for(const struct tcad *tcad, const uid_t *uid, uint32_t count, uint32_t limit)
{
    uint32_t ended = 0, leaving = 0;
    if (count < limit)
        return ROOM;
    for (const struct session *session = tcad->sessions; session; session = session->next) {
        const bool counts = !uid || session->uid == *uid;
        ended += counts && session->closing;
        leaving += counts && session->leaving && !session->closing;
    }
    if (count - ended < limit && ended < limit)
        return ROOM;
    return count - ended - leaving < limit ? ROOM_SOON : NO_ROOM;
}

static enum room room_for_all(const struct tcad *tcad)
{
    return room_for(tcad, NULL, tcad->session_count, tcad->conf->limits.sessions);
}

static enum room room_for_user(const struct tcad *tcad, uid_t uid)
{
    const struct user *user = user_find(tcad, uid);
    return room_for(tcad, &uid, user ? user->count[USER_SESSIONS] : 0,
                    tcad->conf->limits.sessions_per_user);
}

bool session_opens_soon(const struct tcad *tcad, uid_t uid)
{
    const enum room all = room_for_all(tcad), own = room_for_user(tcad, uid);
    return !tcad->draining && (all > own ? all : own) == ROOM_SOON;
}

static bool may_open(struct tcad *tcad, struct client *client, uint32_t tag,
                     const Tca__Hello *hello)
{
    const struct tcad_conf *conf = tcad->conf;
    const struct user *user = user_find(tcad, client->uid);
    const uint32_t of_user = user ? user->count[USER_SESSIONS] : 0;
    if (hello->group_size == 0 || hello->group_size > GROUP_SIZE_MAX) {
        client_failf(client, tag, -EINVAL, "group size %u: it must be from 1 to %d",
                     hello->group_size, GROUP_SIZE_MAX);
        return false;
    }
    if (tcad->draining) {
        client_failf(client, tag, -EBUSY,
                     "node %s is draining and accepts no new sessions: use another node, or "
                     "\"tcactl drain off\"",
                     conf->node.name);
        return false;
    }
    if (room_for_all(tcad) != ROOM) {
        client_failf(client, tag, -EDQUOT,
                     "node %s has %u sessions, limits.sessions is %u: close some or raise it",
                     conf->node.name, tcad->session_count, conf->limits.sessions);
        return false;
    }
    if (room_for_user(tcad, client->uid) != ROOM) {
        client_failf(
            client, tag, -EDQUOT,
            "user %u has %u sessions, limits.sessions_per_user is %u: close some or have it raised",
            client->uid, of_user, conf->limits.sessions_per_user);
        return false;
    }
    char text[256];
    if (!session_user_may_have(tcad, client->uid, FDS_PER_SESSION - 1, text, sizeof(text))) {
        client_failf(client, tag, -EDQUOT, "%s", text);
        return false;
    }
    return true;
}

/* What grows with the group is allocated at once, except notification lines. */
static uint64_t bytes_of_session(const struct tcad *tcad, uint32_t sources)
{
    return sizeof(struct session) + sizeof(struct session_segment) +
           offsetof(struct notify_segment, source_state) + sources + members_bytes(1) +
           tcad->session_hooks->bytes() + 2 * PLANS_PER_SESSION_MAX * sizeof(struct plan *);
}

struct session *session_new(struct tcad *tcad, struct client *client, uint32_t tag,
                            const Tca__Hello *hello)
{
    if (!may_open(tcad, client, tag, hello))
        return NULL;
    char text[512];
    struct charge charge = {0};
    int r = charge_take(tcad, &charge, client->uid, USER_SESSIONS,
                        bytes_of_session(tcad, hello->group_size), "a session", text, sizeof(text));
    if (r < 0) {
        client_failf(client, tag, r, "%s", text);
        return NULL;
    }
    struct session *session = calloc(1, sizeof(*session));
    struct members *members = members_new(1);
    if (!session || !members) {
        free(session);
        members_unuse(members);
        charge_drop(&charge);
        client_failf(client, tag, -ENOMEM, "out of memory for a session");
        return NULL;
    }
    charge_descriptors(&charge, FDS_PER_SESSION - 1); /* the client's connection has the other */
    session->charge = charge;
    session->tcad = tcad;
    session->id = ++tcad->next_session;
    session->since_ns = clock_now_ns();
    session->pid = client->pid;
    session->uid = client->uid;
    session_take_name(session->name, hello->name);
    session->client = client;
    session->sources = hello->group_size;
    session->size = 1; /* until it joins */
    session->root = tcad->node;
    session->self = members;
    session->members = members_use(members);
    members->list[0] = (struct group_member){.node = tcad->node, .session = session->id};
    session->segment_fd = session->notify_fd = session->engine_fd = -1;
    r = make_segments(session);
    if (r < 0) {
        client_failf(client, tag, r, "session segments of %zu bytes: %s",
                     sizeof(struct session_segment) + NOTIFY_SEGMENT_BYTES, remedy_text(r));
        session_destroy(session);
        return NULL;
    }
    LIST_ADD(&tcad->sessions, session, next, link);
    table_add(&tcad->session_ids, &session->entry, session->id, session);
    tcad->session_count++;
    welcome(session, tag);
    return session;
}

/* ---- ending ---- */

static void detached(void *context)
{
    struct session *session = context;
    LIST_REMOVE(session, next, link);
    table_remove(&session->tcad->session_ids, &session->entry);
    session->tcad->session_count--;
    session_destroy(session);
}

/* The last steps, when the engine uses nothing of it any more: frees its regions, then its
 * rings. */
static void go_on_ending(struct session *session)
{
    if (!session->closing || session->plan_count > 0 || session->notified_by > 0 ||
        !session->engine)
        return;
    while (session->regions)
        region_end(session->regions);
    struct engine_session *engine = session->engine;
    session->engine = NULL;
    engine_session_detach(engine, detached, session);
}

void session_unnotified(struct session *session)
{
    session->notified_by--;
    go_on_ending(session);
}

int session_end_error(const struct session *session)
{
    if (!session->closing)
        return -ESTALE;
    return session->tcad->shutting_down ? -EHOSTDOWN : -EOWNERDEAD;
}

/* Informs all others of its end. */
static void announce(void *context)
{
    struct session *session = context;
    const struct session_hooks *hooks = session->tcad->session_hooks;
    if (session->announced)
        return;
    session->announced = true;
    session->last_call = loop_timer_free(session->last_call);
    hooks->gone(session);
    for (struct region *region = session->regions, *next; region; region = next) {
        next = region->next_of_session;
        hooks->region_gone(region, session_end_error(session));
    }
    session_unnotified(session);
}

void session_plan_gone(struct session *session)
{
    if (session->closing && session->plan_count == 0)
        announce(session);
    go_on_ending(session);
}

void session_close_request(struct session *session, uint32_t tag)
{
    session->leaving = true;
    engine_session_hurry(session->engine, -ECANCELED);
    session_done(session, tag);
}

/* For a killed process the time is short, because others wait to learn of its end. */
static uint64_t last_call_ns(const struct session *session)
{
    return session->leaving ? session->tcad->conf->control.request_timeout_ns : LAST_CALL_NS;
}

void session_end(struct session *session, const char *why)
{
    if (session->closing)
        return;
    char fields[64];
    snprintf(fields, sizeof(fields), "TCAD_SESSION=%" PRIu64 " TCAD_CLIENT_PID=%d", session->id,
             session->pid);
    log_debug(fields, "session %" PRIu64 " (pid %d, %s) ends", session->id, session->pid,
              session->name);
    session->closing = true;
    if (session->client) {
        session->client->session = NULL;
        client_drop_later(session->client, why ? why : "its session has ended");
        session->client = NULL;
    }
    region_views_drop(session);
    session->notified_by++; /* dropped by announce() */
    session->tcad->session_hooks->ending(session);
    /* Data in flight should arrive before the others learn of its end. */
    if (session->plan_count == 0 ||
        loop_timer_new(session->tcad->loop, announce, session, &session->last_call) < 0)
        announce(session);
    else if (!session->announced)
        loop_timer_set(session->last_call, last_call_ns(session), 0);
}

/* ---- notifications ---- */

int session_line(struct session *session, uint32_t rank, uint32_t slot, uint32_t *ret_line,
                 char *text, size_t text_bytes)
{
    if (lines_find(&session->lines, rank, slot, ret_line))
        return 0;
    int r = charge_take(session->tcad, &session->charge, session->uid, USER_SESSIONS,
                        LINES_BYTES_EACH, "a notification counter", text, text_bytes);
    if (r < 0)
        return r;
    r = lines_add(&session->lines, rank, slot, ret_line);
    if (r == 0)
        return 0;
    charge_lower(&session->charge, LINES_BYTES_EACH);
    snprintf(text, text_bytes,
             r == -ENOMEM ? "out of memory for a notification counter"
                          : "session %" PRIu64 " has %" PRIu32
                            " notification counters (rank, slot), "
                            "and no place for one of slot %" PRIu32 ": %d are possible; use fewer "
                            "slots",
             session->id, session->lines.count, slot, NOTIFY_LINES_MAX);
    return r;
}

/* ---- ranks that have ended ---- */

void session_sources_gone(struct session *session, const uint32_t *ranks, size_t count,
                          enum source_state state)
{
    Tca__Event event = TCA__EVENT__INIT;
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&session->notify->source_state[ranks[i]], (uint8_t)state,
                              memory_order_release);
    event.kind = TCA__EVENT__KIND__RANKS_GONE;
    event.n_ranks = count;
    event.ranks = (uint32_t *)ranks;
    session_event(session, &event);
}
