/*
 * Internal to the hca driver: puts over libibverbs.
 *
 * An instance has one device and port, one protection domain and one completion queue. A peer is one
 * reliable connection (RC queue pair), used by all sessions. A put takes one of two paths:
 *   WRITE  Source and target are contiguous or have long blocks: RDMA writes from region to region, a
 *          chain with one doorbell, one write for each block of the target, with gather lists for the
 *          blocks of the source. The last write carries the landing's number as immediate data; if
 *          that has too many bits, a message follows.
 *   SEND   Others: messages of packed bytes, which the receiver's progress() copies to the target.
 *          Short puts are copied and complete at once.
 * A queue pair delivers in order and once, so a notification never overtakes data. A put of WRITE
 * completes when the device has reported its last write; a put of SEND when the receiver has counted
 * its last message, because a later WRITE could overtake the copy.
 *
 * Neither queue can overflow: messages are sent only into receive buffers that the receiver has
 * reported as free (window.h, credits.h), and work requests are counted until the device has reported
 * them. Only one of several requests asks the device for a completion.
 *
 * A write with an invalid key would fail the connection, and with it the puts of other users. So the
 * key of a freed region stays valid until each peer has stopped (hca_recall.c).
 *
 * A connection that fails is not repaired: puts in flight complete with -ENETDOWN, and the owner makes
 * a new peer. While a put or flush waits for a count, the driver makes sure that the other end is
 * still there (hca_alive.c). Before a queue pair is destroyed, it is stopped and the completion queue emptied, so
 * that a message that the device has acknowledged is never lost.
 *
 * In a process (drivers/seat.h), a peer is a process of another node, which is not trusted. So each peer
 * has a protection domain of its own, in which memory is registered for it alone: what it reads from
 * here is registered for local access, and what it may write is the part of a region that it has a
 * handle to. The sender asks for address and key of a landing (hca_find.c), because the receiver's
 * daemon, which has numbered the landing, does not know them.
 *
 * Threads: as in driver.h. The lock protects what peer_connect() shares with the polling thread.
 */
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
    HCA_POLL = 16,           /* completions at a time */
    HCA_CQ_MAX = 1 << 17,    /* entries */
    HCA_EVENTS_EVERY = 4096, /* rounds without sleep: look for events of the device, */
    HCA_SLEEPS_MAX = 8,      /* or after so many sleeps */
    HCA_TIMEOUT = 16,        /* 4.096 us * 2^16 = 0.27 s until a packet is sent again, */
    HCA_RETRIES = 6,         /* so often; soft-RoCE takes 7, the most, for ever */
    HCA_RECALLED_KEPT = 256, /* recalled regions that a peer remembers */
};

/* What queue pairs and memory have to have in common. */
struct hca_domain {
    struct ibv_pd *pd;
    uint32_t users; /* under the driver's lock */
};

struct hca_region {
    struct hca_domain *domain; /* NULL: of a process, which registers it for its peers only */
    struct ibv_mr *mr;
    bool remote; /* peers may write there */
    uint8_t *base;
    uint64_t length_bytes;
    void (*gone)(void *context); /* struct driver_memory */
    void *context;
    uint64_t number; /* unique in the instance */
    bool told;       /* peers may know its key */
    uint64_t recall; /* its number among the recalled regions */
    struct hca_region *next;
    struct hca_region *parts; /* registered by themselves, under the driver's lock */
    struct hca_region *next_part;
    uint32_t users; /* of a part: landings and puts */
};

/* A part of a region, for peers in this domain. bytes: 0: all of the region. */
struct hca_part {
    struct hca_domain *domain;
    bool remote;
    uint64_t offset_bytes, bytes;
};

struct hca_landing {
    struct hca_region *region,
        *part; /* the part has the key that peers use; it may be the region. NULL: nobody has asked */
    uint64_t offset_bytes, part_offset_bytes, part_bytes;
    struct packed target;  /* size 0: a notification without data */
    struct hca_peer *from; /* between processes: the only one that may put here */
    uint32_t index, generation;
    bool notify, numbered; /* numbered: by hca_seat_landing() */
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

/* A request that the device will report, and with it all before it. */
struct hca_signal {
    struct hca_put *put; /* waits for it; or NULL */
    uint64_t requests;   /* posted up to and including this one */
};

struct hca_peer {
    struct hca_driver *hca;
    struct hca_domain *domain;
    struct hca_address address;
    struct ibv_qp *qp; /* NULL: was destroyed, or not made yet */
    uint32_t psn;
    bool answered; /* can send */
    uint32_t inline_bytes, segment_bytes;
    uint8_t *buffers; /* HCA_RECEIVES of the driver's segment_bytes, HCA_WINDOW of them for sending,
                         HCA_COUNTS heads */
    uint64_t buffers_bytes;
    struct ibv_mr *buffers_mr;

    struct window window; /* of messages */
    struct window_piece pieces[HCA_WINDOW];
    uint64_t telling;          /* a count up to here was asked for */
    bool ask;                  /* a flush waits for a count that nobody has asked for */
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

