/* Links: this node's way to another node (or to itself) over one rail. A link is made when a daemon
 * greets us with its rails' addresses, and is dead when that daemon goes or the driver loses it;
 * plans hold references, so that the driver's peer stays until their puts have been released. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/rails/comeback.h"
#include "drivers/driver.h"
#include "proto/tca.pb-c.h"

struct held;
struct links;
struct region;
struct tcad;

struct link {
    struct link *next; /* in the table, or among those that end */
    struct links *links;
    uint32_t node;
    enum rail rail;
    uint32_t refs; /* the table, plans */
    bool dead;     /* out of the table */
    bool admitted; /* its host may connect to us */
    uint64_t mark; /* of who went over the links of a plan last: tcad->last_mark */
    size_t address_bytes;
    uint8_t address[ADDRESS_MAX_BYTES];
    struct driver_peer *peer; /* NULL until link_connect() */
    bool connected;           /* the loop knows of that */
    struct held *held;        /* see link_hold() */
    struct comeback comeback;
};

int links_new(struct tcad *tcad, struct links **ret_links);
/* All of them are dead from now on. */
void links_end(struct links *links);
/* Every plan has been released, the engine still runs (or never did). */
struct links *links_free(struct links *links);

/* Whether our end of the rail, if we have it, can reach that node. */
bool links_possible(const struct tcad *tcad, enum rail rail, uint32_t node);
/* NULL, or why it is not, and what would help if anything does. */
const char *links_why_not(const struct tcad *tcad, enum rail rail, uint32_t node);

/* From a greeting (or, for the own node, at start). */
void links_up(struct links *links, uint32_t node, size_t rail_count,
              Tca__RailAddress *const *rails);
void links_down(struct links *links, uint32_t node);
/* The link that a driver's peer belongs to: NULL, or one that may be dead and about to go. */
const struct link *links_of_peer(const struct links *links, const struct driver_peer *peer);
/* The link that a driver's peer belongs to is dead from now on: its node, or -1 when it was so
 * already. */
int links_lost(struct links *links, const struct driver_peer *peer, enum rail *ret_rail);

/* No reference: NULL where there is none. */
struct link *links_find(const struct links *links, uint32_t node, enum rail rail);
/* A reference, or NULL: no such rail to that node. */
struct link *link_get(struct links *links, uint32_t node, enum rail rail);
void link_unref(struct link *link);
/* A put from this region went over the link. When the link was lost, the provider may still have
 * it, and read from the region: its memory stays until the driver has dropped the peer, lest
 * somebody else's bytes that were mapped there since are sent. */
void link_hold(struct link *link, struct region *region);
/* Any thread: makes the driver's peer unless there is one. */
int link_connect(struct link *link);

/* For displays: whether a live link exists. */
bool links_exists(const struct links *links, uint32_t node, enum rail rail);
