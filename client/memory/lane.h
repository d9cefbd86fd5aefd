/* Lanes to this session (proto/lane.h): what others of its group on this node share with it. */
#pragma once

#include "client/core/control.h"
#include "client/core/session.h"
#include "drivers/shm/lane.h"

struct lane_offer;

struct lane_in {
    struct lane lane; /* our end: the receiver's */
    uint32_t rank;
    struct lane_offer *offers;
    bool withdrawn;    /* some offers were, with entries perhaps in the lane still */
    int error;         /* a put could not be taken up: */
    uint64_t ours_end; /* what waits for entries before this one fails with that; the sender does
                          the others, see lanes_strict() */
};

/* Events of the daemon. The frame's descriptors may be taken. */
void lane_share(struct tca *session, const Tca__Share *share, struct frame *frame);
void lane_unshare(struct tca *session, const Tca__Share *share);

/* Own memory is about to be freed: puts into it are passed over from now on. */
void lane_forget_target(struct tca *session, uint64_t region);

/* Drains the lane from this rank: 1 all that was published has landed, 0 not yet, or why it cannot.
 */
int lane_in_drain(struct tca *session, struct lane_in *in);

/* From now on others land what they put before they notify. Waits for what they have left to us
 * until now. -ETIMEDOUT: one of them is in the middle of it. */
int lanes_strict(struct tca *session, uint64_t end_ns);
/* They may leave it to us again. */
void lanes_lenient(struct tca *session);

void lanes_clear(struct tca *session);

static inline struct lane_in *lane_in_of(const struct tca *session, uint32_t rank)
{
    return __builtin_expect(session->lanes_in != NULL, 0) ? session->lanes_in[rank] : NULL;
}

/* Before a notification from this rank is taken, once it has arrived: its data must have landed. As
 * lane_in_drain(). */
static inline int lane_landed(struct tca *session, uint32_t rank)
{
    /* What the daemon has said before the sender could start: that there is a lane at all. */
    if (__builtin_expect(atomic_load_explicit(&session->segment->events, memory_order_relaxed) !=
                             session->events_seen,
                         0) &&
        session_drain(session) < 0 && session->deaf)
        return session->control.lost;
    struct lane_in *in = lane_in_of(session, rank);
    if (__builtin_expect(!in || !lane_pending(&in->lane), 1))
        return 1;
    return lane_in_drain(session, in);
}
