/* Inside the shm driver: both ends of a put are mapped in this process. */
#pragma once

#include "drivers/copy/copy.h"
#include "drivers/driver.h"
#include "drivers/flows.h"
#include "drivers/shm/lane.h"
#include "drivers/shm/ways.h"

struct shm_put;

enum {
    SHM_PUT_COST = 256,        /* of a put in itself, in bytes that could be copied meanwhile */
    SHM_AT_ONCE_SEGMENTS = 16, /* of at_once_max */
    SHM_PIECE_BYTES =
        128 * 1024, /* of a put that is copied in pieces, where the configuration does not say */
};

struct shm_region {
    uint8_t *base;
    uint64_t length_bytes;
};

struct shm_peer {
    bool detour; /* puts must not be copied at once without a look: some wait, there is an error, or
                    something in the lane */
    bool self;   /* this process itself */
    int error;   /* not 0: it has failed */
    uint32_t waiting;  /* puts, in the driver's queues */
    struct lane *lane; /* the sender's end of the lane to it; NULL: none */
};

struct shm_driver {
    struct driver driver;
    uint64_t cookie;        /* of this instance: tells its landings from any other bytes */
    uint64_t piece_bytes;   /* what is copied in one go of a put that is not copied at once */
    uint64_t segment_bytes; /* up to so many a put is copied at once. UINT64_MAX: any, but for those
                               that are deferred */
    /* What may be copied at once between two progress(), all puts together: a chain of many short
     * ones must not hold up everybody else either. UINT64_MAX: anything. */
    uint64_t at_once_max;
    uint64_t at_once;   /* since the last progress() */
    struct flows flows; /* puts that are being copied in pieces, or wait for that */
};

/* What a landing blob holds. */
struct shm_blob {
    uint64_t cookie;
    uint64_t address;
    uint64_t size_bytes; /* of the layout */
    uint64_t token;
    uint32_t notify;
    uint32_t reserved;
};
static_assert(sizeof(struct shm_blob) <= LANDING_MAX_BYTES, "fits");

enum shm_kind {
    SHM_NOTHING, /* to copy: a notification alone */
    SHM_WORD,    /* eight contiguous bytes */
    SHM_BYTES,   /* contiguous */
    SHM_PROGRAM,
};

/* A put whose copying is shared with the receiver (share.c). */
struct shm_share {
    enum way way;
    struct lane_put put;
    struct copy_program *program; /* its own, when the put needs none */
    struct way_choice choice;     /* of WAY_NONE */
    enum way now;                 /* of the current start, once it has begun */
    enum way last;                /* of the one before */
    uint64_t published; /* of the current start: the lane's entries up to this one are to be done */
    bool begun;
    bool notified;
};

struct shm_put {
    enum shm_kind kind;
    bool notify;
    bool stream;   /* past the caches */
    bool detour;   /* it is not simply copied at once: too long, deferred, shared or attached */
    bool deferred; /* copied by progress() only */
    struct copy_program *program; /* SHM_PROGRAM */
    uint8_t *target;              /* the layout's base; contiguous: the bytes themselves */
    const uint8_t *source;
    uint8_t *base_target; /* the layouts' bases in any case */
    const uint8_t *base_source;
    uint64_t size_bytes;
    uint64_t token;
    struct shm_peer *peer;
    struct shm_share *share;   /* NULL: the sender copies it */
    struct attached *attached; /* NULL, or the target is memory that cannot be mapped */
    /* while it is queued */
    struct driver_op *op;
    uint64_t position_bytes;
    struct flow_put place;
};

/* put.c */
void shm_copy(const struct shm_put *put, uint64_t position, uint64_t length);
/* share.c: moves a shared put on: 1 it is complete, 0 not yet. Notifies. */
int shm_share_advance(struct shm_driver *shm, struct shm_put *put);
/* Into memory that is not mapped here, by the kernel. */
int shm_attached_copy(const struct shm_put *put, uint64_t position, uint64_t length);
void shm_share_end(struct shm_share *share); /* of a start */
void shm_share_free(struct shm_put *put);
/* Whether the lane to the peer has been drained: true without a lane. Tries for a moment, and
 * helps. */
bool shm_lane_settled(struct shm_peer *peer);

int shm_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void shm_put_release(struct driver *driver, struct driver_put *put);
int shm_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op);
int shm_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
int shm_progress(struct driver *driver, unsigned budget);
