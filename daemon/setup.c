/* Creates the parts of a tcad in the order of their dependencies, and connects their events. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "daemon/base/directory.h"
#include "daemon/base/log.h"
#include "daemon/base/lookup.h"
#include "daemon/base/loop.h"
#include "daemon/base/worker.h"
#include "daemon/bindings/binding.h"
#include "daemon/bindings/pairs.h"
#include "daemon/control/calibration.h"
#include "daemon/control/metrics.h"
#include "daemon/control/peer_requests.h"
#include "daemon/control/server.h"
#include "daemon/engine/engine.h"
#include "daemon/groups/group.h"
#include "daemon/offload/offload.h"
#include "daemon/peers/peer.h"
#include "daemon/plans/lane.h"
#include "daemon/plans/plan.h"
#include "daemon/plans/releases.h"
#include "daemon/rails/exposure.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/sessions/flight.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/trim.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

int tcad_log_level(const struct tcad_conf *conf)
{
    static const int levels[] = {[CONF_LOG_ERROR] = LOG_LEVEL_ERROR,
                                 [CONF_LOG_WARNING] = LOG_LEVEL_WARNING,
                                 [CONF_LOG_INFO] = LOG_LEVEL_INFO,
                                 [CONF_LOG_DEBUG] = LOG_LEVEL_DEBUG};
    return levels[conf->log.level];
}

const char *tcad_log_target(const struct tcad_conf *conf)
{
    static const char *const targets[] = {
        [CONF_LOG_AUTO] = "auto", [CONF_LOG_STDERR] = "stderr", [CONF_LOG_JOURNAL] = "journal"};
    return targets[conf->log.target];
}

/* ---- events of the engine ---- */

static void session_broken(void *context, uint64_t id, const char *why)
{
    struct session *session = session_find(context, id);
    if (session)
        session_end(session, why);
}

static void rail_puts_lost(void *context, struct engine *engine, struct driver_peer *peer,
                           uint64_t flow, uint32_t count)
{
    struct tcad *tcad = context;
    const struct link *link = links_of_peer(tcad->links, engine, peer);
    if (link)
        plans_puts_lost(tcad, link, flow, count);
}

static void rail_paired(void *context, uint64_t pair, int fd, bool encrypts)
{
    pairs_connected(context, pair, fd, encrypts);
}

static void rail_lost(struct tcad *tcad, uint32_t node, unsigned rail, int error)
{
    log_warning(NULL, "rail %s to node %" PRIu32 " was lost: %s", rail_name(tcad, rail), node,
                strerror(-error));
    plans_link_gone(tcad, node, rail, error);
}

static void rail_peer_down(void *context, struct engine *engine, struct driver_peer *peer,
                           int error)
{
    struct tcad *tcad = context;
    unsigned rail;
    int node = links_lost(tcad->links, engine, peer, &rail);
    if (node >= 0)
        rail_lost(tcad, (uint32_t)node, rail, error);
}

/* ---- events of the peers ---- */

static void peer_up(void *context, uint32_t node, uint64_t incarnation, const Tca__PeerHello *hello)
{
    struct tcad *tcad = context;
    links_up(tcad->links, node, hello->n_rails, hello->rails);
    groups_node_up(tcad->groups, node);
}

static void peer_down(void *context, uint32_t node, int error, const char *text)
{
    struct tcad *tcad = context;
    links_down(tcad->links, node);
    plans_node_gone(tcad, node);
    bindings_node_gone(tcad, node);
    pairs_node_gone(tcad, node);
    groups_node_down(tcad->groups, node);
}

/* ---- events of sessions ---- */

/* The group first, so that peers report the end of the process rather than freed memory. */
static void session_gone(struct session *session)
{
    struct tcad *tcad = session->tcad;
    group_session_gone(session);
    offload_session_gone(session);
    plans_session_gone(tcad, tcad->node, session->id, -EOWNERDEAD);
    bindings_session_gone(tcad, session);
    pairs_session_gone(session);
}

static void session_gone_there(struct tcad *tcad, uint32_t node, uint64_t session, int error)
{
    plans_session_gone(tcad, node, session, error);
    bindings_asker_gone(tcad, node, session);
}

