/* Links: this node's route to another node, or to itself, over one rail. A link is created from the
 * rail addresses in a peer daemon's greeting, and dies when that daemon ends or the driver loses
 * the peer. Plans hold references, so that the driver's peer exists until their puts are
 * released. */
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

struct link {
    struct link *next; /* in links->first or links->ending */
    struct links *links;
    uint32_t node;
    unsigned rail;
    uint32_t refs; /* held by the table and by plans */
    bool dead;     /* not in the table any more */
    bool admitted; /* its host may connect to this node's end of the rail */
    uint64_t mark; /* of the last traversal of a plan's links: tcad->last_mark */
    size_t address_bytes;
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_peer *peer; /* NULL until link_connect() */
    bool connected;           /* the loop's copy of `peer` != NULL */
    struct held *held;        /* see link_hold() */
    struct engine_call fail_call, disconnect_call;
    struct comeback comeback;
};

int links_new(struct tcad *tcad, struct links **ret_links);
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
/* The link of a driver's peer, or NULL. It may be dead and about to be freed. */
const struct link *links_of_peer(const struct links *links, const struct driver_peer *peer);
/* Makes the link of a driver's peer dead. Returns its node, or -1 if it was dead already. */
int links_lost(struct links *links, const struct driver_peer *peer, unsigned *ret_rail);

/* The link, without a reference, or NULL. */
struct link *links_find(const struct links *links, uint32_t node, unsigned rail);
/* The link with a reference, or NULL. */
struct link *link_get(struct links *links, uint32_t node, unsigned rail);
void link_unref(struct link *link);
/* Call for the source of each put over a link that was lost. The provider may still read from it:
 * holds the region's memory until the driver has disconnected the peer, so that the provider does
 * not send other data that is mapped there later. Takes over `held`, from link_held_new() when the put took the
 * link. */
void link_hold(struct link *link, struct held *held, struct region *region);
struct held *link_held_new(void); /* NULL: out of memory */
/* Any thread: creates the driver's peer, unless it exists. */
int link_connect(struct link *link);

/* For displays: whether a live link exists. */
bool links_exists(const struct links *links, uint32_t node, unsigned rail);
