/*
 * A port: the host's side of one offload processor. It owns the processor's memory and its objects
 * on the device, checks what the processor writes into its queues, and forwards it.
 *
 * Threads: the server's thread calls port_serve() and port_arm(), one other thread everything else.
 * port_server_lock() keeps the two apart where an object that is served appears or goes.
 */
#pragma once

#include <stdatomic.h>

#include "drivers/manycore/verbs.h"
#include "proto/ring.h"

struct port_server;

/* A send or receive queue. */
struct port_queue {
    struct ring ring;
    uint32_t entries, page; /* first page in the segment */
    uint32_t posted;        /* entries at the device */
    /* By post, of the entries at the device: they complete in order. */
    struct port_posted {
        uint64_t id;
        uint8_t opcode;
        bool signalled;
    } * ids;
    uint32_t first; /* in ids: counts up freely */
    bool bad;       /* `refused` follows when the device has completed all before it */
    struct port_posted refused;
    bool failed; /* all later entries are flushed */
};

struct port_cq {
    struct verbs_cq *cq;
    uint64_t bytes;
    struct ring ring;
    uint32_t entries, page;
    uint32_t reserved; /* entries of the queues that complete here */
    uint32_t users;    /* queue pairs */
};

struct port_domain {
    struct verbs_domain *domain;
    uint64_t bytes; /* port_request_bytes(), also below */
    uint32_t users; /* queue pairs and memories */
};

struct port_qp {
    struct verbs_qp *qp;
    uint64_t bytes;
    uint32_t number;
    uint32_t generation; /* completions of an earlier queue pair of this number are ignored */
    uint32_t domain, send_cq, receive_cq;
    bool connected;
    struct port_queue send, receive;
};

struct port_memory {
    struct verbs_memory *memory;
    uint64_t bytes;
    uint32_t domain;
};

struct port_stats { /* written by the server's thread; others may read them */
    _Atomic uint64_t entries, completions, errors, bytes;
};

/* Whose processor it is: its queue pairs can be connected to those of the same user only. Addresses
 * are signed, so that nobody makes one that names another user's queue pair. */
struct port_owner {
    uint32_t user;      /* uid */
    uint64_t secret[2]; /* the same on all nodes of the cluster */
};

struct port {
    struct verbs_device *device;
    struct port_server *server;
    struct port *next, **link; /* in the server's list */
    struct dcfa_head *head;    /* the segment's begin */
    uint64_t segment_bytes;
    int segment_fd, wake_fd;
    struct port_owner owner;
    uint32_t generation;
    bool full; /* a ring of completions has no space: the processor does not announce that it has
                  made some */
    const char *broken; /* the processor has violated the protocol: it is served no more; static */
    void (*on_broken)(void *context, const char *why); /* server's thread, once */
    void *context;
    struct port_stats stats;
    struct port_stats *totals; /* of all ports, also of former ones */
    _Atomic uint32_t counts[DCFA_KINDS];

    uint8_t pages[DCFA_QUEUE_PAGES]; /* 1: taken */
    struct port_domain *domains[DCFA_DOMAINS_MAX];
    struct port_cq *cqs[DCFA_CQS_MAX];
    struct port_qp *qps[DCFA_QPS_MAX];
    struct port_memory *memories[DCFA_MEMORIES_MAX];
    uint32_t qp_end, cq_end; /* all numbers in use are below */
    uint32_t turn;           /* the queue pair that was served last */
};

/* The offset of the processor's own memory in its segment. */
enum { PORT_QUEUE_BYTES = DCFA_QUEUE_PAGES * DCFA_PAGE_BYTES };

/* Makes the segment, and has the server serve it. */
int port_new(struct port_server *server, struct verbs_device *device, struct port_owner owner,
             uint64_t memory_bytes, struct port_stats *totals,
             void (*on_broken)(void *context, const char *why), void *context,
             struct port **ret_port);
/* Releases everything. NULL is a no-op. Returns NULL. */
struct port *port_free(struct port *port);

struct port_request {
    enum dcfa_kind kind;
    uint32_t domain, entries, receive_entries, send_cq, receive_cq;
    uint64_t offset, bytes, address;
    unsigned access;
};
struct port_created {
    uint32_t id;
    struct verbs_map queue, receive; /* of bytes: if the processor drives them */
    uint32_t device_handle, device_number;
    uint32_t local_key, remote_key;
    uint8_t address[DCFA_ADDRESS_BYTES]; /* of a queue pair */
};
/* Every field of a request is checked. text describes errors. */
int port_create(struct port *port, const struct port_request *request,
                struct port_created *ret_created, char *text, size_t text_bytes);
int port_connect(struct port *port, uint32_t qp, const uint8_t *address, size_t address_bytes,
                 char *text, size_t text_bytes);
/* Returns the object's port_request_bytes(). */
int64_t port_release(struct port *port, enum dcfa_kind kind, uint32_t id, char *text,
                     size_t text_bytes);
/* The memory that the object needs in this process, but for the segment. */
uint64_t port_request_bytes(const struct port_request *request);
/* port_qp.c */
int port_qp_create(struct port *port, const struct port_request *request,
                   struct port_created *ret_created, char *text, size_t text_bytes);
int64_t port_qp_destroy(struct port *port, uint32_t id); /* its port_request_bytes() */

/* Whether the processor drives its queues. */
static inline bool port_is_direct(const struct port *port)
{
    return port->device->fd >= 0;
}
/* Pages that the queue needs in the segment. */
static inline uint32_t port_queue_pages(const struct port *port, uint32_t entries,
                                        uint32_t entry_bytes)
{
    return port_is_direct(port) ? 0 : dcfa_queue_pages(entries, entry_bytes);
}
/* Takes contiguous pages for a ring, and clears its indexes. The first page, or -ENOSPC. */
int port_take_pages(struct port *port, uint32_t count);
void port_return_pages(struct port *port, uint32_t page, uint32_t count);
static inline void *port_page(const struct port *port, uint32_t page)
{
    return (uint8_t *)port->head + (size_t)page * DCFA_PAGE_BYTES;
}

/* port_serve.c. Takes a limited number of entries of every queue and delivers completions. The
 * number of entries and completions. */
unsigned port_serve(struct port *port);
/* Before the server sleeps. False: there is work. */
bool port_arm(struct port *port);
void port_disarm(struct port *port);