static const struct session_hooks session_hooks = {
    .bytes = group_place_bytes,
    .joined = plans_members_known,
    .ending = plans_release_all,
    .gone = session_gone,
    .gone_there = session_gone_there,
    .freed = lanes_drop,
    .region_gone = plans_region_gone,
    .rails = rails_describe,
    .rail_name = rail_name,
};

static const struct pair_hooks pair_hooks = {
    .put_over = plans_put_over,
    .changed = plans_pairs_changed,
};

/* ---- creation ---- */

/* Each with a branch of each rail. */
static int add_engines(struct tcad *tcad, const struct engine_config *config,
                       const struct engine_events *events, char *text, size_t text_bytes)
{
    while (tcad->engine_count < tcad->conf->engine.threads) {
        struct engine **engine = &tcad->engines[tcad->engine_count];
        unsigned rail = 0;
        int r = engine_new(tcad->loop, config, events, engine);
        if (r < 0)
            return r;
        tcad->engine_count++;
        r = engine_add_branches(*engine, tcad->engine, &rail);
        if (r == -EOPNOTSUPP)
            snprintf(text, text_bytes,
                     "engine.threads = %u, but the rail %s can be used by 1 only: set "
                     "engine.threads = 1, or leave the rail out of rails.enable",
                     tcad->conf->engine.threads, rail_name(tcad, rail));
        if (r < 0)
            return r;
    }
    return 0;
}

static int run_engines(struct tcad *tcad)
{
    int r = 0;
    if (tcad->engine_count > 1)
        engines_introduce(tcad->engines, tcad->engine_count);
    for (unsigned i = 0; i < tcad->engine_count && r == 0; i++)
        r = engine_run(tcad->engines[i]);
    return r;
}

/* The calls that they and the worker have posted run before the drivers are closed. */
static void free_engines(struct tcad *tcad)
{
    for (unsigned i = 0; i < tcad->engine_count; i++)
        engine_stop(tcad->engines[i]);
    while (tcad->engine_count > 0)
        engine_free(tcad->engines[--tcad->engine_count]);
}

static int make_engines(struct tcad *tcad, char *text, size_t text_bytes)
{
    const struct tcad_conf *conf = tcad->conf;
    struct engine_config config = {
        .spin_ns = conf->engine.spin_ns,
        .yield_ns = conf->engine.yield_ns,
        .pin = CPU_COUNT(&conf->engine.cpus) > 0,
        .cpus = conf->engine.cpus,
        .several = conf->engine.threads > 1,
    };
    struct engine_events events = {
        .session_broken = session_broken,
        .puts_lost = rail_puts_lost,
        .peer_down = rail_peer_down,
        .paired = rail_paired,
        .context = tcad,
    };
    int r = engine_new(tcad->loop, &config, &events, &tcad->engine);
    if (r < 0)
        return r;
    tcad->engines[tcad->engine_count++] = tcad->engine;
    r = rails_open(tcad, text, text_bytes);
    if (r == 0)
        r = fabric_check(tcad, text, text_bytes);
    if (r == 0)
        r = add_engines(tcad, &config, &events, text, text_bytes);
    if (r == 0)
        r = run_engines(tcad);
    return r;
}

static int make_peers(struct tcad *tcad, char *text, size_t text_bytes)
{
    Tca__RailAddress addresses[RAIL_SLOTS], *list[RAIL_SLOTS];
    uint8_t bytes[RAIL_SLOTS][ADDRESS_MAX_BYTES];
    struct peers_events events = {
        .asked = peer_request, .up = peer_up, .down = peer_down, .context = tcad};

    Tca__PeerHello hello = BODY_OF(peer_hello, .version = PROTO_VERSION, .node = tcad->node,
                                   .node_name = tcad->conf->node.name,
                                   .incarnation = tcad->incarnation, .cluster = tcad->cluster->name,
                                   .daemon_version = (char *)TCAD_VERSION, .rails = list);
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        struct driver *driver = engine_driver(tcad->engine, rail);
        if (!driver)
            continue;
        int length = driver->ops->address(driver, bytes[rail]);
        if (length < 0) {
            snprintf(text, text_bytes, "rail %s has no address: %s", rail_name(tcad, rail),
                     strerror(-length));
            return length;
        }
        Tca__RailAddress *address = &addresses[hello.n_rails];
        tca__rail_address__init(address);
        address->driver = (char *)driver_name(rail_at(tcad, rail)->driver);
        address->name = (char *)rail_name(tcad, rail);
        address->plane = (char *)rail_at(tcad, rail)->plane;
        address->address = (ProtobufCBinaryData){(size_t)length, bytes[rail]};
        list[hello.n_rails++] = address;
    }
    links_up(tcad->links, tcad->node, hello.n_rails, hello.rails); /* the links to this node */
    return peers_new(tcad, &hello, &events, text, text_bytes, &tcad->peers);
}

