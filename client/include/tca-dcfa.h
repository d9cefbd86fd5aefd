/*
 * tca-dcfa.h: direct communication for offload processors (DCFA). A process without access to an
 * RDMA device has the device's queues in its own memory. Results, errors, times and threads: as in
 * tca.h.
 */
#ifndef TCA_DCFA_H
#define TCA_DCFA_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ dcfa */

/* An offload processor cannot initialise an RDMA device, but it can use one whose queues are in its
 * memory. So the host, which is the node's tcad, creates the objects by command, and the processor
 * transfers data by itself:
 *
 *     dcfa_open(session, 1 << 20, &processor);  // memory
 *     dcfa_pd_new(processor, &pd);              // commands to tcad
 *     dcfa_cq_new(processor, 128, &cq);
 *     dcfa_qp_new(pd, &qp_args, &qp);
 *     dcfa_mr_new(pd, memory, bytes, DCFA_REMOTE_WRITE, &mr);
 *     dcfa_qp_address(qp, &mine);               // exchange the addresses
 *     tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT);
 *     dcfa_qp_connect(qp, &all[peer]);
 *     dcfa_post_send(qp, &send);                // no command
 *     while (dcfa_poll(cq, 1, &completion) == 0)
 *         tca_pause(round++);
 *     dcfa_close(processor);
 *
 * The queue model is that of InfiniBand, with reliable connections: a queue pair has a send and a
 * receive queue, entries are processed in order, and completions are reported in completion queues.
 * Data is transferred from and to memory that was registered in the queue pair's protection domain.
 * After an error the queue pair has failed, and its other entries are flushed: release it and
 * create another. So it is when its peer was released or has ended: the connection is never taken
 * over by another queue pair. The device in software then flushes the receives at once; on an RDMA
 * device, the next send fails.
 *
 * The process needs no access to any device, and no privileges: only tcad's socket. tcad's
 * configuration names the device (dcfa.device in tcad.conf(5)); without one, tcad moves the data
 * between the offload processors of its node in software.
 *
 * tcad serves all offload processors in turn, and takes as many entries of each, however many queue
 * pairs it has. Garbage in its queues, errors and its end concern a processor and its peers only.
 *
 * Each queue may be used by one thread at a time; releasing a queue pair uses its completion
 * queues. Posting and polling make no system call, except that posting wakes tcad's thread if it
 * sleeps because all queues were idle. With dcfa.direct in tcad's configuration, the process drives
 * the queues of a soft-RoCE device without tcad; posting a send is then a system call, because such
 * a device has no doorbell register. */
struct dcfa;
struct dcfa_pd;
struct dcfa_cq;
struct dcfa_qp;
struct dcfa_mr;

#define DCFA_PIECES       6  /* most pieces of a send or receive */
#define DCFA_INLINE_BYTES 96 /* most data that DCFA_INLINE takes */

/* Makes this process an offload processor, with memory_bytes of memory for its transfers. One per
 * session. -ENODEV: tcad accepts none (dcfa.device). */
TCA_API int dcfa_open(struct tca *session, uint64_t memory_bytes, struct dcfa **ret_processor);
/* Releases the processor and all of its objects. Call it before tca_close(). NULL is a no-op.
 * Returns NULL. */
TCA_API struct dcfa *dcfa_close(struct dcfa *processor);
/* The processor's memory, which the program divides as it likes. */
TCA_API void *dcfa_memory(const struct dcfa *processor, uint64_t *ret_bytes);
/* The name of the device, with its port: "rxe0:1"; "rxe0:1 direct" if the process drives its queues
 * itself; or "loop". */
TCA_API const char *dcfa_device(const struct dcfa *processor);

/* ---- objects; each is created and released by a command to tcad ---- */

/* A protection domain: queue pairs only access memory of their own domain. */
TCA_API int dcfa_pd_new(struct dcfa *processor, struct dcfa_pd **ret_pd);
/* -EBUSY: queue pairs or memory of the domain still exist. NULL is a no-op for this and the other
 * functions that free. */
TCA_API int dcfa_pd_free(struct dcfa_pd *pd);

/* A completion queue; entries: a power of two from 2 to 16384. Every entry of the queues that
 * complete here needs one. */
TCA_API int dcfa_cq_new(struct dcfa *processor, uint32_t entries, struct dcfa_cq **ret_cq);
TCA_API int dcfa_cq_free(struct dcfa_cq *cq);

struct dcfa_qp_args {
    struct dcfa_cq *send_cq, *receive_cq;   /* can be the same */
    uint32_t send_entries, receive_entries; /* of its queues: powers of two from 2 to 16384 */
};
TCA_API int dcfa_qp_new(struct dcfa_pd *pd, const struct dcfa_qp_args *args,
                        struct dcfa_qp **ret_qp);
