/*
 * Puts whose copying the receiver shares. The sender publishes the receiver's part of a start in
 * the lane. If the receiver does not begin within a moment, the sender does that part, too, so that
 * a start never depends on the receiver.
 */
#include "drivers/shm/share.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "drivers/shm/shm.h"
#include "proto/wait.h"

enum {
    LOOKS = 200, /* polls of the receiver's line, 10 to 100 ns each, until it counts as absent */
    DIRECT_MIN = 16 * 1024, /* bytes of a direct entry, except the last: amortises the locking */
    DIRECT_ENTRIES = 4,     /* of a put */
    /* of a deferred put, both halves: bounds the delay of other puts to the same receiver */
    DEFERRED_PIECE = 2 * SHM_PIECE_BYTES,
};

/* Waits a moment for the backlog to fall to `most`. True: it has. False: the receiver is still
 * working; try again. If the receiver is absent, processes entries itself, at most as many as the
 * lane holds, because a hostile receiver can reset `head` repeatedly. */
static bool wait_backlog(struct lane *lane, uint64_t most)
{
    uint64_t seen = lane_backlog(lane);
    unsigned done = 0;
    for (unsigned looks = 0; seen > most;) {
        if (lane->meanwhile)
            lane->meanwhile(lane->context);
        core_pause();
        uint64_t backlog = lane_backlog(lane);
        if (backlog < seen) {
            seen = backlog;
            looks = 0;
        } else if (++looks == LOOKS) {
            int r = done++ < LANE_ENTRIES ? lane_drain_one(lane) : -EAGAIN;
            if (r < 0)
                return false;
            backlog = lane_backlog(lane);
            if (r == 0 && backlog == seen)
                return true; /* `head` was overwritten: the backlog is unknown */
            seen = backlog;
            looks = LOOKS - 1; /* the receiver is absent: continue immediately */
        }
    }
    return true;
}

bool shm_lane_drained(struct shm_peer *peer)
{
    return !peer->lane || wait_backlog(peer->lane, 0);
}

/* If the receiver's daemon takes notifications, the lane must be drained before a notification. */
static bool may_notify(struct lane *lane)
{
    atomic_thread_fence(memory_order_seq_cst); /* pairs with lanes_strict() */
    return !atomic_load_explicit(&lane->receiver->strict, memory_order_relaxed) ||
           wait_backlog(lane, 0);
}

/* ---- a start ---- */

#define TO(state) (1u << SHARE_##state)

/* From (row) to: a bit per state. */
static const unsigned legal[SHARE_STATES] = {
    [SHARE_IDLE] = TO(ORDERING) | TO(COPYING),
    [SHARE_ORDERING] = TO(COPYING) | TO(IDLE),
    [SHARE_COPYING] = TO(NOTIFYING) | TO(IDLE),
    [SHARE_NOTIFYING] = TO(DRAINING) | TO(IDLE),
    [SHARE_DRAINING] = TO(IDLE),
};

bool shm_share_legal(enum share_state from, enum share_state to)
{
    return from < SHARE_STATES && to < SHARE_STATES && (legal[from] & (1u << to));
}

static inline void move(struct shm_share *share, enum share_state to)
{
    assert(legal[share->state] & (1u << to));
    share->state = to;
}

/* The position at which to pause. */
static uint64_t stop_at(const struct shm_put *put)
{
    const uint64_t left = put->size_bytes - put->position_bytes;
    return put->deferred && left > DEFERRED_PIECE ? put->position_bytes + DEFERRED_PIECE
                                                  : put->size_bytes;
}

/* Stages the put through the slots. Once the receiver counts as absent and the slots are empty,
 * copies the rest directly. Whether the whole source has been read. */
static bool copy_ring(struct shm_put *put)
{
    struct shm_share *share = put->share;
    struct lane *lane = put->peer->lane;
    const uint64_t stop = stop_at(put);
    while (put->position_bytes < stop) {
        uint64_t left = stop - put->position_bytes;
        if (!lane_has_room(lane)) {
            if (!wait_backlog(lane, LANE_ENTRIES - 1))
                return false;
            if (lane_backlog(lane) == 0) {
                shm_copy(put, put->position_bytes, left);
                put->position_bytes = stop;
                break;
            }
        }
        uint64_t piece = left < share->mode.piece_bytes ? left : share->mode.piece_bytes;
        copy_program_pack(share->put.program, lane_slot(lane), share->put.source,
                          put->position_bytes, piece);
        lane_publish(lane, share->put.id, LANE_STAGED, put->position_bytes, piece);
        put->position_bytes += piece;
    }
    return stop == put->size_bytes;
}

/* Publishes the receiver's part. */
static void publish_direct(struct shm_put *put, uint64_t position, uint64_t end)
{
    struct shm_share *share = put->share;
    struct lane *lane = put->peer->lane;
    uint64_t left = end - position;
    uint64_t piece = (left / DIRECT_ENTRIES + 4095) & ~4095ull;
    if (piece < DIRECT_MIN)
        piece = DIRECT_MIN;
    for (; left > 0; left -= piece, position += piece) {
        if (piece > left)
            piece = left;
        lane_publish(lane, share->put.id, LANE_DIRECT, position, piece);
    }
    share->published = lane->next;
}

/* Copies this end's part, which can be nothing or everything. Whether that was the last piece. */
static bool copy_half(struct shm_put *put)
{
    struct lane *lane = put->peer->lane;
    const enum copy_method method = put->share->method;
    if (lane->next != lane->head &&
        !wait_backlog(lane, DIRECT_ENTRIES)) /* of a deferred put's last piece */
        return false;
    const uint64_t position = put->position_bytes, end = stop_at(put);
    const uint64_t half = method == COPY_PULL   ? 0
                          : method == COPY_PUSH ? end - position
                                                : (end - position) / 2 & ~63ull;
    publish_direct(put, position + half, end);
    if (half > 0) /* 0: the receiver copies everything */
        shm_copy(put, position, half);
    put->position_bytes = end;
    return end == put->size_bytes;
}

