#include "daemon/rails/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

struct links {
    struct tcad *tcad;
    struct link *first;
    struct link *ending; /* links whose peers are being disconnected */
    bool over;           /* links_free() was called; freed with the last ending link */
    pthread_mutex_t connecting;
};

int links_new(struct tcad *tcad, struct links **ret_links)
{
    struct links *links = calloc(1, sizeof *links);
    if (!links)
        return -ENOMEM;
    links->tcad = tcad;
    pthread_mutex_init(&links->connecting, NULL);
    *ret_links = links;
    return 0;
}

static void destroy(struct links *links)
{
    pthread_mutex_destroy(&links->connecting);
    free(links);
}

struct held {
    struct held *next;
    struct region *region;
};

struct held *link_held_new(void)
{
    return calloc(1, sizeof(struct held));
}

static bool is_held(const struct link *link, const struct region *region)
{
    for (const struct held *held = link->held; held; held = held->next)
        if (held->region == region)
            return true;
    return false;
}

void link_hold(struct link *link, struct held *held, struct region *region)
{
    if (!link->dead || !link->peer || is_held(link, region)) {
        free(held);
        return;
    }
    *held = (struct held){link->held, region_ref(region)};
    link->held = held;
}

/*
 * Links are kept in `ending` until here, because the driver may reuse the address of a disconnected
 * peer for a new one. Its events for the old peer were posted before this call, and those for the
 * new one after it.
 */
static void disconnected(void *context)
{
    struct link *link = context, **at = &link->links->ending;
    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    engine_loss_return(link->links->tcad->engine);
    if (link->links->over && !link->links->ending)
        destroy(link->links);
    while (link->held) {
        struct held *held = link->held;
        link->held = held->next;
        region_unref(held->region);
        free(held);
    }
    free(link);
}

static void disconnect_work(struct engine *engine, void *context)
{
    struct link *link = context;
    struct driver *driver = engine_driver(engine, link->rail);
    driver->ops->peer_disconnect(driver, link->peer);
}

void link_unref(struct link *link)
{
    if (!link || --link->refs > 0)
        return;
    if (!link->peer) {
        free(link);
        return;
    }
    link->next = link->links->ending;
    link->links->ending = link;
    engine_call(link->links->tcad->engine, &link->disconnect_call, disconnect_work, disconnected,
                link);
}

/* Sets whether the node's host may connect to this end of the rail. This node's own host is
 * admitted only when needed (link_connect()), because any user of this node can connect from it. */
static void admit(const struct link *link, bool come)
{
    struct driver *driver = engine_driver(link->links->tcad->engine, link->rail);
    if (!driver->ops->admit || link->admitted == come)
        return;
    int r = driver->ops->admit(driver, link->address, link->address_bytes, come);
    if (r < 0)
        log_warning(NULL, "rail %s: the host of node %u cannot be admitted: %s",
                    rail_name(link->links->tcad, link->rail), link->node, strerror(-r));
}

/* Fails the puts in flight at once, before the driver detects the loss. */
static void fail_work(struct engine *engine, void *context)
{
    struct link *link = context;
    struct driver *driver = engine_driver(engine, link->rail);
    driver->ops->peer_fail(driver, link->peer, -EHOSTDOWN);
}

static void end_link(struct link **at)
{
    struct link *link = *at;
    *at = link->next;
    link->dead = true;
    admit(link, false);
    link->admitted = false;
    if (link->peer) /* before a disconnect */
        engine_call(link->links->tcad->engine, &link->fail_call, fail_work, NULL, link);
    link_unref(link);
}

void links_end(struct links *links)
{
    while (links && links->first)
        end_link(&links->first);
}

struct links *links_free(struct links *links)
{
    if (!links)
        return NULL;
    links_end(links);
    links->over = true;
    if (!links->ending)
        destroy(links);
    return NULL;
}

/* NULL, or the reason why the rail can never lead there, even if enabled. */
static const char *why_never(const struct tcad *tcad, enum driver_id driver,
                             const struct driver_caps *caps, uint32_t node)
{
    if (node == tcad->node)
        return caps && !caps->same_node ? "does not reach its own node" : NULL;
    if (caps ? !caps->other_nodes : driver == DRIVER_SHM)
        return "does not reach other nodes";
    if ((caps ? caps->subcluster : driver == DRIVER_PEACH2) && !fabric_shared(tcad, node))
        return "does not reach other sub-clusters";
    return NULL;
}

