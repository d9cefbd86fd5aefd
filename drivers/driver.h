/*
 * The contract of drivers. A driver moves bytes to peers over one rail.
 *
 * A driver deals with memory, peers, landings (targets prepared by a receiver) and puts. It is
 * independent of sessions, plans, users, libevent and other drivers. The daemon's first engine runs
 * one instance of each driver, its other engines run branches of these; libtca runs an instance of
 * shm in the client.
 *
 * Threads: open and close must not run concurrently with other calls. region_add, region_remove,
 * peer_connect and peer_answer may be called from any thread; they can be slow (pinning memory).
 * All other functions, unless noted, are called by the one thread that polls the driver;
 * put_prepare and landing_new also by another, while that one yields or sleeps, and then need not
 * be followed by progress() if they succeed.
 *
 * Functions return a negative errno on failure and write ret_ parameters only on success.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/element.h"
#include "proto/layout.h"
#include "proto/segment.h"

struct driver_seat;
struct driver; /* an open driver: the first member of each implementation's own struct */
struct driver_region;
struct driver_peer;
struct driver_landing;
struct driver_put;

/* The memory of one region, as mapped in this process. */
struct driver_memory {
    void *base;
    uint64_t length_bytes;
    int fd;                /* the memfd or dmabuf, owned by the caller, or -1 */
    uint64_t offset_bytes; /* of the memory in fd: whole pages */
    bool dmabuf;           /* a device may register it instead of its mapping. The mapping can be
                    write-combined. fd stays open until region_remove() */
    /* NULL, or called once, in any thread, when the driver has released the region: during or after
     * region_remove(), at the latest at the end of close(). Until then, the driver can keep the
     * address range mapped for late writes by peers, which allocate pages. */
    void (*gone)(void *context);
    void *context;
};
static inline void driver_memory_gone(void (*gone)(void *context), void *context)
{
    if (gone)
        gone(context);
}

/* Callbacks. The driver calls them only from within progress(), or put_post() if the receiver is in
 * the same process. */
struct driver_events {
    /* The data of a put with a notification is visible. token: as passed to landing_new(). */
    void (*notified)(void *context, uint64_t token);
    /* Called before peer_down(), once for each affected flow: `count` puts of the flow, the last
     * ones, completed locally but may not have completed remotely. Drivers whose local completion
     * implies remote completion never call it. */
    void (*puts_lost)(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count);
    /* A peer has become unreachable (error: -EHOSTDOWN, -ENETDOWN). Every put in flight to it has
     * been or will be completed with that error. */
    void (*peer_down)(void *context, struct driver_peer *peer, int error);
    /* The connection to a peer, which was handed to the driver, has broken; another one may be
     * handed over (drivers/seat.h). error: -ESHUTDOWN (its other end has closed it in order),
     * -EPROTO (it carried nonsense) or another one. NULL: nobody has another one. */
    void (*peer_broken)(void *context, struct driver_peer *peer, int error);
    /* The connection that the pair's other end has dialled, in clear; encrypts: the processes are
     * to encrypt it. Takes over the descriptor. NULL: none is expected. */
    void (*paired)(void *context, uint64_t pair, int fd, bool encrypts);
    void *context;
};

struct driver_config {
    uint64_t segment_bytes; /* size of a gathered piece; 0: the driver's default */
    bool guarded;           /* only admitted hosts may connect, if the driver supports it */
    const void *own; /* the driver's own part: its config.h; NULL: the driver's defaults. Valid only
                        during the call */
};

/* Properties of a driver on this machine, as found by probe(). */
struct driver_caps {
    bool same_node; /* reaches this node */
    bool other_nodes;
    bool subcluster;  /* other nodes: only those of the same sub-cluster */
    bool single;      /* the device supports only one instance */
    bool ordered;     /* puts of one flow to one peer complete remotely in the order of posting */
    bool unprotected; /* its port has no access control */
    bool kernel_tls;  /* the kernel encrypts, for processes that are given connections, too */
    /* Contiguous puts of at most this size complete before their remote completion, and longer puts
     * that were posted later may overtake them. */
    uint32_t inline_bytes;
    char detail[64]; /* for display: "tcp;ofi_rxm over lo" */
    /* What tells this instance from others of the driver on this node: "tcp:lo"; "" if nothing
     * does. */
    char device[RAIL_NAME_MAX_BYTES];
    /* Instances reach each other only if these are equal: the libfabric provider; "" for all. */
    char medium[RAIL_NAME_MAX_BYTES];
};

