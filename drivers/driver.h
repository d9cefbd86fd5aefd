/*
 * The contract of a driver: what moves bytes to a peer over one rail.
 *
 * A driver knows memory, peers, landings and puts; it knows nothing of sessions, plans, users or
 * libevent, and no driver knows another. The daemon's engine drives one instance of each; libtca
 * drives an instance of shm inside the client.
 *
 * Threads: open and close where nothing else runs. region_add, region_remove may be called from any
 * thread (they may be slow: pinning), peer_connect likewise. Everything else is called by the one
 * thread that polls the driver.
 *
 * Errors: negative errno. ret_ parameters are written only on success.
 */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/layout.h"
#include "proto/segment.h"

struct driver; /* an open driver; each implementation begins its own struct with this one */
struct driver_region;
struct driver_peer;
struct driver_landing;
struct driver_put;

/* Memory of one region as this process has it mapped. */
struct driver_memory {
    void *base;
    uint64_t length_bytes;
    int fd; /* the memfd; the driver does not keep it */
};

/* Called by the driver from within progress(), put_post() (a driver whose receiver is in the same
 * process), or never. */
struct driver_events {
    /* A put with a notification has landed: its data is visible. token: as given to landing_new().
     */
    void (*notified)(void *context, uint64_t token);
    /* Comes before peer_down(), once for each flow concerned. So many puts of this flow were done
     * here, and nobody knows whether they have landed: the last of what was put there may be
     * missing. Drivers whose puts are done when they have landed never call it. */
    void (*puts_lost)(void *context, struct driver_peer *peer, uint64_t flow, uint32_t count);
    /* A peer cannot be reached any more (error: -EHOSTDOWN, -ENETDOWN): every put in flight to it
     * has been or will be completed with that error. */
    void (*peer_down)(void *context, struct driver_peer *peer, int error);
    void *context;
};

struct driver_config {
    const char *provider; /* ofi: libfabric provider name ("tcp"); NULL: the best there is */
    const char *address;  /* ofi: local address, host name or interface to bind to; NULL: any */
    uint16_t port;        /* ofi: to listen on; 0: any that is free */
    bool unprotected; /* ofi: also where anybody who reaches the port may talk to us; else -EPERM */
    bool guarded;     /* ofi: only hosts that were admitted may connect, where that can be had */
    const char *runtime_dir; /* a directory of the daemon's, for sockets and the like */
    uint64_t segment_bytes;  /* size of a gathered piece; 0: the driver's default */
    const char *board;       /* peach2: control socket of this node's board; NULL: there is none */
    /* peach2: nodes of the sub-cluster; 0: as many as a sub-cluster can have */
    uint32_t board_nodes;
    /* peach2: cabled as one ring, or two; 0: as the number of nodes suggests */
    uint32_t board_rings;
};

/* What a probe finds, and what the cost model may take for granted. */
struct driver_caps {
    bool same_node; /* reaches the own node */
    bool other_nodes;
    bool subcluster;       /* but only those of the own sub-cluster */
    bool single;           /* a device that only one instance can have */
    bool strided;          /* moves block-stride layouts without gathering */
    bool ordered;          /* puts of one flow to one peer land in the order they were posted */
    bool unprotected;      /* whoever reaches its port may talk to it */
    uint32_t inline_bytes; /* contiguous puts of at most so many bytes are done before they land,
                              and may land after longer ones that were posted later */
    uint32_t peers_max;    /* 0: no limit */
    char detail[64];       /* for people: "tcp;ofi_rxm over lo" */
};

/* A cable of a network without switches; ends are places (below), ports letters for people. */
struct driver_cable {
    unsigned places[2];
    char ports[2];
    bool in; /* and not unplugged, nor a board at an end of it gone */
};

/* How a driver that listens on a network can be reached, and what it has turned away. */
struct driver_door {
    char address[64]; /* "10.0.0.1:7081"; "": not of a kind that people would know */
    bool guarded;     /* only admitted hosts may connect */
    uint64_t forged;  /* completions and messages that no peer can have sent */
};

/* What this node's device has complained of, for people, and how often that was noticed. */
struct driver_fault {
    char text[128];
    uint64_t count;
};

/* One start of a put. The owner embeds it; the driver uses it from put_post() until done() is
 * called. */
struct driver_op {
    /* Called exactly once when the put has completed here: the source may be written again (status
     * 0), or it failed. */
    void (*done)(struct driver_op *op, int status);
    uint32_t retries; /* counted by the driver */
    /* set by the driver when its last descriptor was handed over (0: at once) */
    uint64_t posted_ns;
    /* likewise, by drivers that have cables(): how many it crosses; else left as it is, 0 */
    uint32_t hops;
    /* what the device said, set by the driver before done() with an error; 0: nothing. In words:
     * driver_fault_text(). */
    uint32_t fault;
    void *driver_private[3]; /* the driver's while it has the op */
    void *owner;             /* the owner's */
};

/* Where puts of one peer land. */
struct driver_landing_args {
    struct driver_region *region; /* NULL: a notification alone */
    uint64_t offset_bytes;        /* of the layout's base in the region */
    const struct layout *layout;  /* checked, and known to fit; must live as long as the landing */
    bool notify;
    uint64_t token; /* handed to notified() */
};

struct driver_put_args {
    struct driver_peer *peer;
    /* puts of different flows need no order: a long one does not hold up the others' */
    uint64_t flow;
    struct driver_region *region; /* source; NULL: a notification alone */
    uint64_t offset_bytes;
    const struct layout *layout; /* as above */
    const void *landing;         /* the blob of the receiver's landing */
    size_t landing_bytes;
    const struct layout *target_layout; /* the receiver's, for drivers that write it themselves */
};