enum {
    WORKER_THREADS = 4,
    DIALLER_THREADS = 8,
};

/* ---- the name of the daemon's user ---- */

struct own_user {
    struct tcad *tcad;
    char name[sizeof(((struct tcad *)NULL)->user_name)];
};

/* A directory server may not answer. */
static void find_user(void *context)
{
    struct own_user *own = context;
    const struct passwd *user = getpwuid(geteuid()); /* only this thread calls it */
    if (user)
        snprintf(own->name, sizeof(own->name), "%s", user->pw_name);
}

static void found_user(void *context)
{
    struct own_user *own = context;
    if (*own->name)
        strcpy(own->tcad->user_name, own->name);
    free(own);
}

/* Replies to tcactl name it, which may run on another machine. */
static int name_user(struct tcad *tcad)
{
    snprintf(tcad->user_name, sizeof(tcad->user_name), "%u", geteuid());
    struct own_user *own = calloc(1, sizeof(*own));
    if (!own)
        return -ENOMEM;
    own->tcad = tcad;
    int r = worker_submit(tcad->names, LOOKUP_LANE, find_user, found_user, free, own);
    if (r < 0)
        free(own);
    return r;
}

int tcad_init(struct tcad *tcad, int listen_fd, char *text, size_t text_bytes)
{
    const struct tcad_conf *conf = tcad->conf;
    int r = descriptors_check(text, text_bytes);

    tcad->session_hooks = &session_hooks;
    tcad->pair_hooks = &pair_hooks;
    tcad->since_ns = clock_now_ns();
    tcad->node = conf->node.id;
    tcad->cluster = conf->cluster;
    while (tcad->incarnation == 0 && r >= 0)
        r = getrandom(&tcad->incarnation, sizeof(tcad->incarnation), 0) < 0 ? -errno : 0;
    if (r == 0)
        r = directory_make(conf->node.runtime_dir, tcad->is_system ? 0755 : 0700,
                           "node.runtime_dir", text, text_bytes);
    if (r == 0)
        r = directory_make(conf->node.state_dir, tcad->is_system ? 0755 : 0700, "node.state_dir",
                           text, text_bytes);
    if (r == 0)
        r = loop_new(&tcad->loop);
    tcad->plan_uses.loop = tcad->loop;
    if (r == 0)
        r = worker_new(tcad->loop, "tcad-worker", WORKER_THREADS, &tcad->worker);
    if (r == 0)
        r = worker_new(tcad->loop, "tcad-dialler", DIALLER_THREADS, &tcad->dialler);
    if (r == 0)
        r = worker_new(tcad->loop, "tcad-close", WORKER_THREAD_PER_LANE, &tcad->closer);
    if (r == 0)
        r = worker_new(tcad->loop, "tcad-names", LOOKUP_THREADS, &tcad->names);
    if (r == 0)
        r = name_user(tcad);
    if (r == 0)
        r = trim_new(tcad, &tcad->users.trim);
    if (r == 0)
        r = regions_new(tcad, &tcad->regions);
    if (r == 0)
        r = bindings_new(tcad, &tcad->bindings);
    if (r == 0)
        r = pairs_new(tcad, &tcad->pairs);
    if (r == 0)
        r = releases_new(tcad, &tcad->releases);
    if (r == 0)
        r = links_new(tcad, rail_lost, &tcad->links);
    if (r == 0)
        r = rails_new(&tcad->rails);
    if (r == 0)
        r = peers_find_own(tcad, text, text_bytes); /* rails may listen there, too */
    if (r == 0)
        r = make_engines(tcad, text, text_bytes);
    if (r == 0)
        r = offload_new(tcad, &tcad->offload);
    if (r == 0)
        r = groups_new(tcad, &tcad->groups);
    if (r == 0)
        r = make_peers(tcad, text, text_bytes);
    if (r == 0)
        r = flights_new(tcad, &tcad->flights);
    if (r == 0)
        r = server_new(tcad, listen_fd, text, text_bytes, &tcad->server);
    if (r == 0)
        r = metrics_new(tcad, text, text_bytes, &tcad->metrics);
    if (r == 0)
        r = descriptors_reserve(tcad, text, text_bytes);
    if (r == 0) {
        exposure_log(tcad);
        exposure_watch(tcad);
        calibration_start(tcad);
    }
    return r;
}

