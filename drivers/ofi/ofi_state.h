/* The state of an instance of the ofi driver. */
#pragma once

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>

#include "drivers/credits.h"
#include "drivers/driver.h"
#include "drivers/landings.h"
#include "drivers/ofi/ofi_limits.h"
#include "drivers/ofi/ofi_wire.h"
#include "drivers/packed.h"
#include "drivers/recall.h"
#include "drivers/window.h"

struct ofi_driver;
struct ofi_peer;

/* Registered memory. */
struct ofi_memory {
    struct fid_mr *mr;
    uint8_t *base;
    uint64_t length_bytes;
};

/* Memory of the driver, or the driver's own mapping of an owner's memory, because the provider may
 * use it longer than the owner. Freed by ofi_region_quarantine(). */
struct ofi_region {
    struct recall_key recall; /* first; after it was freed: see ofi_quarantine.c */
    struct ofi_memory memory;
    uint64_t mapped_bytes;
    bool shared;                 /* maps the owner's memory */
    bool told;                   /* a peer may know the key */
    void (*gone)(void *context); /* struct driver_memory */
    void *context;
    struct ofi_region *next_of_key, **link_of_key; /* in the driver's table, until it is freed */
    /* freed, but not recalled yet: */
    struct ofi_region *next;
    uint64_t posted; /* number of the last write that may read it */
};

/* An entry of the address vector; shared by peers and sources of one name. */
struct ofi_name {
    struct ofi_name *next;
    unsigned references;
    unsigned sends;      /* messages in flight */
    uint64_t refused_ns; /* since when the provider has accepted nothing; 0: it accepts */
    uint64_t kick_after_ns;
    fi_addr_t fi_addr;
    uint16_t bytes;
    uint8_t text[OFI_NAME_MAX];
};

enum ofi_request_kind {
    OFI_REQUEST_WRITE,
    OFI_REQUEST_SEND,
    OFI_REQUEST_RECV,
};

/* A request to the provider; the context of its completion. */
struct ofi_request {
    struct fi_context2 context; /* first: providers write here */
    enum ofi_request_kind kind;
    bool staged;           /* WRITE: has a staging buffer */
    uint8_t *buffer;       /* staged: packed bytes; SEND, RECV: a message */
    bool busy;             /* WRITE: the provider has it */
    uint64_t number;       /* WRITE: counts all posted writes */
    struct ofi_peer *peer; /* WRITE: NULL if abandoned */
    struct ofi_put *put;   /* WRITE: reads its source; or NULL */
    struct ofi_name *name; /* SEND: referenced */
    struct ofi_request *next,
        *previous; /* WRITE in flight: in the peer's list; else in a free list */
};

struct ofi_requests {
    struct ofi_request *all;
    size_t count;
    struct ofi_request *writes;     /* free */
    struct ofi_request *sends;      /* free */
    struct ofi_request *recvs;      /* not posted, because the provider did not accept them */
    uint8_t *staging[OFI_STAGINGS]; /* free */
    unsigned staging_count;
    uint32_t segment_bytes; /* payload of a segment; size of a staging buffer */
    struct ofi_memory staging_memory, message_memory;
};

enum ofi_path {
    OFI_DIRECT,
    OFI_GATHER,
    OFI_RING,
};

struct ofi_put {
    struct window_put base; /* first; pending: operations to be counted, and outstanding */
    enum ofi_path path;
    bool copied; /* all of it goes into the mirror, so it completes at once */
    struct ofi_peer *peer;
    struct packed source;
    void *descriptor;      /* of the source's registration */
    uint64_t address, key; /* of the target; address: where the source's position 0 would go */
    uint32_t landing, generation;
    uint64_t landing_key;
    struct ofi_put *next_of_key, **link_of_key; /* DIRECT, GATHER: in the driver's table */
    uint32_t outstanding;                       /* writes in the provider that read the source */
};

enum ofi_link_state {
    OFI_LINK_NONE,
    OFI_LINK_GREETING, /* waits for WELCOME */
    OFI_LINK_READY,
    OFI_LINK_SYNCING, /* waits for SYNCED; SYNC is sent when no writes are in flight */
};

/* A piece or a segment that was sent and not yet counted. */
struct ofi_operation {
    struct window_piece base; /* first; put: NULL if the bytes are in the mirror */
    uint64_t position_bytes;  /* in the source */
    uint32_t length_bytes;
    bool piece;
};

/* The sender's side of a link. */
struct ofi_link {
    enum ofi_link_state state;
    uint32_t index, epoch; /* in the driver's links */
    uint32_t source, source_epoch;
    uint64_t address, key;
    struct ofi_secret secret;
    struct ofi_region *mirror; /* of the ring */
    uint64_t again;            /* operations from here on are to be sent again */

    uint64_t sync;            /* number of the last SYNC */
    bool refused;             /* the provider did not accept the last request */
    unsigned breaks;          /* connections lost since the last count */
    uint64_t again_ns;        /* when to repeat the request */
    uint64_t count_within_ns; /* SYNC is sent if no count arrives within this */
    uint64_t heard_ns;        /* time of the last count, or of the first operation after it */
    uint64_t trouble_ns;      /* since when the link is not usable; 0: it is */
    uint64_t looked_ns;       /* patience.h */

    uint64_t revoked[OFI_REVOKED_KEPT]; /* the last keys */
    unsigned revoked_next;
};