struct driver_put_info {
    uint32_t descriptors; /* that one start costs */
    bool gathered;        /* packed on the way */
};

struct driver_ops {
    const char *name;
    enum rail rail;

    /* Whether this driver can work on this machine: 0, or -ENODEV and the like. Cheap; opens
     * nothing. */
    int (*probe)(const struct driver_config *config, struct driver_caps *ret_caps);
    int (*open)(const struct driver_config *config, const struct driver_events *events,
                struct driver **ret_driver);
    /* Everything that was made from it has been released. */
    void (*close)(struct driver *driver);
    /* This instance's own address, for peer_connect() elsewhere: bytes written, at most
     * ADDRESS_MAX_BYTES. */
    int (*address)(struct driver *driver, void *ret_address);

    int (*region_add)(struct driver *driver, const struct driver_memory *memory,
                      struct driver_region **ret_region);
    void (*region_remove)(struct driver *driver, struct driver_region *region);

    /* Lazy: may return before a connection stands; then the first put makes it. */
    int (*peer_connect)(struct driver *driver, const void *address, size_t address_bytes,
                        struct driver_peer **ret_peer);
    /* No put is in flight and none is prepared. */
    void (*peer_disconnect)(struct driver *driver, struct driver_peer *peer);
    /* The owner knows that the peer is gone (its heartbeats have stopped): the next progress()
     * completes every put in flight to it with this error, further ones are refused with it.
     * peer_down() is not called. What is left to do with it is peer_disconnect(), which then also
     * frees what this instance keeps for the peer's puts to us. */
    void (*peer_fail)(struct driver *driver, struct driver_peer *peer, int error);

    /* Receiver: prepare for puts, and say in a blob (at most LANDING_MAX_BYTES) what the sender has
     * to know. */
    int (*landing_new)(struct driver *driver, const struct driver_landing_args *args,
                       struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
    void (*landing_free)(struct driver *driver, struct driver_landing *landing);

    /* Sender: compile one put. Fails with -EMSGSIZE when the two layouts' sizes differ. */
    int (*put_prepare)(struct driver *driver, const struct driver_put_args *args,
                       struct driver_put **ret_put, struct driver_put_info *ret_info);
    void (*put_release)(struct driver *driver, struct driver_put *put);
    /* Starts it. 0: done() will be called (perhaps already was); -EAGAIN: nothing happened, try
     * again after progress(). A put is started again only after its done(). */
    int (*put_post)(struct driver *driver, struct driver_put *put, struct driver_op *op);

    /* done() is called when every put to the peer that is done here has landed there: its data is
     * in place, its notification has been raised. Before a landing may be freed whose sender has
     * completed its puts, for one. 0, -EAGAIN (nothing happened, try again after progress()), or
     * why the peer cannot be asked; done() gets -ETIMEDOUT when it does not answer. */
    int (*peer_flush)(struct driver *driver, struct driver_peer *peer, struct driver_op *op);

    /* Moves everything on, at most about `budget` pieces: how many it moved (0: nothing to do), or
     * negative: this driver is broken. */
    int (*progress)(struct driver *driver, unsigned budget);
    /* A descriptor that becomes readable when there is work after arm(), or -1: never (progress
     * does nothing). */
    int (*event_fd)(struct driver *driver);
    /* Before sleeping on event_fd: 0, or -EAGAIN: there is work already, do not sleep. */
    int (*arm)(struct driver *driver);

    /* Drivers that listen on a network; NULL in others. Any thread. */
    void (*door)(const struct driver *driver, struct driver_door *ret_door);
    /* The host of the instance with this address may connect from now on, or not any more; as often
     * not as it may. Where nobody is kept out nothing happens. */
    int (*admit)(struct driver *driver, const void *address, size_t address_bytes, bool come);
    /* Nobody may connect for now; connections that stand are left alone. */
    void (*shut)(struct driver *driver, bool shut);

    /* Networks without switches; NULL in others. Any thread; places are counted from 0 within the
     * sub-cluster. */
    unsigned (*place)(const struct driver *driver); /* our own */
    /* Whether a way leads there, as far as is known here. */
    bool (*reaches)(const struct driver *driver, unsigned place);
    /* Cables that what we put there crosses now; 0: none (our own place), or no way leads there. */
    unsigned (*hops)(const struct driver *driver, unsigned place);
    unsigned (*cables)(const struct driver *driver, struct driver_cable *ret_cables, unsigned max);
    unsigned (*faults)(const struct driver *driver, struct driver_fault *ret_faults, unsigned max);
    /* What put_prepare() takes for the landing of so many bytes in memory of the peer's device that
     * is nobody's: to measure the way there. Bytes of the blob, or -EMSGSIZE: it is smaller than
     * that. */
    int (*scratch_landing)(struct driver *driver, struct driver_peer *peer, uint64_t bytes,
                           void *ret_blob);
};

struct driver {
    const struct driver_ops *ops;
    struct driver_events events;
};

/* Every driver that was built in, NULL at the end. */
extern const struct driver_ops *const drivers_all[];
const struct driver_ops *driver_find(const char *name);
const struct driver_ops *driver_of_rail(enum rail rail);
/* What the device of a rail meant by driver_op.fault; "": nothing. Also where that driver was not
 * built in. */
void driver_fault_text(enum rail rail, uint32_t fault, char *ret_text, size_t text_bytes);