/* ---- shutdown ---- */

enum { SHUT_DOWN_TICKS = 100, LEAVE_TICKS = 10 };

/* First this node's work ends, then the other nodes are notified, then the daemon stops. */
static void tick(void *context)
{
    struct tcad *tcad = context;
    static unsigned ticks, left;
    const bool idle = worker_idle(tcad->worker) && worker_idle(tcad->closer) &&
                      worker_idle(tcad->dialler) &&
                      (!tcad->calibrator || worker_idle(tcad->calibrator));
    if (!left && ((tcad->session_count == 0 && idle) || ++ticks > SHUT_DOWN_TICKS)) {
        peers_leave(tcad->peers);
        left = 1;
    }
    if (left && (peers_have_left(tcad->peers) || ++left > LEAVE_TICKS))
        loop_stop(tcad->loop);
}

void tcad_shut_down(struct tcad *tcad)
{
    struct loop_timer *timer;
    if (tcad->shutting_down)
        return;
    tcad->shutting_down = true;
    tcad->draining = true;
    server_drop_clients(tcad->server);
    peers_cancel(tcad->peers); /* or sessions would wait for other nodes */
    if (loop_timer_new(tcad->loop, tick, tcad, &timer) < 0) {
        loop_stop(tcad->loop);
        return;
    }
    loop_timer_set(timer, 10000000, 10000000);
    tcad->shut_down_timer = timer;
}

void tcad_deinit(struct tcad *tcad)
{
    metrics_free(tcad->metrics);
    if (tcad->server)
        server_drop_clients(tcad->server);
    loop_timer_free(tcad->shut_down_timer);
    plans_watch_end(tcad);
    region_allocs_deinit(tcad);
    exposure_end(tcad);
    if (tcad->session_count > 0 || tcad->bindings == NULL) {
        server_free(tcad->server);
        /* A session did not end in time, or nothing was set up: the kernel frees everything. */
        return;
    }
    tcad->closer = worker_leave(tcad->closer);
    tcad->worker = worker_free(tcad->worker);
    tcad->dialler = worker_free(tcad->dialler);
    links_end(tcad->links); /* ends a calibration that waits for a neighbour */
    worker_free(tcad->calibrator);
    peers_cancel(tcad->peers); /* those who wait for replies are still there */
    server_free(tcad->server); /* after the workers, which reply to its clients */
    flights_free(tcad->flights);
    links_free(tcad->links);
    free_engines(tcad);
    tcad->peers = peers_free(tcad->peers);
    tcad->names = worker_leave(tcad->names); /* after the look-ups of peers have been cancelled */
    rails_free(tcad->rails);
    offload_free(tcad->offload);
    groups_free(tcad->groups);
    bindings_free(tcad->bindings);
    pairs_free(tcad->pairs);
    releases_free(tcad->releases);
    regions_free(tcad->regions);
    uses_deinit(&tcad->plan_uses);
    table_deinit(&tcad->session_ids);
    trim_free(tcad->users.trim);
    users_deinit(&tcad->users);
    free(tcad->own);
    loop_free(tcad->loop);
}