TCA_API int dcfa_qp_free(struct dcfa_qp *qp);
TCA_API uint32_t dcfa_qp_number(const struct dcfa_qp *qp); /* as in struct dcfa_completion */

/* Plain data that names a queue pair anywhere. */
struct dcfa_address {
    uint8_t bytes[64];
};
TCA_API void dcfa_qp_address(const struct dcfa_qp *qp, struct dcfa_address *ret_address);
/* Connects this queue pair, once, to another, which must be connected to this one. Receives can be
 * posted before. -EISCONN: it is connected already. -EACCES: the peer is another user's. -EINVAL:
 * the address is none, or was changed. The device in software: -EHOSTUNREACH (the peer is on
 * another node), -ECONNREFUSED (it was released). */
TCA_API int dcfa_qp_connect(struct dcfa_qp *qp, const struct dcfa_address *peer);

enum dcfa_access {
    DCFA_LOCAL = 1, /* this process, which has every access */
    DCFA_REMOTE_WRITE = 2,
    DCFA_REMOTE_READ = 4,
};
/* Registers part of the processor's memory. access: of peers, the sum of enum dcfa_access. */
TCA_API int dcfa_mr_new(struct dcfa_pd *pd, void *address, uint64_t bytes, uint32_t access,
                        struct dcfa_mr **ret_mr);
/* On return, neither device nor peers access the memory. */
TCA_API int dcfa_mr_free(struct dcfa_mr *mr);
TCA_API uint32_t dcfa_mr_local_key(const struct dcfa_mr *mr);  /* for struct dcfa_piece */
TCA_API uint32_t dcfa_mr_remote_key(const struct dcfa_mr *mr); /* for a peer's struct dcfa_send */

/* ---- transfers ---- */

struct dcfa_piece {
    void *address;
    uint32_t bytes;
    uint32_t key; /* local */
};

enum dcfa_operation {
    DCFA_SEND,            /* needs a receive at the peer, and waits for one */
    DCFA_SEND_IMMEDIATE,  /* with 32 bits that the peer's completion reports */
    DCFA_WRITE,           /* to the peer's memory; the peer is not involved */
    DCFA_WRITE_IMMEDIATE, /* also takes a receive at the peer, whose completion reports 32 bits */
    DCFA_READ,            /* from the peer's memory */
    DCFA_RECEIVE,         /* in completions */
    DCFA_RECEIVE_WRITE,   /* in completions: a DCFA_WRITE_IMMEDIATE has arrived */
};

enum dcfa_send_flags {
    DCFA_SIGNALLED = 1, /* report success, too; errors are always reported */
    DCFA_INLINE = 2,    /* copy the data now; needs no key; at most DCFA_INLINE_BYTES */
    DCFA_FENCE = 4,     /* start when earlier reads of the queue are complete */
};

struct dcfa_send {
    uint64_t id;   /* for the completion */
    uint32_t what; /* enum dcfa_operation, up to DCFA_READ */
    uint32_t flags;
    const struct dcfa_piece *pieces; /* gathered from, or for DCFA_READ scattered to */
    uint32_t piece_count;            /* at most DCFA_PIECES */
    uint32_t immediate;
    uint64_t remote_address; /* DCFA_WRITE*, DCFA_READ: in the peer's process */
    uint32_t remote_key;
};
/* Memory and keys are checked when the entry is processed: errors are in its completion. -EAGAIN:
 * the queue is full of entries whose completions were not polled. An entry without DCFA_SIGNALLED
 * is known to be complete only when a later one is: signal at least one in every send_entries
 * entries. At most 1 GiB. -ENOTCONN, -EINVAL. */
TCA_API int dcfa_post_send(struct dcfa_qp *qp, const struct dcfa_send *send);
TCA_API int dcfa_post_receive(struct dcfa_qp *qp, uint64_t id, const struct dcfa_piece *pieces,
                              uint32_t piece_count);

enum dcfa_result {
    DCFA_OK,
    DCFA_MALFORMED,      /* the entry is invalid; dcfa_post_send() rejects such entries */
    DCFA_LENGTH,         /* a received message is longer than its buffer; soft-RoCE: DCFA_ACCESS */
    DCFA_ACCESS,         /* a piece is not in registered memory of the domain */
    DCFA_FLUSHED,        /* the queue pair had failed before */
    DCFA_REMOTE_ACCESS,  /* the remote range is not registered for this */
    DCFA_REMOTE_REFUSED, /* the peer has refused it, or its receive has failed */
    DCFA_UNREACHABLE,    /* the peer does not respond, or has no such queue pair (any more) */
    DCFA_DEVICE_ERROR,
};
struct dcfa_completion {
    uint64_t id;
    uint32_t qp;
    uint32_t what;   /* enum dcfa_operation */
    uint32_t result; /* enum dcfa_result */
    uint32_t bytes;  /* received */
    uint32_t immediate;
    uint32_t has_immediate;
};
/* Takes up to `max` completions and returns their number. Does not notice when tcad has ended. */
TCA_API int dcfa_poll(struct dcfa_cq *cq, uint32_t max, struct dcfa_completion *ret_completions);
/* The same, but waits for the first one, and notices when tcad has ended. Spins, then sleeps.
 * -ETIMEDOUT. */
