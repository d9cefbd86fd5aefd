/*
 * Inside the ofi driver. One RDM endpoint per instance, one address vector, one completion queue.
 *
 * How a put travels:
 *   DIRECT  both sides contiguous: written from region to region by the provider
 *   GATHER  the target is contiguous: packed here into bounce buffers, which are written there
 *   RING    the target is not: segments go into a ring that the receiver keeps for us, and its
 *           progress() scatters them; packed here if the source is not contiguous either, else
 *           written from where they are
 *
 * The last write of a put carries the notification; segments of a ring are notified after the last
 * one was scattered.
 *
 * Order: the puts of one flow to a peer are posted in order, and the receiver works on what its
 * completion queue says in order, so a notification never overtakes data as long as the provider keeps writes
 * in order. Where it does not (ordered == false), the notifying write of a put waits until the
 * earlier ones are delivered, and caps.ordered is false. Flows take turns, piece by piece, and a
 * long put has only a few pieces in flight.
 *
 * Threads: as in driver.h. Registering memory and inserting addresses may happen in any thread; the
 * endpoint is opened FI_THREAD_SAFE, and the list of addresses has a lock. Everything else belongs
 * to the thread that polls.
 */
#pragma once

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <stdatomic.h>

#include "drivers/copy/copy.h"
#include "drivers/driver.h"
#include "drivers/flows.h"
#include "drivers/ofi/ofi_limits.h"
#include "drivers/ofi/ofi_wire.h"

struct ofi_driver;
struct ofi_peer;

/* Registered memory. */
struct ofi_memory {
    struct fid_mr *mr;
    uint8_t *base;
    uint64_t length_bytes;
};

struct ofi_region {
    struct ofi_memory memory;
};

/* An entry of the address vector; shared by peers and sources of one name. */
struct ofi_name {
    struct ofi_name *next;
    unsigned references;
    unsigned sends; /* messages on their way to it */
    fi_addr_t fi_addr;
    uint16_t bytes;
    uint8_t text[OFI_NAME_MAX];
};

enum ofi_request_kind {
    OFI_REQUEST_WRITE,
    OFI_REQUEST_SEND,
    OFI_REQUEST_RECV,
};

/* Something that the provider is working on: what a completion's context points to. */
struct ofi_request {
    struct fi_context2 context; /* first: providers write here */
    enum ofi_request_kind kind;
    bool bounce;           /* WRITE: has a buffer of the bounce pool */
    uint8_t *buffer;       /* bounce: a segment; SEND, RECV: a message */
    struct ofi_peer *peer; /* WRITE: NULL once nobody waits for it any more */
    struct ofi_put *put;   /* WRITE */
    struct ofi_name *name; /* SEND: referenced */
    struct ofi_request *next,
        *previous; /* WRITE: of the peer's requests; else next of the free list */
};

struct ofi_requests {
    struct ofi_request *all;
    size_t count;
    struct ofi_request *writes; /* free ones */
    struct ofi_request *sends;
    struct ofi_request *recvs;     /* that could not be posted again */
    uint8_t *bounces[OFI_BOUNCES]; /* free ones */
    unsigned bounce_count;
    uint32_t segment_bytes; /* payload of a bounce buffer */
    struct ofi_memory bounce_memory, message_memory;
};

enum ofi_path {
    OFI_NOTIFY, /* no data */
    OFI_DIRECT,
    OFI_GATHER,
    OFI_RING,
    OFI_QUESTION, /* no put, but takes its turn among them: a flush */
};

struct ofi_put {
    enum ofi_path path;
    struct copy_program *packer; /* NULL: the source is contiguous */
    bool notify;
    struct ofi_peer *peer;
    uint8_t *base;    /* of the source layout, or the contiguous source itself */
    void *descriptor; /* of the source's registration */
    uint64_t size_bytes;
    uint64_t address, key; /* of the target, or of the peer's sink */
    uint32_t data;         /* the landing's */
    uint64_t landing_key;
    /* while it runs */
    struct driver_op *op;
    struct flow_put place; /* in the peer's queues */
    uint64_t posted_bytes;
    bool posted;          /* all of it, or all that ever will be */
    int error;            /* what it will end with, or 0 */
    uint32_t outstanding; /* writes */
};

enum ofi_link_state {
    OFI_LINK_NONE,
    OFI_LINK_ASKING, /* HELLO is to be sent, or was */
    OFI_LINK_READY,
    OFI_LINK_REFUSED,
};