    /* its prepared puts that can take the path WRITE; between processes: all whose landing is known */
    struct hca_put *writes;
    uint64_t recalled[HCA_RECALLED_KEPT]; /* regions of the peer that it freed recently */
    uint32_t recalled_next;
    uint64_t recall_sent,
        recall_done;      /* regions that the peer was told of; has stopped writing to */
    uint64_t recall_made; /* messages made when it was told */

    int error;   /* it is lost */
    int failing; /* is to be lost in the next round */
    bool told;   /* peer_down() was called, or the owner has failed it */
    struct hca_peer *next_active, **active_link; /* has something to do; else NULL */
    struct hca_peer *next, *previous;            /* in the driver's list, under the lock */
    struct hca_peer *next_dead;
};

struct hca_driver {
    struct driver driver; /* first */
    bool seat;            /* in a process: drivers/seat.h */
    bool inherited;       /* by a forked child, which must not touch the device */
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
    uint32_t landing_last; /* in a process: the newest generation */
    struct hca_peer *active;
    struct hca_peer *dead; /* disconnected, not yet freed */
    bool fresh;            /* a peer was activated since the last round */
    bool armed;            /* the device is to announce a completion, and none has come since */
    bool announced;        /* one has come: its announcement is there, or on the way */
    bool slept;            /* the owner may have slept since the last round */
    unsigned rounds;       /* since the last look at what is rare */
    struct ibv_wc early[HCA_POLL]; /* completions that arm() has found */
    int early_count;
    int broken;                   /* the device is gone */
    uint64_t recalls;             /* regions that were recalled */
    struct hca_region *recalling; /* those that a peer may still write to, in order */
    struct hca_region **recalling_last;
    int freed_fd;
    atomic_bool freed_any;
    int look_fd;      /* a timer */
    uint64_t look_ns; /* when it expires; 0: never */

    pthread_mutex_t lock;
    struct hca_peer *peers;
    struct hca_driver *next_seat; /* of this process */
    uint32_t cq_left;             /* entries that no peer can fill */
    uint64_t regions;             /* made */
    struct hca_region *freed;     /* to be recalled, in order */
    struct hca_region **freed_last;
};

static inline struct hca_driver *hca_of(struct driver *driver)
{
    return (struct hca_driver *)driver;
}
static inline bool hca_same(struct hca_id a, struct hca_id b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* hca_open.c */
/* An instance for this port, which it takes over. cq_entries: at most so many. */
int hca_new(const struct rnic_port *port, const struct driver_config *config, int cq_entries,
            const struct driver_events *events, struct hca_driver **ret_hca);
int hca_probe(const struct driver_config *config, struct driver_caps *ret_caps);
int hca_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver);
void hca_close(struct driver *driver);
int hca_address(struct driver *driver, void *ret_address);
int hca_describe_device(const struct driver *driver, void *ret_device);

/* hca_memory.c */
/* Consumes the domain. */
int hca_region_make(struct hca_driver *hca, struct hca_domain *domain, bool remote,
                    const struct driver_memory *memory, struct hca_region **ret_region);
int hca_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region);
void hca_region_remove(struct driver *driver, struct driver_region *region);
int hca_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void hca_landing_free(struct driver *driver, struct driver_landing *landing);
uint64_t hca_landing_bytes(const struct driver_landing *landing);
/* Without a number. */
int hca_landing_make(struct hca_driver *hca, const struct driver_landing_args *args,
                     struct hca_landing **ret_landing);
void hca_landing_unmake(struct hca_driver *hca, struct hca_landing *landing);
/* So that peers in this domain can write there, who are told of it. */
int hca_landing_register(struct hca_driver *hca, struct hca_landing *landing,
                         struct hca_domain *domain);

/* hca_part.c: domains, and the registration of a part of the region, or of all of it, for a landing or a put. */
int hca_domain_new(struct hca_driver *hca, struct hca_domain **ret_domain);
/* NULL is a no-op. */
struct hca_domain *hca_domain_take(struct hca_driver *hca, struct hca_domain *domain);
void hca_domain_give(struct hca_driver *hca, struct hca_domain *domain);
int hca_part_take(struct hca_driver *hca, struct hca_region *region, const struct hca_part *wanted,
                  struct hca_region **ret_part);
void hca_part_give(struct hca_driver *hca, struct hca_region *region, struct hca_region *part);
int hca_region_part(struct driver *driver, struct driver_region *region, uint64_t offset,
                    uint64_t bytes);
/* The region is removed. */
void hca_parts_remove(struct hca_driver *hca, struct hca_region *region);

/* hca_recall.c: freeing a region whose key peers may know. */
int hca_recall_init(struct hca_driver *hca);
void hca_recall_deinit(struct hca_driver *hca);
void hca_region_free(struct hca_driver *hca, struct hca_region *region);
void hca_region_recall(struct hca_driver *hca, struct hca_region *region); /* any thread */
/* Returns the number of regions that were freed. */
int hca_recall_run(struct hca_driver *hca);
/* The peer recalls regions: payload of its message. */
int hca_recalled(struct hca_peer *peer, void *payload, uint32_t bytes);
bool hca_is_recalled(const struct hca_peer *peer, uint64_t region);