const char *links_why_not(const struct tcad *tcad, unsigned rail, uint32_t node)
{
    const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
    const struct rail *at = rail_at(tcad, rail);
    const char *never = why_never(tcad, at->driver, caps, node);
    return never || caps ? never : at->off_text;
}

bool links_possible(const struct tcad *tcad, unsigned rail, uint32_t node)
{
    return !links_why_not(tcad, rail, node);
}

void links_up(struct links *links, uint32_t node, size_t rail_count, Tca__RailAddress *const *rails)
{
    links_down(links, node);
    for (size_t i = 0; i < rail_count; i++) {
        const unsigned rail = rail_find(links->tcad, rails[i]->driver, rails[i]->plane);
        if (!rail || !links_possible(links->tcad, rail, node) ||
            rails[i]->address.len > ADDRESS_MAX_BYTES)
            continue; /* a rail that this node does not have, or that does not lead there */
        struct link *link = calloc(1, sizeof *link);
        if (!link) {
            log_error(NULL, "node %u, rail %s: out of memory for a link", node, rails[i]->driver);
            continue;
        }
        link->links = links;
        link->node = node;
        link->rail = rail;
        link->refs = 1;
        link->address_bytes = rails[i]->address.len;
        if (link->address_bytes > 0) /* else data is NULL */
            memcpy(link->address, rails[i]->address.data, link->address_bytes);
        link->next = links->first;
        links->first = link;
        if (node != links->tcad->node) {
            admit(link, true);
            link->admitted = true;
        }
    }
}

void links_down(struct links *links, uint32_t node)
{
    for (struct link **at = &links->first; *at;) {
        if ((*at)->node == node)
            end_link(at);
        else
            at = &(*at)->next;
    }
}

const struct link *links_of_peer(const struct links *links, const struct driver_peer *peer)
{
    const struct link *link = links->ending; /* first: see disconnected() */
    while (link && link->peer != peer)
        link = link->next;
    if (link)
        return link;
    for (link = links->first; link && link->peer != peer;)
        link = link->next;
    return link;
}

int links_lost(struct links *links, const struct driver_peer *peer, unsigned *ret_rail)
{
    for (const struct link *link = links->ending; link; link = link->next)
        if (link->peer == peer)
            return -1; /* see disconnected() */
    for (struct link **at = &links->first; *at; at = &(*at)->next) {
        struct link *link = *at;
        if (link->peer != peer)
            continue;
        int node = (int)link->node;
        *ret_rail = link->rail;
        /* The node may still be up: a new link to the same address replaces the dead one. */
        struct link *fresh = calloc(1, sizeof *fresh);
        if (fresh) {
            *fresh = *link;
            fresh->refs = 1;
            fresh->peer = NULL;
            fresh->connected = false;
            comeback_lost(&fresh->comeback, clock_now_ns());
            *at = fresh;
            link->dead = true;
            link_unref(link);
        } else {
            end_link(at);
        }
        return node;
    }
    return -1;
}

struct link *links_find(const struct links *links, uint32_t node, unsigned rail)
{
    struct link *link = links->first;
    while (link && (link->node != node || link->rail != rail))
        link = link->next;
    return link;
}

struct link *link_get(struct links *links, uint32_t node, unsigned rail)
{
    struct link *link = links_find(links, node, rail);
    if (link)
        link->refs++;
    return link;
}

bool links_exists(const struct links *links, uint32_t node, unsigned rail)
{
    return links_find(links, node, rail) != NULL;
}

static int connect_peer(struct link *link, struct driver *driver)
{
    struct engine *engine = link->links->tcad->engine;
    int r = engine_loss_reserve(engine);
    if (r < 0)
        return r;
    uint8_t offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
    r = driver->ops->peer_connect(driver, link->address, link->address_bytes, &link->peer, offer,
                                  &offer_bytes);
    if (r < 0)
        engine_loss_return(engine);
    return r;
}

int link_connect(struct link *link)
{
    struct driver *driver = engine_driver(link->links->tcad->engine, link->rail);
    int r = 0;
    pthread_mutex_lock(&link->links->connecting);
    if (!link->admitted) {
        admit(link, true);
        link->admitted = true;
    }
    if (!link->peer)
        r = connect_peer(link, driver);
    pthread_mutex_unlock(&link->links->connecting);
    return r;
}