/* The sender's side of a ring. */
struct ofi_link {
    enum ofi_link_state state;
    bool hello_sent;
    uint32_t index, epoch; /* in the driver's links */
    uint32_t source, source_epoch;
    uint32_t slots, slot_bytes;
    uint64_t address, key;
    struct ofi_secret secret;
    uint32_t sent, returned; /* slots, counting up freely */
};

/* A flush on its way: queued like a put, then among the driver's flushes until its answer comes. */
struct ofi_flush {
    struct ofi_put put; /* first */
    struct ofi_flush *next;
    uint32_t number;
    bool asked;
    uint64_t again_ns, deadline_ns;
};

/* A flush of somebody else's, answered as soon as the provider takes the answer. */
struct ofi_answer {
    struct ofi_answer *next;
    struct ofi_name *name;
    struct ofi_secret to;
    uint32_t number;
};

enum ofi_blocked {
    OFI_RUNNING,          /* not blocked */
    OFI_BLOCKED_PROVIDER, /* the provider says -EAGAIN: it connects, or its queues are full */
    OFI_BLOCKED_BUFFERS,  /* bounce buffers or requests */
    OFI_BLOCKED_LINK,     /* WELCOME or a free slot */
    OFI_BLOCKED_ORDER,    /* earlier writes of the same put */
};

struct ofi_peer {
    struct ofi_name *name;
    struct ofi_address address;
    struct ofi_link link;
    int error;                   /* not 0: it is down */
    bool told;                   /* peer_down() was called, or the owner said so itself */
    struct flows flows;          /* puts that are not wholly posted */
    struct ofi_request requests; /* head of the list of its writes in flight */
    enum ofi_blocked blocked;
    uint64_t stalled_since_ns; /* 0: it is not */
    uint64_t retry_ns;         /* while it is: not before */
    unsigned probes;           /* since then */
    unsigned injected;         /* since the last completion */
    bool connected;            /* something has gone to it, or come from it */
    struct ofi_peer *next_active,
        *previous_active; /* in the driver's list of peers with something to do */
    bool active;
};

/* The receiver's side of a ring. */
struct ofi_source {
    struct ofi_name *name;
    struct ofi_address address; /* of the sender */
    uint32_t link, link_epoch;  /* the sender's */
    uint32_t index, epoch;      /* ours */
    struct ofi_secret secret;
    struct ofi_memory ring;
    uint32_t slots, slot_bytes;
    uint32_t consumed, returned; /* slots, counting up freely */
    uint64_t arrived;            /* bit n: slot n has been filled */
    /* in the list of those whose credits the provider did not take yet */
    struct ofi_source *next_owed;
    bool owed;
    uint64_t owed_since_ns;
    uint64_t retry_ns; /* not before; clock_now_ns() */
    bool welcome;      /* the WELCOME is still to be sent */
};

struct ofi_landing {
    uint8_t *base; /* of the layout; NULL: a notification alone */
    uint64_t size_bytes;
    struct copy_program *unpacker; /* NULL: the target is contiguous, and base the target itself */
    uint64_t key;
    uint64_t token;
    uint32_t data; /* as ofi_data_landing() */
    bool notify;
};

struct ofi_landing_entry {
    struct ofi_landing *landing; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct ofi_landings {
    struct ofi_landing_entry *entries;
    uint32_t count, capacity;
    uint32_t first_free,
        last_free; /* a queue, so that a generation comes back late; UINT32_MAX: empty */
};

/* An address of IP, in host byte order; of IPv4 in the first word. */
struct ofi_host {
    uint32_t word[4];
    unsigned references;
};

/* See ofi_filter.c. Under the driver's names_lock. */
struct ofi_filter {
    int fd;        /* the provider's; -1: there is none, or nobody is to be kept out */
    bool v6;       /* of that kind are the hosts */
    bool shut;     /* for everybody */
    bool in_force; /* the kernel has it */
    struct ofi_host *hosts;
    size_t count;
};

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
    uint64_t timer_ms; /* period it is set to; 0: off */
    bool ordered;
    uint64_t write_flags; /* of every write that is no inject */
    size_t inject_bytes;
    uint64_t write_max_bytes;

    struct ofi_address address; /* our own */
    struct ofi_memory sink;
    uint64_t sink_bytes[8]; /* what others write there means nothing */

    struct ofi_filter filter;
    pthread_mutex_t names_lock;
    struct ofi_name *names;