/* A cable of a network without switches. */
struct driver_cable {
    unsigned places[2]; /* its ends: see driver_fabric_ops */
    char ports[2];      /* letters, for display */
    bool in;            /* plugged in, and the boards at both ends work */
};

/* Where a driver listens, and what it has rejected. */
struct driver_door {
    char address[256]; /* "10.0.0.1:7081, [fd00::1]:7082"; "": not an IP address */
    bool guarded;      /* only admitted hosts may connect */
    uint64_t forged;   /* completions and messages that no peer can have sent */
};

/* An error reported by this node's device, for display, and how often it was seen. */
struct driver_fault {
    char text[128];
    uint64_t count;
};

/* One operation: a start of a put, or a flush. The owner embeds it. The driver uses it from
 * put_post() or peer_flush() until it calls done(). */
struct driver_op {
    /* Called exactly once on local completion: the source may be written again (status 0), or the
     * operation failed (negative errno). */
    void (*done)(struct driver_op *op, int status);
    uint32_t retries; /* counted by the driver */
    /* set by the driver when its last descriptor was handed over (0: immediately) */
    uint64_t posted_ns;
    uint32_t hops;  /* set by drivers with a `fabric`: cables that it crosses */
    uint32_t fault; /* set by the driver before done() with an error: see driver_fault_text() */
    void *owner;    /* for use by the owner */
    bool probe;     /* peer_flush(): the peer must reply, even if nothing was put to it */
    struct driver_op *next_flush; /* for use by the driver: see flushes.h */
    uint64_t flush_count;
};

struct copy_program;

/* The target of one peer's puts. */
struct driver_landing_args {
    struct driver_region *region;  /* NULL: a notification without data */
    uint64_t offset_bytes;         /* of the layout's base in the region */
    const struct layout *layout;   /* checked; must outlive the landing */
    struct copy_program **program; /* NULL, or from landing_compile(); if used, *program = NULL */
    bool notify;
    uint64_t token; /* passed to notified() */
    /* The part of the region that the sender may write to, where its adapter writes by itself; 0
     * bytes: all of it. */
    uint64_t part_offset_bytes, part_bytes;
    /* 0, or only connections that were handed to the driver with this grant may put into it; in
     * drivers that have such (seat.h) */
    uint64_t grant;
    /* NULL, or the address of the only instance that may put into it; in drivers that know who puts
     * (tcp) */
    const void *from;
    size_t from_bytes;
};

struct driver_put_args {
    struct driver_peer *peer;
    /* puts of different flows are not ordered, and a long one does not delay other flows */
    uint64_t flow;
    struct driver_region *region; /* source; NULL: a notification without data */
    uint64_t offset_bytes;
    const struct layout *layout;   /* checked; must outlive the put */
    struct copy_program **program; /* NULL, or from put_compile(); if used, *program = NULL */
    const void *landing;           /* the blob from the receiver's landing_new() */
    size_t landing_bytes;
    const struct layout *target_layout; /* for drivers whose sender writes the target layout */
    /* Not OPERATOR_REPLACE: combines the elements of two contiguous layouts, of a size that this
     * type divides. Only shm can. */
    enum element_operator combine;
    enum element_type type;
    bool parts; /* put_part() sets what starts move; the sizes of the layouts may then differ */
};

/* What a start moves: `bytes` packed bytes, from this position in the source layout to that one in
 * the target layout. */
struct driver_part {
    uint64_t source_at_bytes, target_at_bytes, bytes;
};

struct driver_put_info {
    uint32_t descriptors;  /* per start */
    bool gathered;         /* packed in transit */
    uint64_t memory_bytes; /* used beyond DRIVER_PUT_BYTES; depends on the layouts */
};

/* Upper bounds of the memory of a prepared put and of a landing, apart from their layouts. */
enum { DRIVER_PUT_BYTES = 320, DRIVER_LANDING_BYTES = 320 };

/* Networks without switches. A place is a node's position in the sub-cluster, counted from 0. Any
 * thread. */
struct driver_fabric_ops {
    unsigned (*place)(const struct driver *driver); /* this node's */
    /* Whether a path to the place exists, as far as this node knows. */
    bool (*reaches)(const struct driver *driver, unsigned place);
    /* Cables on the current path to the place; 0: it is this node's place, or no path exists. */
    unsigned (*hops)(const struct driver *driver, unsigned place);
    unsigned (*cables)(const struct driver *driver, struct driver_cable *ret_cables, unsigned max);
    unsigned (*faults)(const struct driver *driver, struct driver_fault *ret_faults, unsigned max);
    /* A landing blob for put_prepare() for `bytes` bytes of scratch memory in the peer's device, to
     * measure the path to it. Returns the size of the blob, or -EMSGSIZE: the scratch memory is
     * smaller. */
    int (*scratch_landing)(struct driver *driver, struct driver_peer *peer, uint64_t bytes,
                           void *ret_blob);
};