static bool notify(struct shm_driver *shm, const struct shm_put *put)
{
    if (!put->notify)
        return true;
    if (!may_notify(put->peer->lane))
        return false;
    shm->driver.events.notified(shm->driver.events.context, put->token);
    return true;
}

/* The mode for the distance at present. */
static enum copy_method guess(struct lane *lane, const struct shm_put *put)
{
    const struct copy_choice *choice = &put->share->choice;
    lane_age_probe(lane, put->size_bytes);
    return lane->distance_ns <= choice->up_to_ns ? choice->near : choice->far;
}

static void begin(struct lane *lane, struct shm_put *put)
{
    struct shm_share *share = put->share;
    share->method = share->mode.method == COPY_NONE ? guess(lane, put) : share->mode.method;
    move(share, share->method == COPY_RING ? SHARE_COPYING : SHARE_ORDERING);
}

/* Goes through the states as far as possible. Whether the start is complete. */
static bool advance(struct shm_driver *shm, struct shm_put *put)
{
    struct shm_share *share = put->share;
    struct lane *lane = put->peer->lane;
    const bool ring = share->method == COPY_RING;
    switch (share->state) {
    case SHARE_ORDERING:
        if (lane->next != lane->head && !wait_backlog(lane, 0))
            return false;
        move(share, SHARE_COPYING);
        __attribute__((fallthrough));
    case SHARE_COPYING:
        if (!(ring ? copy_ring(put) : copy_half(put)))
            return false;
        move(share, SHARE_NOTIFYING);
        __attribute__((fallthrough));
    case SHARE_NOTIFYING:
        if (!notify(shm, put))
            return false;
        if (ring)
            return true;
        move(share, SHARE_DRAINING);
        __attribute__((fallthrough));
    default: /* DRAINING */
        return wait_backlog(lane, lane->next - share->published);
    }
}

int shm_share_advance(struct shm_driver *shm, struct shm_put *put)
{
    struct shm_share *share = put->share;
    struct lane *lane = put->peer->lane;
    if (share->state == SHARE_IDLE)
        begin(lane, put);
    const bool complete = advance(shm, put);
    put->peer->detour = put->peer->detour || lane->next != lane->head;
    if (complete)
        shm_share_end(share);
    return complete;
}

void shm_share_end(struct shm_share *share)
{
    if (share->state != SHARE_IDLE)
        move(share, SHARE_IDLE);
}

void shm_share_free(struct shm_put *put)
{
    if (!put->offered)
        return;
    if (put->peer->lane)
        lane_remove(put->peer->lane, &put->offered->put);
    free(put->offered);
}

/* ---- set-up ---- */

void shm_peer_self(struct driver_peer *driver_peer)
{
    ((struct shm_peer *)driver_peer)->self = true;
}

void shm_peer_lane(struct driver_peer *driver_peer, struct lane *lane)
{
    ((struct shm_peer *)driver_peer)->lane = lane;
}

void shm_put_defer(struct driver_put *driver_put, bool defer)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    put->deferred = defer;
    put->slow |= defer;
    put->detour |= defer;
}

void shm_put_apart(struct driver_put *driver_put)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    assert(!put->offered);
    put->apart = true;
}

/* What both ends copy by, for every mode. */
static int complete_program(struct shm_put *put, const struct layout *target,
                            const struct layout *source)
{
    return put->program ? copy_program_complete(put->program, target, source)
                        : copy_program_new(target, source, &put->program);
}

int shm_put_share(struct driver_put *driver_put, uint32_t id, const struct layout *target,
                  const struct layout *source)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    if (!put->peer->lane || put->offered || put->size_bytes == 0)
        return -EINVAL;
    struct shm_share *share = calloc(1, sizeof(*share));
    if (!share)
        return -ENOMEM;
    int r = complete_program(put, target, source);
    *share = (struct shm_share){
        .mode.piece_bytes = LANE_SLOT_BYTES,
        .choice = copy_choose(target, source),
        .put = {.id = id,
                .size_bytes = put->size_bytes,
                .program = put->program,
                .target = put->base_target,
                .source = put->base_source},
        .kind = put->kind,
        .target = put->target,
        .source = put->source,
    };
    if (r == 0)
        r = lane_add(put->peer->lane, &share->put);
    if (r < 0) {
        free(share);
        return r;
    }
    put->share = put->offered = share;
    put->detour = true;
    return 0;
}

void shm_put_mode(struct driver_put *driver_put, const struct copy_mode *mode)
{
    struct shm_put *put = (struct shm_put *)driver_put;
    struct shm_share *share = put->offered;
    assert(share->state == SHARE_IDLE);
    const bool program = mode->stream || share->kind == SHM_PROGRAM;
    share->mode = *mode;
    put->kind = program ? SHM_PROGRAM : share->kind;
    put->target = program ? put->base_target : share->target;
    put->source = program ? put->base_source : share->source;
    put->stream = mode->stream;
    put->share = mode->method == COPY_PUSH ? NULL : share;
    put->detour = put->share || put->slow;
}

enum copy_method shm_put_copy_method(const struct driver_put *driver_put)
{
    const struct shm_put *put = (const struct shm_put *)driver_put;
    return put->size_bytes == 0 ? COPY_NONE : put->share ? put->share->method : COPY_PUSH;
}

bool shm_peer_copied(struct driver_peer *driver_peer)
{
    struct shm_peer *peer = (struct shm_peer *)driver_peer;
    return peer->error < 0 || shm_lane_drained(peer);
}