    struct ofi_requests requests;
    struct ofi_landings landings;
    struct ofi_peer *links[OFI_LINKS_MAX];
    uint8_t link_epochs[OFI_LINKS_MAX];
    struct ofi_source *sources[OFI_LINKS_MAX];
    uint8_t source_epochs[OFI_LINKS_MAX];
    struct ofi_source *owed;
    struct ofi_flush *flushes;
    uint32_t last_flush;
    struct ofi_answer *answers, **answers_last;
    unsigned answer_count;
    struct ofi_peer active;  /* head of the list */
    _Atomic uint64_t forged; /* completions and messages that no peer can have sent */
};

static inline struct ofi_driver *ofi_of(struct driver *driver)
{
    return (struct ofi_driver *)driver;
}

/* ofi_open.c */
int ofi_random(void *ret_bytes, size_t bytes);
int ofi_getinfo(const struct driver_config *config, struct fi_info **ret_info);
bool ofi_info_ordered(const struct fi_info *info);

/* ofi_door.c */
/* Over the kernel's TCP or UDP: these providers ask nobody who they are. */
bool ofi_info_unprotected(const struct fi_info *info);
enum { OFI_HOST_MAX = 64 };
/* The numeric address that is meant; -ENOENT: none, it names an interface. */
int ofi_resolve(const char *address, char ret_host[static OFI_HOST_MAX]);
/* An instance's address for people; "": it is not one of IP. */
void ofi_name_text(const struct ofi_driver *ofi, const struct ofi_address *address, char *ret_text,
                   size_t text_bytes);
int ofi_open_driver(const struct driver_config *config, const struct driver_events *events,
                    struct driver **ret_driver);
void ofi_close(struct driver *driver);

/* ofi_filter.c */
void ofi_filter_init(struct ofi_driver *ofi);
void ofi_filter_deinit(struct ofi_driver *ofi);
int ofi_admit(struct driver *driver, const void *address, size_t address_bytes, bool come);
void ofi_shut(struct driver *driver, bool shut);

/* ofi_memory.c */
int ofi_memory_register(struct ofi_driver *ofi, void *base, uint64_t length_bytes, uint64_t access,
                        struct ofi_memory *ret_memory);
void ofi_memory_close(struct ofi_memory *memory);
/* What a peer has to name to write here. */
uint64_t ofi_memory_remote(const struct ofi_driver *ofi, const struct ofi_memory *memory,
                           const uint8_t *place);
int ofi_region_add(struct driver *driver, const struct driver_memory *memory,
                   struct driver_region **ret_region);
void ofi_region_remove(struct driver *driver, struct driver_region *region);

/* ofi_request.c */
int ofi_requests_init(struct ofi_driver *ofi, uint32_t segment_bytes);
void ofi_requests_deinit(struct ofi_driver *ofi);
/* A write of this put, on the peer's list; with a bounce buffer if asked. NULL: none is free. */
struct ofi_request *ofi_write_take(struct ofi_driver *ofi, struct ofi_put *put, bool bounce);
void ofi_write_give(struct ofi_driver *ofi, struct ofi_request *request);
/* Nobody waits for it any more; the provider still has it. */
void ofi_write_orphan(struct ofi_request *request);
struct ofi_request *ofi_send_take(struct ofi_driver *ofi, struct ofi_name *to);
void ofi_send_give(struct ofi_driver *ofi, struct ofi_request *request);
int ofi_recv_post(struct ofi_driver *ofi, struct ofi_request *request);
bool ofi_request_known(const struct ofi_driver *ofi, const void *context);

/* ofi_peer.c */
int ofi_name_take(struct ofi_driver *ofi, const struct ofi_address *address,
                  struct ofi_name **ret_name);
void ofi_name_hold(struct ofi_driver *ofi, struct ofi_name *name);
void ofi_name_give(struct ofi_driver *ofi, struct ofi_name *name);
int ofi_address_check(const void *data, size_t bytes, struct ofi_address *ret_address);
int ofi_peer_connect(struct driver *driver, const void *address, size_t address_bytes,
                     struct driver_peer **ret_peer);
void ofi_peer_disconnect(struct driver *driver, struct driver_peer *peer);
void ofi_peer_fail(struct driver *driver, struct driver_peer *peer, int error);
void ofi_peer_activate(struct ofi_driver *ofi, struct ofi_peer *peer);
void ofi_peer_deactivate(struct ofi_peer *peer);
/* Marks it; its puts are completed by the next progress(). */
void ofi_peer_doom(struct ofi_driver *ofi, struct ofi_peer *peer, int error);
/* Completes everything of a peer that is down, and tells the owner. */
void ofi_peer_bury(struct ofi_driver *ofi, struct ofi_peer *peer);