/* Connections between two processes of different nodes, which drive them themselves (seat.h). Any
 * thread. */
enum { PAIR_SECRET_BYTES = 32 };
struct driver_pair_ops {
    const struct driver_seat *seat; /* what a process then uses: drivers/seat.h */
    /* Describes the device to the driver's instance in a process: the size, at most
     * ADDRESS_MAX_BYTES. NULL: it needs no device. */
    int (*device)(const struct driver *driver, void *ret_device);

    /* The daemons make the connection: both know the pair's number and its secret. NULL: the
     * processes make it, with offers that the daemons carry. */
    /* Waits for the pair's connection, which goes to driver_events.paired(). The secret is good for
     * one connection; another call for the pair replaces it. -ENOMEM. */
    int (*expect)(struct driver *driver, uint64_t pair, const uint8_t secret[PAIR_SECRET_BYTES]);
    /* Ends that; has no effect if nothing is expected. */
    void (*forget)(struct driver *driver, uint64_t pair);
    /* Connects to the instance with this address, which expects the pair. Slow. Returns a
     * descriptor. */
    int (*dial)(struct driver *driver, const void *address, size_t address_bytes, uint64_t pair,
                const uint8_t secret[PAIR_SECRET_BYTES], uint64_t timeout_ns, bool *ret_encrypts);
};

struct driver_ops {
    const char *name;
    enum driver_id id;

    /* Whether this driver can work on this machine: 0, -ENODEV or another error. Cheap; opens
     * nothing. */
    int (*probe)(const struct driver_config *config, struct driver_caps *ret_caps);
    int (*open)(const struct driver_config *config, const struct driver_events *events,
                struct driver **ret_driver);
    /* Opens a branch of the instance, for another thread to poll: its peers and puts are its own,
     * and use the instance's regions. What is put to the node arrives at the instance; all of
     * address(), regions, landings, door(), admit(), shut(), fabric and pairs is asked of that one,
     * which neither waits for its branches nor they for it. A put of the branch to the instance
     * itself can notify from the branch. NULL: one thread polls all of the instance. */
    int (*branch)(struct driver *driver, const struct driver_events *events,
                  struct driver **ret_branch);
    /* All objects made from the driver must have been released, and its branches closed. */
    void (*close)(struct driver *driver);
    /* Writes this instance's address, for peer_connect() elsewhere. Returns its size, at most
     * ADDRESS_MAX_BYTES. */
    int (*address)(struct driver *driver, void *ret_address);

    int (*region_add)(struct driver *driver, const struct driver_memory *memory,
                      struct driver_region **ret_region);
    /* On return, the driver no longer reads or writes the memory. */
    void (*region_remove)(struct driver *driver, struct driver_region *region);
    /* NULL: senders are confined to landings in any case. Prepares for landings in this part of the
     * region, which can be slow. Any thread. */
    int (*region_part)(struct driver *driver, struct driver_region *region, uint64_t offset_bytes,
                       uint64_t length_bytes);

    /* Makes a peer for the instance with this address. Can return before the connection is
     * established; the first put then establishes it. A driver whose connections need both ends
     * also writes an offer, of at most OFFER_MAX_BYTES, which describes the new peer to the other
     * instance. *ret_offer_bytes: 0 if the driver needs no answer. */
    int (*peer_connect)(struct driver *driver, const void *address, size_t address_bytes,
                        struct driver_peer **ret_peer, void *ret_offer, size_t *ret_offer_bytes);
    /* NULL: the driver makes no offers. Completes the connection of a peer with the offer that the
     * other instance made when it connected to this one; a peer of the instance itself gets its
     * own. Once for a peer, and before any other call for it except peer_fail() and
     * peer_disconnect(): until then, put_prepare() and peer_flush() return -ENOTCONN. -EPROTO: the
     * offer is malformed. After an error, the peer can only be disconnected. */
    int (*peer_answer)(struct driver *driver, struct driver_peer *peer, const void *offer,
                       size_t offer_bytes);
    /* No put to the peer may be prepared or in flight. Not from within done(). */
    void (*peer_disconnect)(struct driver *driver, struct driver_peer *peer);
    /* The owner has detected that the peer is gone (its heartbeats have stopped). The next
     * progress() completes every put in flight to it with this error; further puts are refused with
     * it. peer_down() is not called. The only call allowed afterwards is peer_disconnect(), which
     * then also frees the resources for the peer's puts to this instance. */
    void (*peer_fail)(struct driver *driver, struct driver_peer *peer, int error);

