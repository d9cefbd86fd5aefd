/* The table of links: making, finding, replacing and freeing them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/log.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

int links_new(struct tcad *tcad, link_lost *lost, struct links **ret_links)
{
    struct links *links = calloc(1, sizeof(*links));
    if (!links)
        return -ENOMEM;
    links->tcad = tcad;
    links->lost = lost;
    *ret_links = links;
    return 0;
}

struct held {
    struct held *next;
    struct region *region;
};

struct held *link_held_new(void)
{
    return calloc(1, sizeof(struct held));
}

enum encryption link_encryption(const struct link *link)
{
    const struct driver *driver = engine_driver(link->engine, link->rail);
    if (link->node == link->links->tcad->node)
        return ENCRYPTION_LOCAL;
    return driver && driver->ops->encrypts &&
                   driver->ops->encrypts(link->address, link->address_bytes)
               ? ENCRYPTION_TLS
               : ENCRYPTION_NONE;
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
    if (link->state != LINK_FAILED || !link->peer || is_held(link, region)) {
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
    engine_loss_return(link->engine);
    if (link->links->over && !link->links->ending)
        free(link->links);
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
    engine_call(link->engine, &link->disconnect_call, disconnect_work, disconnected, link);
}

void link_admit(struct link *link, bool come)
{
    struct driver *driver = engine_driver(link->links->tcad->engine, link->rail);
    if (link->admitted == come)
        return;
    link->admitted = come;
    int r = driver->ops->admit
                ? driver->ops->admit(driver, link->address, link->address_bytes, come)
                : 0;
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

/* Ends a link that is no longer in the table. */
static void end_link(struct link *link, int error, const char *text)
{
    link_move(link, LINK_FAILED);
    if (link->was_connected) /* before a disconnect */
        engine_call(link->engine, &link->fail_call, fail_work, NULL, link);
    link_reply(link, error, text);
    link_wake(link, error, text);
    link_unref(link);
}

static struct link **place_of(struct links *links, const struct link *link)
{
    struct link **at = &links->first;
    while (*at != link)
        at = &(*at)->next;
    return at;
}

static void remove_link(struct link *link, int error, const char *text)
{
    *place_of(link->links, link) = link->next;
    link_admit(link, false);
    end_link(link, error, text);
}

/* When a node is lost, so are the links of all engines: that of the others count only if the rail
 * leads there, or none was lost. */
static void note_loss(const struct link *link)
{
    struct link *first = links_find(link->links, link->node, link->rail);
    if (first && (first == link || first->comeback.losses == 0 || first->comeback.since_ns > 0))
        comeback_lost(&first->comeback, clock_now_ns());
}

/* The node may still be up: a new link to the same address replaces the dead one. */
void link_fail(struct link *link, int error, const char *text)
{
    struct link *fresh = calloc(1, sizeof(*fresh));
    if (!fresh) {
        remove_link(link, error, text);
        return;
    }
    *fresh = (struct link){.next = link->next,
                           .links = link->links,
                           .engine = link->engine,
                           .node = link->node,
                           .rail = link->rail,
                           .refs = 1,
                           .admitted = link->admitted,
                           .address_bytes = link->address_bytes,
                           .comeback = link->comeback,
                           .other.generation = link->other.generation};
    memcpy(fresh->address, link->address, link->address_bytes);
    *place_of(link->links, link) = fresh;
    note_loss(fresh);
    end_link(link, error, text);
}

void links_end(struct links *links)
{
    while (links && links->first)
        remove_link(links->first, -ECANCELED, "tcad is ending");
}

struct links *links_free(struct links *links)
{
    if (!links)
        return NULL;
    links_end(links);
    links->over = true;
    if (!links->ending)
        free(links);
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
        struct link *link = calloc(1, sizeof(*link));
        if (!link) {
            log_error(NULL, "node %u, rail %s: out of memory for a link", node, rails[i]->driver);
            continue;
        }
        link->links = links;
        link->engine = links->tcad->engine;
        link->node = node;
        link->rail = rail;
        link->refs = 1;
        link->address_bytes = rails[i]->address.len;
        if (link->address_bytes > 0) /* else data is NULL */
            memcpy(link->address, rails[i]->address.data, link->address_bytes);
        link->next = links->first;
        links->first = link;
        if (node != links->tcad->node)
            link_admit(link, true);
    }
}

static struct link *first_of_node(const struct links *links, uint32_t node)
{
    struct link *link = links->first;
    while (link && link->node != node)
        link = link->next;
    return link;
}

void links_down(struct links *links, uint32_t node)
{
    struct link *link;
    while ((link = first_of_node(links, node))) /* done() of a waiting plan may change the table */
        remove_link(link, -EHOSTDOWN, "the node is down");
}

static const struct link *of_peer(const struct link *link, const struct engine *engine,
                                  const struct driver_peer *peer)
{
    while (link && (link->peer != peer || link->engine != engine))
        link = link->next;
    return link;
}

/* Another engine may have used the address of a peer again before the loop knows that this one has
 * disconnected it. */
const struct link *links_of_peer(const struct links *links, const struct engine *engine,
                                 const struct driver_peer *peer)
{
    const struct link *link = of_peer(links->ending, engine, peer); /* see disconnected() */
    return link ? link : of_peer(links->first, engine, peer);
}

int links_lost(struct links *links, const struct engine *engine, const struct driver_peer *peer,
               unsigned *ret_rail)
{
    struct link *link = (struct link *)links_of_peer(links, engine, peer);
    if (!link || link->state == LINK_FAILED)
        return -1;
    const int node = (int)link->node;
    *ret_rail = link->rail;
    link_fail(link, -ENETDOWN, "the driver has lost the peer");
    return node;
}

static struct link *find(const struct links *links, uint32_t node, unsigned rail,
                         const struct engine *engine)
{
    struct link *link = links->first;
    while (link && (link->node != node || link->rail != rail || link->engine != engine))
        link = link->next;
    return link;
}

struct link *links_find(const struct links *links, uint32_t node, unsigned rail)
{
    return find(links, node, rail, links->tcad->engine);
}

/* To the same address as the first engine's. */
static struct link *link_beside(struct link *first, struct engine *engine)
{
    struct link *link = calloc(1, sizeof(*link));
    if (!link)
        return NULL;
    *link = (struct link){.next = first->next,
                          .links = first->links,
                          .engine = engine,
                          .node = first->node,
                          .rail = first->rail,
                          .refs = 1,
                          .address_bytes = first->address_bytes};
    memcpy(link->address, first->address, first->address_bytes);
    first->next = link;
    return link;
}

struct link *link_get(struct links *links, uint32_t node, unsigned rail, struct engine *engine)
{
    struct link *link = find(links, node, rail, engine),
                *first = link ? NULL : links_find(links, node, rail);
    if (first)
        link = link_beside(first, engine);
    if (link)
        link->refs++;
    return link;
}

bool links_know(const struct links *links, uint32_t node)
{
    return first_of_node(links, node) != NULL;
}

bool links_exists(const struct links *links, uint32_t node, unsigned rail)
{
    return links_find(links, node, rail) != NULL;
}