/* ofi_link.c: the sender's side of rings */
/* Sees to it that a HELLO is sent. 0: it was, -EAGAIN: ask again. */
int ofi_link_ask(struct ofi_driver *ofi, struct ofi_peer *peer);
void ofi_link_welcome(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_link_credit(struct ofi_driver *ofi, uint32_t data);
void ofi_link_close(struct ofi_driver *ofi, struct ofi_peer *peer);
/* Sends it if it can; -EAGAIN. */
int ofi_message_send(struct ofi_driver *ofi, struct ofi_name *to,
                     const struct ofi_message *message);

/* ofi_source.c: the receiver's side */
void ofi_source_hello(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_source_bye(struct ofi_driver *ofi, const struct ofi_message *message);
/* Scatters what has come: how many segments. */
int ofi_source_segment(struct ofi_driver *ofi, uint32_t data);
/* Credits and WELCOMEs that could not be sent at once. */
int ofi_sources_settle(struct ofi_driver *ofi);
/* Frees the rings of an instance (NULL: all). */
void ofi_sources_drop(struct ofi_driver *ofi, const struct ofi_secret *cookie);

/* ofi_landing.c */
int ofi_landing_new(struct driver *driver, const struct driver_landing_args *args,
                    struct driver_landing **ret_landing, void *ret_blob, size_t *ret_blob_bytes);
void ofi_landing_free(struct driver *driver, struct driver_landing *landing);
/* NULL: there is none, or not any more. */
struct ofi_landing *ofi_landing_find(const struct ofi_landings *landings, uint32_t data);

/* ofi_put.c */
int ofi_put_prepare(struct driver *driver, const struct driver_put_args *args,
                    struct driver_put **ret_put, struct driver_put_info *ret_info);
void ofi_put_release(struct driver *driver, struct driver_put *put);
int ofi_put_post(struct driver *driver, struct driver_put *put, struct driver_op *op);
/* The put of the peer whose turn it is, or NULL. */
static inline struct ofi_put *ofi_put_next(const struct ofi_peer *peer)
{
    struct flow_put *place = flows_next(&peer->flows);
    return place ? (struct ofi_put *)((char *)place - offsetof(struct ofi_put, place)) : NULL;
}
/* Posts what it can of the peer's puts, at most budget writes: how many. Sets peer->blocked. */
int ofi_peer_pump(struct ofi_driver *ofi, struct ofi_peer *peer, unsigned budget);

void ofi_put_done(struct ofi_driver *ofi, struct ofi_put *put, int status);
void ofi_put_enqueue(struct ofi_driver *ofi, struct ofi_put *put, struct driver_op *op);

/* ofi_flush.c */
int ofi_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op);
/* Sends the question: 0, -EAGAIN, or another error: the peer cannot be reached. */
int ofi_flush_ask(struct ofi_driver *ofi, struct ofi_flush *flush);
void ofi_flush_forget(struct ofi_driver *ofi, struct ofi_flush *flush);
/* Ends those of a peer that is down. */
void ofi_flushes_fail(struct ofi_driver *ofi, const struct ofi_peer *peer);
void ofi_flush_asked(struct ofi_driver *ofi, const struct ofi_message *message);
void ofi_flush_answered(struct ofi_driver *ofi, const struct ofi_message *message);
/* Answers what could not be answered at once, and gives up what was not answered in time: how many.
 */
int ofi_flushes_settle(struct ofi_driver *ofi);
void ofi_answers_drop(struct ofi_driver *ofi);

/* ofi_write.c */
/* One write of a put: 0, -EAGAIN (peer->blocked says why), or another error: the peer cannot be
 * reached. */
int ofi_write_next(struct ofi_driver *ofi, struct ofi_put *put);
/* Something that changes nothing: 0, or -EAGAIN when the connection does not stand. */
int ofi_write_probe(struct ofi_driver *ofi, struct ofi_peer *peer);
/* Completion data and nothing else, to somebody's sink. */
int ofi_write_data(struct ofi_driver *ofi, fi_addr_t to, uint64_t address, uint64_t key,
                   uint32_t data);

/* ofi_progress.c */
int ofi_progress(struct driver *driver, unsigned budget);
int ofi_event_fd(struct driver *driver);
int ofi_arm(struct driver *driver);
