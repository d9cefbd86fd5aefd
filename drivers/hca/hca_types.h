/* What the hca driver consists of: see hca.h. */
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "drivers/credits.h"
#include "drivers/driver.h"
#include "drivers/hca/config.h"
#include "drivers/hca/hca_wire.h"
#include "drivers/landings.h"
#include "drivers/packed.h"
#include "drivers/recall.h"
#include "drivers/rnic/port.h"
#include "drivers/seat.h"
#include "drivers/window.h"

enum {
    HCA_SEGMENT_BYTES = 8192,    /* the default */
    HCA_COPY_BYTES = 512,        /* shorter puts are copied */
    HCA_BLOCK_BYTES = 2048,      /* mean length of blocks from which writing each is cheaper */
    HCA_BLOCKS_MAX = 1024,       /* of a list, in which a write has to search */
    HCA_REQUESTS = 128,          /* work requests in a send queue */
    HCA_CHAIN = 16,              /* of a doorbell */
    HCA_CHAIN_BYTES = 256 << 10, /* then other flows get their turn */
    HCA_SGES = 8,                /* of a request */
    HCA_QUIET = 32,              /* requests without a completion before one that asks for it */
    HCA_INLINE_BYTES = 128,
    HCA_POLL = 16,             /* completions at a time */
    HCA_CQ_FIRST = 1 << 12,    /* entries at first, for 19 peers */
    HCA_EVENTS_EVERY = 4096,   /* rounds without sleep: look for events of the device, */
    HCA_SLEEPS_MAX = 8,        /* or after so many sleeps */
    HCA_TIMEOUT = 16,          /* 4.096 us * 2^16 = 0.27 s until a packet is sent again, */
    HCA_RETRIES = 6,           /* so often; soft-RoCE takes 7, the most, for ever */
    HCA_RECALLED_KEPT = 256,   /* recalled regions that a peer remembers */
    HCA_BUFFERS_MAX = 1 << 30, /* bytes of all peers that were announced */
    HCA_CONFIRM_MS = 30000, /* a peer that has not stopped writing to freed memory by then is lost:
                                it may only be waiting for a processor */
};

/* What queue pairs and memory have to have in common. */
struct hca_domain {
    struct ibv_pd *pd;
    uint32_t users; /* under the driver's lock */
};

struct hca_region {
    struct recall_key recall;  /* first; after it was freed */
    struct hca_domain *domain; /* NULL: of a process, which registers it for its peers only */
    struct ibv_mr *mr;
    bool remote; /* peers may write there */
    uint8_t *base;
    uint64_t length_bytes;
    int dmabuf; /* its descriptor, or -1: */
    uint64_t dmabuf_offset_bytes;
    void (*gone)(void *context); /* struct driver_memory */
    void *context;
    uint64_t number;          /* unique in the instance */
    bool told;                /* peers may know its key */
    struct hca_region *parts; /* registered by themselves, under the driver's lock */
    struct hca_region *next_part;
    struct hca_region *whole; /* of which this is a part; NULL: of none */
    uint32_t users;           /* of a part: landings and puts */
    atomic_uint registered;   /* of the whole: it and its parts, which go last */
};

/* A part of a region, for peers in this domain. bytes: 0: all of the region. */
struct hca_part {
    struct hca_domain *domain;
    bool remote;
    uint64_t offset_bytes, bytes;
};

struct hca_landing {
    struct hca_region *region, *part; /* the part has the key that peers use; it may be the region.
                                         NULL: nobody has asked */
    uint64_t offset_bytes, part_offset_bytes, part_bytes;
    struct packed target;  /* size 0: a notification without data */
    struct hca_peer *from; /* the only one that may put here; NULL: any */
    uint32_t index, generation;
    bool notify;
    uint64_t token;
};

struct hca_put {
    struct window_put base; /* first */
    struct hca_peer *peer;
    struct packed source;
    struct hca_region *region_of,
        *part; /* of the source; part NULL: cannot be read by the device */
    uint32_t lkey;
    bool unknown;                /* nothing is sent before its landing was found */
    bool gone;                   /* and that is gone */
    bool writable;               /* can take the path WRITE */
    bool writes;                 /* takes it */
    bool copied;                 /* short: goes into a message's buffer */
    uint64_t target_address;     /* WRITE: of the target's bytes or, with blocks, of its layout */
    const struct layout *blocks; /* WRITE: of the target; NULL: contiguous */
    uint32_t rkey;
    uint32_t landing, generation;
    uint64_t region;              /* of the target */
    struct hca_put *next, **link; /* in one of the peer's lists, or NULL */
};

/* Of the window. */
struct hca_piece {
    struct window_piece base; /* first */
    /* Writes that precede the piece, and have to be sent again with it. NULL: none, or the device
     * has reported them. */
    struct hca_put *writes;
    bool immediate; /* it is the immediate data of the last write, not a message */
};

/* A request that the device will report, and with it all before it. */
struct hca_signal {
    struct hca_put *put; /* waits for it; or NULL */
    uint64_t piece;      /* the number of the put's last piece */
    uint64_t requests;   /* posted up to and including this one */
};

