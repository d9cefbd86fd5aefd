/* Internal to the shm driver. */
#pragma once

#include "drivers/copy/combine.h"
#include "drivers/copy/copy.h"
#include "drivers/driver.h"
#include "drivers/flows.h"
#include "drivers/mapped.h"
#include "drivers/shm/copy_modes.h"
#include "drivers/shm/lane.h"

struct shm_put;

enum {
    SHM_PUT_COST = 256,           /* fixed cost of a put, in bytes of copying */
    SHM_AT_ONCE_SEGMENTS = 16,    /* of at_once_max */
    SHM_PIECE_BYTES = 128 * 1024, /* default piece of a put that is copied in pieces */
    /* While flows share the engine: what is copied before it looks at all sessions again. That
     * takes as long as the start of a short put. */
    SHM_SHARED_BYTES = 8 * 1024,
};

struct shm_peer {
    /* puts take the slow path: some are queued, the peer has failed, or the lane is not empty */
    bool detour;
    bool self;         /* this process itself */
    int error;         /* not 0: the peer has failed */
    uint32_t waiting;  /* queued puts */
    struct lane *lane; /* the sender's end of the lane to it, or NULL */
};

struct shm_driver {
    struct driver driver;
    uint64_t cookie;      /* random: identifies the landings of this instance */
    uint64_t piece_bytes; /* piece of a queued put: whole elements of any type */
    uint64_t shared_max;  /* the same, and at_once_max, while flows share the instance */
    /* puts of at most this size, unless deferred, are copied immediately; UINT64_MAX: no limit */
    uint64_t segment_bytes;
    /* limit of what is copied immediately between two calls of progress(), so that a chain of many
     * short puts does not delay others; UINT64_MAX: no limit */
    uint64_t at_once_max;
    uint64_t at_once;   /* copied since the last progress() */
    struct flows flows; /* queued puts */
};

/* The content of a landing blob. */
struct shm_blob {
    uint64_t cookie;
    uint64_t address;
    uint64_t size_bytes; /* of the layout */
    uint64_t token;
    uint32_t notify;
    uint32_t dmabuf; /* the target's memory is of one */
};
static_assert(sizeof(struct shm_blob) <= LANDING_MAX_BYTES, "fits into a blob");

enum shm_kind {
    SHM_NOTHING, /* a notification without data */
    SHM_WORD,    /* eight contiguous bytes */
    SHM_BYTES,   /* contiguous */
    SHM_PROGRAM,
    SHM_COMBINE, /* contiguous, combined with what the target has */
};

/* A start of a shared put. It ends, or is cancelled, in IDLE. */
enum share_state {
    SHARE_IDLE,
    SHARE_ORDERING,  /* pull, push, half: what is staged in the lane must reach its targets first */
    SHARE_COPYING,   /* pieces are copied, staged or published for the receiver */
    SHARE_NOTIFYING, /* the sender has done its part */
    SHARE_DRAINING,  /* pull, push, half: the receiver's part must be copied, by either end */
    SHARE_STATES,
};

/* A put whose copying can be shared with the receiver (share.c). */
struct shm_share {
    struct copy_mode mode;
    struct lane_put put;
    enum shm_kind kind; /* of the put, without streaming stores */
    uint8_t *target;
    const uint8_t *source;
    struct copy_choice choice; /* of COPY_NONE */
    enum share_state state;
    enum copy_method method; /* of the current or last start; COPY_NONE: not started yet */
    uint64_t published;      /* the current start ends when the lane's head reaches this */
};

struct shm_put {
    enum shm_kind kind;
    bool notify;
    bool stream; /* with streaming stores, which bypass the caches */
    bool detour; /* takes the slow path: `slow`, or shared */
    bool slow;   /* too long, deferred, or dmabuf: */
    bool dmabuf; /* source or target may be write-combined: loads and stores there are only ordered
                    by fences */
    bool deferred;                /* copied by progress() only */
    bool apart;                   /* need not wait for what is in the lane */
    struct copy_program *program; /* SHM_PROGRAM, or offered to the receiver */
    combine_kernel *combine;      /* SHM_COMBINE */
    uint8_t *target;              /* the layout's base; SHM_WORD, SHM_BYTES: the first byte */
    const uint8_t *source;
    /* always the layouts' bases; with parts: of a contiguous side, its first byte */
    uint8_t *base_target;
    const uint8_t *base_source;
    uint64_t size_bytes;
    uint64_t from_bytes; /* not 0: a part, from this position of the program on, which is that */
    bool by_target;      /* in the target; else in the source */
    uint64_t token;
    struct shm_peer *peer;
    struct shm_share *share;   /* NULL: the sender copies it alone in this copy mode: */
    struct shm_share *offered; /* NULL: always */
    /* while it is queued */
    struct driver_op *op;
    uint64_t position_bytes;
    struct flow_put queued;
};

/* put.c */
void shm_copy(const struct shm_put *put, uint64_t position, uint64_t length);
/* share.c: advances a shared put and notifies. 1 (complete) or 0 (not yet). */
int shm_share_advance(struct shm_driver *shm, struct shm_put *put);
void shm_share_end(struct shm_share *share); /* ends a start, if there is one */
bool shm_share_legal(enum share_state from, enum share_state to);
void shm_share_free(struct shm_put *put);
/* Whether the lane to the peer is drained (true without a lane). Waits for a moment and helps to
 * drain it. */
bool shm_lane_drained(struct shm_peer *peer);

/* See driver_ops.put_compile. */
int shm_put_compile(const struct driver_put_args *args, struct copy_program **ret_program);
int shm_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void shm_put_release(struct driver *driver, struct driver_put *put);
int shm_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op);
void shm_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int shm_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
int shm_progress(struct driver *driver, unsigned budget);