TCA_API int dcfa_wait(struct dcfa_cq *cq, uint32_t max, int64_t timeout_ns,
                      struct dcfa_completion *ret_completions);
TCA_API const char *dcfa_result_name(uint32_t result); /* a static text */

/* ------------------------------------------------------------------ host */

/* tca-hostd(1), which an ordinary user runs beside tcad, does on the host what is too expensive for
 * an offload processor or out of its reach: joining a group, reading input, exchanges and
 * reductions over the group, writing output. The processor computes, and transfers data to its
 * peers through its queues (tca-dcfa(3)).
 *
 *     dcfa_host_open(processor, NULL, &host);
 *     dcfa_host_read(host, "input", 0, memory, bytes);
 *     dcfa_host_allgather(host, mine, sizeof(*mine), all);
 *     // connect the queues, transfer data, compute
 *     dcfa_host_allreduce(host, sum, sum, 1, TCA_TYPE_DOUBLE,
 *                         TCA_COMBINE_SUM);
 *     dcfa_host_write(host, "output", 0, memory, bytes);
 *     dcfa_host_finalize(host);
 *     dcfa_host_close(host);
 *
 * Each call is a command to tca-hostd, and returns when the command is complete. The memory that
 * the calls read and write (`in`, `out`, `memory`) must be part of dcfa_memory(). Errors of all:
 * -EINVAL, -EOWNERDEAD (tca-hostd or another process of the group has ended), and those named
 * below. After an error in a collective call, all later ones fail with the same error. */
struct dcfa_host;

/* Any member may be 0; args may be NULL. */
struct dcfa_host_args {
    const char *socket; /* of tca-hostd; NULL: TCA_HOSTD */
    const char *group;  /* group, rank, size and timeout_ns: as in struct tca_open_args */
    uint32_t rank, size;
    int64_t timeout_ns;
};

/* Connects to tca-hostd, which joins the group. Returns when all ranks have joined. The process's
 * own session need not be in a group. Errors: those of tca_open(). */
TCA_API int dcfa_host_open(struct dcfa *processor, const struct dcfa_host_args *args,
                           struct dcfa_host **ret_host);
/* Leaves the group. Call it before dcfa_close(). NULL is a no-op. Returns NULL. */
TCA_API struct dcfa_host *dcfa_host_close(struct dcfa_host *host);
TCA_API uint32_t dcfa_host_rank(const struct dcfa_host *host);
TCA_API uint32_t dcfa_host_size(const struct dcfa_host *host);

/* The first reads up to `bytes` bytes at the offset of a file; the second writes all of them, and
 * creates the file if it does not exist. `path` is relative to tca-hostd's directory and does not
 * leave it. Both return the number of bytes, which is lower at the end of the file. Errors: those
 * of open(2), read(2) and write(2). */
TCA_API int64_t dcfa_host_read(struct dcfa_host *host, const char *path, uint64_t offset,
                               void *memory, uint64_t bytes);
TCA_API int64_t dcfa_host_write(struct dcfa_host *host, const char *path, uint64_t offset,
                                const void *memory, uint64_t bytes);

/* Collective: all ranks make these calls in the same order, with the same `bytes`, `count`, type,
 * combination and root. dcfa_host_allgather(): at most 4096 bytes of each rank. */
TCA_API int dcfa_host_allgather(struct dcfa_host *host, const void *in, uint64_t bytes, void *out);
/* Combines the `count` elements of all ranks into `out` of the root (that of other ranks is
 * ignored), or of all ranks. `in` and `out` may be the same. */
TCA_API int dcfa_host_reduce(struct dcfa_host *host, const void *in, void *out, uint64_t count,
                             enum tca_type type, enum tca_combine combine, uint32_t root);
TCA_API int dcfa_host_allreduce(struct dcfa_host *host, const void *in, void *out, uint64_t count,
                                enum tca_type type, enum tca_combine combine);
/* Returns when all ranks have called it; what they wrote before is in the files. */
TCA_API int dcfa_host_finalize(struct dcfa_host *host);

#ifdef __cplusplus
}
#endif

#endif
