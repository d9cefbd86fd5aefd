/*
 * Links: the route of an engine to another node, or to its own, over one rail. A link of the first
 * engine is created from the rail addresses in a peer daemon's greeting, and those of the others
 * when a plan needs one; it dies when that daemon ends or the driver loses the peer. Plans hold
 * references, so that the driver's peer exists until their puts are released.
 *
 * A link makes one peer of the engine's driver. If it is lost, a new link to the same address takes
 * its place in the table. The states, and which may follow which, are a table in link_state.c.
 *
 * All calls are for the loop's thread. What can be slow in a driver, making a peer and completing
 * it, runs on the worker.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "daemon/rails/comeback.h"
#include "drivers/driver.h"
#include "proto/tca.pb-c.h"

struct held;
struct links;
struct region;
struct tcad;

enum link_state {
    LINK_IDLE,
    LINK_CONNECTING, /* the worker makes the driver's peer */
    LINK_OFFERED,    /* the other node was sent the peer's offer, and is to reply with its own */
    LINK_ANSWERING,  /* the worker completes the peer with the other node's offer */
    LINK_CONNECTED,
    LINK_FAILED, /* not in the table any more */
    LINK_STATE_COUNT,
};

/* What a driver's peer tells the peer at the other end: see driver.h. The generation identifies the
 * peer; later peers of a daemon have higher ones. */
struct offer {
    uint64_t generation; /* 0: none */
    size_t bytes;
    uint8_t data[OFFER_MAX_BYTES];
};

/* A wait for a link; the owner embeds it. */
struct link_wait {
    struct link_wait *next;
    /* Called once: 0, or why the link failed. text: "" or valid during the call. */
    void (*done)(void *context, int status, const char *text);
    void *context;
};

struct link {
    struct link *next; /* in links->first or links->ending */
    struct links *links;
    struct engine *engine;
    uint32_t node;
    unsigned rail;
    enum link_state state;
    uint32_t refs;      /* held by the table, by plans and by jobs */
    bool admitted;      /* its host may connect to this node's end of the rail */
    bool was_connected; /* puts may have been posted to its peer */
    uint64_t mark;      /* of the last traversal of a plan's links: tcad->last_mark */
    size_t address_bytes;
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_peer *peer; /* NULL: none was made */
    struct held *held;        /* see link_hold() */
    struct engine_call fail_call, disconnect_call;
    struct comeback comeback; /* of the first engine's link: the rail's */

    /* ---- connecting ---- */
    struct link_wait *waits;
    struct driver_peer *made; /* the worker's, like `status` and `own`, while it works */
    int status;
    struct offer own, other;
    uint32_t reply_tag; /* of the other node's PeerOffer to reply to; 0: none */
};

/* Called when a connected link fails because the other node has replaced its end (not if its node
 * is down or the driver has reported the loss). */
typedef void link_lost(struct tcad *tcad, uint32_t node, unsigned rail, int error);

int links_new(struct tcad *tcad, link_lost *lost, struct links **ret_links);
/* Makes all links dead. */
void links_end(struct links *links);
/* All plans must be released; the engine must still run, or never have run. */
struct links *links_free(struct links *links);

/* Whether this node has the rail, and it can reach that node. */
bool links_possible(const struct tcad *tcad, unsigned rail, uint32_t node);
/* NULL, or the reason why it is not possible, and the remedy if there is one. */
const char *links_why_not(const struct tcad *tcad, unsigned rail, uint32_t node);

/* Creates the links from a greeting or, for this node, at start. */
void links_up(struct links *links, uint32_t node, size_t rail_count,
              Tca__RailAddress *const *rails);
void links_down(struct links *links, uint32_t node);
/* The link of a peer of the engine's driver, or NULL. It may be dead and about to be freed. */
const struct link *links_of_peer(const struct links *links, const struct engine *engine,
                                 const struct driver_peer *peer);
/* Makes the link of such a peer dead. Returns its node, or -1 if it was dead already. */
int links_lost(struct links *links, const struct engine *engine, const struct driver_peer *peer,
               unsigned *ret_rail);

/* The first engine's link, without a reference, or NULL. */
struct link *links_find(const struct links *links, uint32_t node, unsigned rail);
/* The engine's link with a reference. NULL: the first engine has none, or out of memory. */
struct link *link_get(struct links *links, uint32_t node, unsigned rail, struct engine *engine);
void link_unref(struct link *link);
/* Call for the source of each put over a link that was lost. The provider may still read from it:
 * holds the region's memory until the driver has disconnected the peer, so that the provider does
 * not send other data that is mapped there later. Takes over `held`, from link_held_new() when the
 * put took the link. */
void link_hold(struct link *link, struct held *held, struct region *region);
struct held *link_held_new(void); /* NULL: out of memory */

/* Connects the link, unless it was connected: 0 (puts over a link that was lost since then fail);
 * -EINPROGRESS: wait->done() will be called; or another error. The caller holds a reference until
 * then. wait: NULL if another wait is registered. */
int link_connect(struct link *link, struct link_wait *wait);
/* A request from another node. */
void links_offered(struct links *links, uint32_t node, uint32_t tag, const Tca__PeerOffer *offer);

/* Of what this node puts over it. Any thread. */
enum encryption link_encryption(const struct link *link);
/* Whether any link exists to the node: this node has contacted it. */
bool links_know(const struct links *links, uint32_t node);
/* link_back.c: whether the rail, which was lost, leads to the node again, for long enough. Asks the
 * node if need be. */
bool link_is_back(struct tcad *tcad, uint32_t node, unsigned rail);
/* Whether a live link exists. */
bool links_exists(const struct links *links, uint32_t node, unsigned rail);

bool link_state_legal(enum link_state from, enum link_state to);