/* hca_alive.c: whether a peer that somebody waits for is still there. */
int hca_alive_init(struct hca_driver *hca);
void hca_alive_deinit(struct hca_driver *hca);
/* Somebody begins to wait. */
void hca_alive_watch(struct hca_driver *hca);
void hca_alive_look(struct hca_driver *hca);

/* hca_connect.c */
/* A peer without a queue pair, in the driver's list. Consumes the domain. */
int hca_peer_new(struct hca_driver *hca, struct hca_domain *domain, struct hca_peer **ret_peer);
int hca_peer_offer(struct hca_peer *peer, struct hca_offer *ret_offer);
bool hca_address_is_good(const struct hca_driver *hca, const struct hca_address *address);
/* The other end, whose offer this is, is at this address. -EPROTO. */
int hca_peer_join(struct hca_peer *peer, const struct hca_address *address,
                  const struct hca_offer *offer);
int hca_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
int hca_peer_answer(struct driver *driver, struct driver_peer *peer, const void *offer,
                    size_t offer_bytes);
/* Stops and destroys the queue pair; the completion queue has nothing of it. */
void hca_peer_free(struct hca_peer *peer);
/* The device takes no more packets of the peer, and sends none. */
void hca_peer_stop(struct hca_peer *peer);

/* hca_peer.c */
void hca_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void hca_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
int hca_peer_flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op);
void hca_peer_activate(struct hca_peer *peer);
void hca_peer_deactivate(struct hca_peer *peer);
/* The peer will be lost in the next round, if it is not lost yet. */
void hca_peer_break(struct hca_peer *peer, int error);
/* Completes everything of a stopped peer with the error. */
void hca_peer_lose(struct hca_peer *peer, int error);
/* Whether it has nothing to do until the device reports something. */
bool hca_peer_rests(const struct hca_peer *peer);

/* hca_seat.c */
int hca_seat_open(const void *device, size_t device_bytes, const struct driver_events *events,
                  struct driver **ret_driver);
void hca_seat_forget(struct hca_driver *hca); /* it closes */
int hca_seat_answer(struct hca_peer *peer, const void *offer, size_t offer_bytes);

/* hca_find.c: landings of processes. */
/* A put was prepared. */
void hca_find_landing(struct hca_put *put);
/* Asks and answers what can be asked and answered now. */
void hca_finds_run(struct hca_peer *peer);
bool hca_finds_rest(const struct hca_peer *peer);
/* Messages: -EPROTO. */
int hca_asked(struct hca_peer *peer, const void *payload, uint32_t bytes);
int hca_found(struct hca_peer *peer, const void *payload, uint32_t bytes);
/* A piece has come for a landing that is gone. */
void hca_tell_gone(struct hca_peer *peer, uint32_t landing, uint32_t generation);

/* hca_put.c */
/* Which path its next start takes, from what is known. */
void hca_put_choose(struct hca_put *put);
int hca_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void hca_put_release(struct driver *driver, struct driver_put *put);
void hca_put_part(struct driver *driver, struct driver_put *put, const struct driver_part *part);
int hca_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
int hca_puts_pump(struct hca_peer *peer, unsigned budget);

/* hca_write.c: the next writes of a put; see window_make. */
int hca_write(struct hca_put *put);

/* hca_send.c */
/* A chain of requests; put: NULL, or waits until the device has reported them. 0, -EAGAIN (no room)
 * or -EIO. */
int hca_send_chain(struct hca_peer *peer, struct ibv_send_wr *requests, unsigned count,
                   struct hca_put *put);
bool hca_send_has_room(const struct hca_peer *peer, unsigned requests);
/* The next message of a put; see window_make. */
int hca_send_piece(struct hca_put *put);
/* A message without a landing. put: NULL, or waits until the device has reported it. */
int hca_send_notice(struct hca_peer *peer, enum hca_kind kind, const void *payload, uint32_t bytes,
                    struct hca_put *put);
/* Adds a message to the window: that of the chain that was just sent. flags: of its head. */
void hca_send_count(struct hca_peer *peer, struct window_piece *piece, unsigned flags);
/* Sends what is owed: a question for the count, a count. */
int hca_send_owed(struct hca_peer *peer);

/* hca_receive.c: -EPROTO: no peer that keeps to the rules sends this. */
int hca_receive(struct hca_peer *peer, const struct ibv_wc *completion);
int hca_receive_post(struct hca_peer *peer, uint32_t buffer);

/* hca_progress.c */
/* Ends everything that was put to a peer, at once. */
void hca_peer_end(struct hca_driver *hca, struct hca_peer *peer);
int hca_progress(struct driver *driver, unsigned budget);
int hca_event_fd(struct driver *driver);
int hca_arm(struct driver *driver);