    /* Compiles the layout for landing_new(), which otherwise does so, in a time that grows with the
     * layout (a million blocks: 40 ms). Uses only args->layout. 0 (the program is NULL where none
     * is needed) or -ENOMEM. Any thread. NULL: the driver compiles nothing. */
    int (*landing_compile)(const struct driver_landing_args *args,
                           struct copy_program **ret_program);
    /* Receiver: prepares a target for puts. The blob, at most LANDING_MAX_BYTES, describes it to
     * the sender. */
    int (*landing_new)(struct driver *driver, const struct driver_landing_args *args,
                       struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
    void (*landing_free)(struct driver *driver, struct driver_landing *landing);
    /* The memory that the landing uses beyond DRIVER_LANDING_BYTES; depends on its layout. */
    uint64_t (*landing_bytes)(const struct driver_landing *landing);

    /* The same for put_prepare(). Uses only the layouts of args, combine and parts. */
    int (*put_compile)(const struct driver_put_args *args, struct copy_program **ret_program);
    /* Sender: compiles one put. -EMSGSIZE: the sizes of the two layouts differ. With args->parts:
     * only if neither layout is contiguous. */
    int (*put_prepare)(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info);
    void (*put_release)(struct driver *driver, struct driver_put *put);
    /* Sets what further starts of a put move that was prepared with args->parts; before its first
     * start, and never while it runs. The caller has checked that the part lies in both layouts
     * and, if neither is contiguous, at the same position. */
    void (*put_part)(struct driver *driver, struct driver_put *put, const struct driver_part *part);
    /* Starts a put. 0: done() will be or has been called; -EAGAIN: not started, try again after
     * progress(). A put may be started again only after its done(). */
    int (*put_post)(struct driver *driver, struct driver_put *put, struct driver_op *op);
    /* The target of a put has gone. If nothing of its start has been sent, nothing will be:
     * progress() calls done() with the error. Has no effect on a put that is not in flight. NULL:
     * the driver keeps no queue of puts. */
    void (*put_stop)(struct driver *driver, struct driver_put *put, int error);

    /* Calls done() on the remote completion of all puts to the peer that have completed locally:
     * their data is visible and their notifications have been raised. Needed, for example, before a
     * receiver may free a landing. With op->probe, also needs a reply of the peer over this rail.
     * Returns 0 (done() will be or has been called), -EAGAIN (try again after progress()), or why
     * the peer cannot be reached. done() gets -ETIMEDOUT if the peer does not reply. */
    int (*peer_flush)(struct driver *driver, struct driver_peer *peer, struct driver_op *op);

    /* Advances all operations by at most about `budget` pieces. Returns the number of pieces (0: no
     * work), or a negative errno if the driver is broken. */
    int (*progress)(struct driver *driver, unsigned budget);
    /* A descriptor that becomes readable when there is work after arm(), or -1: work never arrives
     * by itself. */
    int (*event_fd)(struct driver *driver);
    /* Call before sleeping on event_fd. 0, or -EAGAIN: work is pending, do not sleep. */
    int (*arm)(struct driver *driver);

    /* The next three only in drivers that listen on a network; else NULL. Any thread. */
    void (*door)(const struct driver *driver, struct driver_door *ret_door);
    /* Allows (come) or no longer allows the host of the instance with this address to connect.
     * Calls are counted: as many with `come` false as with true withdraw it. No effect unless
     * guarded. */
    int (*admit)(struct driver *driver, const void *address, size_t address_bytes, bool come);
    /* Refuses all new connections while shut; existing connections stay. */
    void (*shut)(struct driver *driver, bool shut);

    /* Whether what is put to the instance with this address is encrypted on its way. Any thread.
     * NULL: nothing is. */
    bool (*encrypts)(const void *address, size_t address_bytes);

    const struct driver_fabric_ops *fabric; /* NULL: not a network without switches */
    const struct driver_pair_ops *pairs;    /* NULL: processes cannot drive connections */
};

struct driver {
    const struct driver_ops *ops;
    struct driver_events events;
};

/* The built-in drivers, terminated by NULL. */
extern const struct driver_ops *const drivers_all[];
const struct driver_ops *driver_find(const char *name);
const struct driver_ops *driver_of_id(enum driver_id id);
/* Describes driver_op.fault of a driver; "" if it is 0. Works also if that driver is not built
 * in. */
void driver_fault_text(enum driver_id id, uint32_t fault, char *ret_text, size_t text_bytes);
