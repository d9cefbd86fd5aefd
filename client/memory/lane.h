/* Lanes to this session (proto/lane.h), through which processes of its group on this node share the
 * copying of their puts with it. */
#pragma once

#include "client/core/control.h"
#include "client/core/session.h"
#include "drivers/shm/lane.h"

struct lane_offer;
struct mapped_region;

struct lane_in {
    struct lane lane; /* the receiver's end */
    uint32_t rank;
    struct lane_offer *offers;
    struct lane_offer *withdrawn; /* freed once the lane has no entries of them */
    int error;                    /* a put could not be accepted: */
    uint64_t ours_end; /* waits for entries before this one fail with it; the sender copies the
                          later ones, see lanes_strict() */
    struct lane_in *next;
};

/* Events of the daemon. May take descriptors from the frame. */
void lane_share(struct tca *session, const Tca__Share *share, struct frame *frame);
/* Those of the targets that are shared puts. */
void lanes_withdraw(struct tca *session, const uint32_t *targets, size_t count);

/* The rank, a process of this node, has ended: copies what it has left in its lane, and unmaps
 * that. */
void lane_rank_gone(struct tca *session, uint32_t rank);

/* A region of this session is about to be freed: skips puts into it from now on. */
void lanes_forget_region(struct tca *session, const struct mapped_region *region);

/* Copies the pending entries of a lane. 1: all published entries are copied; 0: not yet; negative:
 * an entry cannot be copied. */
int lane_in_drain(struct tca *session, struct lane_in *in);

/* Copies one pending entry of each lane: while this process waits for the receiver of its own put,
 * which may be waiting for it. The context is the session. */
void lanes_help(void *context);

/* Copies what is pending, while this process waits: for a start in the daemon's seat, for example,
 * whose notifications senders do not raise before that. */
void lanes_drain(const struct tca *session);

/* Makes senders complete their copies before they notify, instead of leaving the rest to this
 * process, and completes those that they have left to it. -ETIMEDOUT: a sender is still copying. */
int lanes_strict(struct tca *session, uint64_t end_ns);
/* Permits senders to leave copies to this process again. */
void lanes_lenient(struct tca *session);

void lanes_clear(struct tca *session);

static inline struct lane_in *lane_in_of(const struct tca *session, uint32_t rank)
{
    return __builtin_expect(session->lanes_in != NULL, 0) ? session->lanes_in[rank] : NULL;
}

/* Called when a notification from this rank has arrived, before it is taken: completes the copies
 * of its data. Returns as lane_in_drain(). */
static inline int lane_complete(struct tca *session, uint32_t rank)
{
    /* The event that announces the lane precedes the sender's first start. */
    if (__builtin_expect(atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
                             session->events_seen,
                         0) &&
        session_drain(session) < 0 && session->events_lost)
        return session->control.lost;
    struct lane_in *in = lane_in_of(session, rank);
    if (__builtin_expect(!in || !lane_pending(&in->lane), 1))
        return 1;
    return lane_in_drain(session, in);
}