enum ofi_blocked {
    OFI_RUNNING,          /* not blocked */
    OFI_BLOCKED_PROVIDER, /* it returned -EAGAIN: it is connecting, or its queues are full */
    OFI_BLOCKED_BUFFERS,  /* waits for a staging buffer or a request */
    OFI_BLOCKED_LINK,     /* waits for a reply, or room in the window or the ring */
    OFI_BLOCKED_ORDER,    /* waits for earlier writes of the same put */
};

struct ofi_peer {
    struct ofi_driver *ofi;
    struct ofi_name *name;
    struct ofi_address address;
    struct ofi_link link;
    int error;            /* 0, or why it failed */
    bool told;            /* the owner knows that it failed */
    bool given_up;        /* by its owner: its instance is gone */
    struct window window; /* of operations; its ring is at the peer */
    struct ofi_operation operations[OFI_WINDOW];
    struct ofi_request requests; /* writes in flight: head of the list */
    enum ofi_blocked blocked;
    uint64_t retry_ns; /* OFI_BLOCKED_PROVIDER: when to try again */
    bool connected;    /* it has replied at least once */
    struct ofi_peer *next_active,
        *previous_active; /* in the driver's list of peers with something to do */
    bool active;
};

static inline struct ofi_operation *ofi_operation(const struct ofi_peer *peer, uint64_t number)
{
    return (struct ofi_operation *)window_piece(&peer->window, number);
}

/* The receiver's side of a link. */
struct ofi_source {
    struct ofi_name *name;
    struct ofi_address address; /* of the sender */
    uint32_t link, link_epoch;  /* at the sender */
    uint32_t index, epoch;      /* here */
    struct ofi_secret secret;
    struct ofi_region *ring;
    uint32_t ring_bytes, segment_bytes;
    uint32_t head; /* offset of the next segment */
    uint64_t mail_address, mail_key;
    struct ofi_secret mail_secret;
    struct credits credits;   /* of operations */
    uint64_t arrived, pieces; /* bit n % OFI_WINDOW: operation n has arrived, and is a piece */
    uint64_t sync;            /* number of the last SYNC */
    uint64_t forged;          /* completions with an invalid segment */
    /* in the list of sources that are owed a credit or a WELCOME */
    struct ofi_source *next_owed;
    bool owed;
    bool asked;          /* the sender waits for the credit */
    bool welcome;        /* WELCOME is to be sent */
    uint64_t due_ns;     /* when to send a credit that the sender does not wait for */
    uint64_t refused_ns; /* since when the provider has accepted nothing; 0: it accepts */
    uint64_t retry_ns;   /* when to try again */

    struct recall_holder holder;      /* of keys of this instance's memory */
    struct ofi_source *next_departed; /* in the list of departed sources */
    uint64_t probe_ns, probe_period_ns;
};

struct ofi_landing {
    struct packed target; /* size 0: a notification without data */
    uint64_t key;         /* a secret that the sender must know */
    uint64_t token;
    uint32_t index, generation;
    bool notify;
};

/* An IP address in host byte order; IPv4: in the first word. */
struct ofi_host {
    uint32_t word[4];
    unsigned references;
};

/* See ofi_filter.c. Under the driver's names_lock. */
struct ofi_filter {
    int fd;        /* the provider's listening socket; -1: none, or not guarded */
    bool v6;       /* the hosts are IPv6 */
    bool shut;     /* accepts no host */
    bool in_force; /* attached to the socket */
    struct ofi_host *hosts;
    size_t count;
};

enum { OFI_KEY_BUCKETS = 4096 };

struct ofi_driver {
    struct driver driver;
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *endpoint;
    int event_fd, timer_fd;
    bool cq_has_fd;
    bool cq_edges, cq_signalled; /* see ofi_arm() */
    int cq_fd;
    uint64_t timer_ms; /* period; 0: off */
    bool ordered;
    uint64_t write_flags; /* of all writes except injected ones */
    uint64_t write_max_bytes;

    struct ofi_address address; /* of this instance */
    struct ofi_memory sink;
    uint64_t sink_bytes[8]; /* their contents have no meaning */

    struct ofi_region *mails; /* struct ofi_mail of each link */

    struct ofi_filter filter;
    pthread_mutex_t names_lock;
    struct ofi_name *names;

    struct ofi_requests requests;
    _Atomic uint64_t posted; /* number of writes */
    struct landings landings;
    struct ofi_peer *links[OFI_LINKS_MAX];
    uint8_t link_epochs[OFI_LINKS_MAX];
    struct ofi_source *sources[OFI_LINKS_MAX];
    uint32_t sources_end; /* index after the last */
    uint8_t source_epochs[OFI_LINKS_MAX];
    struct ofi_source *owed;
    bool wide_data;                        /* 64 bits of remote completion data */
    _Atomic uint64_t forged;               /* completions and messages that no peer can have sent */
    struct ofi_put *keys[OFI_KEY_BUCKETS]; /* DIRECT and GATHER puts, by key */
    pthread_mutex_t regions_lock;
    struct ofi_region *regions[OFI_KEY_BUCKETS]; /* by key; under the lock */
    struct ofi_peer active;                      /* head of the list */

    /* Freed memory: see ofi_quarantine.c. */
    _Atomic(struct ofi_region *) freed; /* not recalled yet */
    struct recall recall;
    struct ofi_source *departed;
    _Atomic uint64_t quarantine_count, quarantine_bytes;
};

static inline unsigned ofi_key_bucket(uint64_t key)
{
    return (unsigned)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 52);
}
static_assert(OFI_KEY_BUCKETS == 1 << 12, "bits of the hash");

static inline struct ofi_driver *ofi_of(struct driver *driver)
{
    return (struct ofi_driver *)driver;
}
