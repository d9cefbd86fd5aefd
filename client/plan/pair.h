/*
 * Connections between this process and those of other nodes, over which both put by themselves
 * (drivers/seat.h). tcad makes them, or has this process make its end, and tells of their landings,
 * by events. The program reads and writes them whenever it is in a call of the library; while it
 * computes, a thread does (client/core/standby.h). Unless said otherwise, functions are for the
 * program's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/driver.h"
#include "proto/frame.h"
#include "proto/tca.pb-c.h"

struct mapped_region;
struct tca;
struct tca_plan;

/* An instance of a rail's driver. They live as long as the session. */
struct pair_driver {
    struct pair_driver *next;
    uint32_t rail;
    const struct driver_seat *seat;
    struct driver *driver;
};

struct pair {
    struct pair *next;
    uint64_t id;
    struct pair_driver *via;
    struct driver_peer *peer;
    _Atomic bool encrypts;
    int error;    /* it has ended with this */
    bool ended;   /* tcad has said so: it is removed with the last plan that puts over it */
    bool awaited; /* a plan that is being committed is to put over it */
    /* reported by the driver, and not acted upon */
    bool lost; /* puts that were complete may not have arrived */
    bool down;
    /* what tcad is to be told of its connection */
    enum { PAIR_WELL, PAIR_AGAIN /* make another one */, PAIR_GIVEN_UP } report;
    uint32_t turn; /* the number of that connection */
    /* pairs_flush(), by number: the last one that was asked for, begun and done. One at a time is
     * under way, in `flush`. */
    uint64_t flush_wanted, flushing, flushed;
    struct driver_op flush;
    uint8_t offer[OFFER_MAX_BYTES]; /* for the other process, not sent yet */
    size_t offer_bytes;
};

/* Tells tcad to which rails' devices this process has access, so that it can have connections
 * there. Before this session has regions or is in a group: so tcad knows it when others first put
 * here. */
void pairs_tell_rails(struct tca *session);
/* Whether processes of other nodes may be given connections to this one. */
bool pairs_possible(const struct tca *session);
/* Makes session->pairs, unless it exists. -ENOMEM. */
int pairs_expect(struct tca *session);
/* From now on the helper thread stands in for the program. session->pairs is not NULL, and this is
 * not called while messages of tcad are read. Without the thread, connections are moved on in calls
 * of the library only. */
void pairs_stand_by(struct tca *session);

/* The pair that this session puts over, made unless it exists. */
int pair_find(struct tca *session, uint64_t id, uint32_t rail, struct pair **ret_pair);
/* The driver's name for a region of this session. */
int pair_region(const struct pair_driver *via, struct mapped_region *region,
                struct driver_region **ret_region);

/* PAIR, PAIR_GONE, LANDING, WITHDRAWN. May take descriptors from the frame. */
void pair_event(struct tca *session, const Tca__Event *event, struct frame *frame);

/* session->pairs is not NULL: moves them on. With the lock of session->standby. */
void pairs_progress(struct tca *session);
/* Writes what was just put. */
void pairs_push(struct tca *session);
/* Call before sleeping on the doorbell, which then rings when they have work. 0; -EAGAIN: they have
 * work now; other errors: it will not ring. */
int pairs_arm(struct tca *session);
/* control_ops.await: advances the connections and the session's starts meanwhile. */
bool session_await(void *session, short events, uint64_t end_ns);
/* Waits until all data that was put over one pair (NULL: over all) has reached the other process's
 * host, so that the end of a landing, of which the other process is informed, cannot overtake it.
 * Ends the connection if this takes until end_ns. */
void pairs_drain(struct tca *session, const struct pair *pair, uint64_t end_ns);

/* Asks when all that was put over the pairs of the plan has landed, or never will. */
void pairs_flush(struct tca_plan *plan);
/* Whether it has. */
bool pairs_flushed(struct tca_plan *plan);

/* session->pairs is not NULL: takes what has arrived at this host. */
void pairs_take(struct tca *session);
/* Ends all puts over the pair at once. */
void pair_abandon(struct tca *session, struct pair *pair, int error);

/* A region of this session is freed: nothing is written there any more. */
void pairs_forget_region(struct tca *session, struct mapped_region *region);
/* The daemon has ended, and all pairs with it. */
void pairs_lose(struct tca *session, int error);
/* The session ends. All plans must be released. */
void pairs_clear(struct tca *session);