struct hca_peer {
    struct hca_driver *hca;
    struct hca_domain *domain;
    struct hca_address address;
    struct ibv_qp *qp; /* NULL: was destroyed, or not made yet */
    uint32_t qpn;      /* completions of others are late ones of an earlier queue pair */
    uint32_t psn;
    bool answered; /* can send */
    uint32_t inline_bytes, segment_bytes;
    uint8_t *buffers; /* HCA_RECEIVES of the driver's segment_bytes, HCA_WINDOW of them for sending,
                         HCA_COUNTS heads */
    uint64_t buffers_bytes;
    struct ibv_mr *buffers_mr;

    struct window window; /* of messages */
    struct hca_piece pieces[HCA_WINDOW];
    uint64_t posted, reported; /* requests */
    uint64_t quiet;            /* posted since the last signal */
    struct hca_signal signals[HCA_REQUESTS];
    uint32_t signals_made, signals_done;

    bool looked; /* somebody waited for a count at the last look: see hca_alive.c */
    uint64_t looked_counted;

    uint32_t received; /* index of the buffer of the next message */
    struct credits credits;
    bool asked;      /* the peer waits for the count */
    uint32_t counts; /* sent */

    /* between processes */
    uint64_t grant;
    bool dials;                           /* sends first */
    bool listens;                         /* sends when it has received something */
    bool may_answer;                      /* some of the questions */
    struct hca_find finds[HCA_FINDS_MAX]; /* its questions that were not answered */
    unsigned find_count;
    struct hca_put *unasked, *awaited; /* its puts of which the landing is unknown */
    unsigned awaited_count;
    bool paused;    /* without a queue pair, or sends pieces again: makes no others */
    bool garbled;   /* the other process does not keep to the rules */
    bool renewed;   /* it has had another queue pair, and */
    uint64_t mark;  /* pieces that had been counted, both ways, when it got this one */
    uint64_t again; /* the next piece to be sent again, */
    bool rewriting; /* of which some writes have been posted */

    /* its prepared puts that can take the path WRITE; between processes: all whose landing is
     * known */
    struct hca_put *writes;
    uint64_t recalled[HCA_RECALLED_KEPT]; /* regions of the peer that it freed recently */
    uint32_t recalled_next;
    struct recall_holder holder; /* of keys of this process's memory */
    uint64_t recall_made; /* messages made when it was asked to stop writing there; 0: it was not */

    int error;   /* it is lost */
    int failing; /* is to be lost in the next round */
    bool told;   /* peer_down() was called, or the owner has failed it */
    struct hca_peer *next_active, **active_link; /* has something to do; else NULL */
    struct hca_peer *next, *previous;            /* in the driver's list, under the lock */
    struct hca_peer *next_dead;
};

/*
 * What an instance may do, and what its peers may say: of a daemon, whose peers are daemons
 * (hca.c), or of a process, whose peers are processes that it does not trust (hca_seat.c). What is
 * not for it is not in its tables.
 */
struct hca_role {
    const struct driver_ops *ops;
    /* By enum hca_kind: takes a message, whose payload is aligned. -EPROTO: no peer that keeps to
     * the rules sends this. NULL: likewise. */
    int (*take[HCA_KINDS])(struct hca_peer *peer, const struct hca_head *head, void *payload);
    /* NULL, or a message has come for a landing that is gone. */
    void (*landing_gone)(struct hca_peer *peer, uint32_t landing, uint32_t generation);
};

struct hca_driver {
    struct driver driver; /* first */
    const struct hca_role *role;
    bool inherited; /* by a forked child, which must not touch the device */
    struct ibv_context *context;
    struct hca_domain *domain; /* in a process: NULL */
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    int epoll_fd;
    uint8_t port, gid_index;
    unsigned sges;
    uint32_t segment_bytes;
    struct hca_address address;
    struct landings landings;
    struct hca_peer *active;
    struct hca_peer *dead; /* disconnected, not yet freed */
    bool fresh;            /* a peer was activated since the last round */
    bool armed;            /* the device is to announce a completion, and none has come since */
    bool announced;        /* one has come: its announcement is there, or on the way */
    bool slept;            /* the owner may have slept since the last round */
    unsigned rounds;       /* since the last look at what is rare */
    struct ibv_wc early[HCA_POLL]; /* completions that arm() has found */
    int early_count;
    int broken;       /* the device is gone */
    int look_fd;      /* a timer */
    uint64_t look_ns; /* when it expires; 0: never */

    struct recall recall;

    pthread_mutex_t lock;
    struct hca_peer *peers;
    struct hca_driver *next_seat; /* of this process */
    uint32_t cq_left;             /* entries that no peer can fill */
    uint32_t cq_max;              /* entries that the device can have */
    uint64_t regions;             /* made */
};

static inline struct hca_driver *hca_of(struct driver *driver)
{
    return (struct hca_driver *)driver;
}
static inline bool hca_same(struct hca_id a, struct hca_id b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}
