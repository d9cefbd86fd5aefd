/*
 * What drivers/manycore needs of an RDMA device, as a table of functions with two implementations:
 * libibverbs (verbs_hca.c), and a device in software (loop.c) that moves data between registered
 * memory of this daemon's offload processors.
 *
 * Threads: post_*, poll, progress and arm are called by the server's thread, all others by one
 * other thread; these can be slow. An object's functions are not called concurrently with its
 * release.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/dcfa.h"

enum { VERBS_ADDRESS_BYTES = 40 }; /* of a queue pair: the device's part of its address */

struct verbs_device { /* first member of each implementation's own struct, as are the next four */
    const struct verbs_ops *ops;
    char name[DCFA_DEVICE_NAME_BYTES];
    /* A descriptor by which the offload processor drives the queues itself: it maps them at the
     * offsets given below. -1: none; the server serves the queues. */
    int fd;
    /* Readable when an armed completion queue has got a completion; -1: never by itself. */
    int event_fd;
};
struct verbs_map {
    uint64_t offset, bytes;
};
struct verbs_domain {
    struct verbs_device *device;
};
struct verbs_memory {
    struct verbs_device *device;
    uint32_t local_key, remote_key;
};
struct verbs_cq {
    struct verbs_device *device;
    struct verbs_map queue;
};
struct verbs_qp {
    struct verbs_device *device;
    uint8_t address[VERBS_ADDRESS_BYTES];
    struct verbs_map send, receive;
    uint32_t handle, number; /* of the kernel and of the device */
};

struct verbs_qp_args {
    const void *owner; /* the processor: the device in software gives all owners the same share */
    struct verbs_domain *domain;
    struct verbs_cq *send_cq, *receive_cq;
    uint32_t send_entries, receive_entries;
};

struct verbs_completion {
    uint64_t token; /* as posted */
    enum dcfa_status status;
    enum dcfa_opcode opcode;
    uint32_t bytes; /* received */
    uint32_t immediate;
    bool has_immediate;
};

struct verbs_ops {
    void (*close)(struct verbs_device *device);

    int (*domain_new)(struct verbs_device *device, struct verbs_domain **ret_domain);
    void (*domain_free)(struct verbs_domain *domain);
    /* Memory mapped at `base` here is called `address` in entries and by peers. */
    int (*memory_new)(struct verbs_domain *domain, void *base, uint64_t bytes, uint64_t address,
                      unsigned access, struct verbs_memory **ret_memory);
    void (*memory_free)(struct verbs_memory *memory);
    int (*cq_new)(struct verbs_device *device, uint32_t entries, struct verbs_cq **ret_cq);
    void (*cq_free)(struct verbs_cq *cq);
    int (*qp_new)(const struct verbs_qp_args *args, struct verbs_qp **ret_qp);
    void (*qp_free)(struct verbs_qp *qp);
    /* Once per queue pair. -EINVAL: the address is none of such a device. -EHOSTUNREACH: of a
     * device out of reach. -ECONNREFUSED: the peer was released. */
    int (*qp_connect)(struct verbs_qp *qp, const uint8_t address[static VERBS_ADDRESS_BYTES]);
    /* Puts it into its error state: what is posted is flushed, the peer sees it fail. */
    void (*qp_fail)(struct verbs_qp *qp);

    /* ---- the rest: NULL if the processor drives the queues ---- */

    /* The entry was checked (port_serve.c) but for its keys and ranges, which the device checks.
     * The caller never has more posted than the queue has entries. Every entry has a completion, in
     * order.
     */
    int (*post_send)(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token);
    int (*post_receive)(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token);
    /* The number of completions taken, or a negative errno. */
    int (*poll)(struct verbs_cq *cq, struct verbs_completion *ret_completions, unsigned max);

    /* Advances transfers; NULL if the device does so by itself. The number of pieces of work done;
     * a transfer that waits for its peer is none. */
    unsigned (*progress)(struct verbs_device *device);
    /* With event_fd: takes the events; makes the next completion one. */
    void (*take_events)(struct verbs_device *device);
    int (*arm)(struct verbs_cq *cq);
};

/* loop.c */
int verbs_open_loop(struct verbs_device **ret_device);
/* verbs_hca.c. name: of the device, with ":PORT" or without; NULL: the first that has an active
 * port. -ENODEV: there is none; text describes every error. */
int verbs_open_hca(const char *name, struct verbs_device **ret_device, char *text,
                   size_t text_bytes);
/* verbs_direct.c: for one offload processor, beside an open device, which must outlive it.
 * -EOPNOTSUPP: its queues cannot be handed over. */
int verbs_open_direct(struct verbs_device *of, struct verbs_device **ret_device);
/* verbs.c: "loop", the name of a device, or "auto": a device if there is one, else loop. */
int verbs_open(const char *name, struct verbs_device **ret_device, char *text, size_t text_bytes);
