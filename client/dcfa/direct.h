/* Queues of soft-RoCE that this process drives itself, by the kernel's interface
 * (rdma/rdma_user_rxe.h). Not by libibverbs, which the client's seat uses over the rail hca: it has
 * no function that takes over a completion queue or a queue pair which another process has made
 * (ibv_import_*() take contexts, domains and memories, and those of soft-RoCE they do not), needs
 * /sys and /dev/infiniband, and the kernel lets each queue be mapped once. */
#pragma once

#include <stdint.h>

#include "client/include/tca-dcfa.h"
#include "proto/tca.pb-c.h"

struct dcfa_cq;
struct dcfa_qp;
struct rxe_queue_buf;

struct direct_queue {
    struct rxe_queue_buf *shared; /* NULL: the queue is a ring that tcad serves */
    uint64_t bytes;
    uint32_t entry_bytes, slots; /* the kernel's; slots: a power of two */
    uint32_t entries;            /* the program's */
    uint32_t mine;               /* this side's index, below `slots` */
    uint32_t serial;             /* of sends */
    uint64_t *ids;               /* by slot: the program's. Not of completion queues. */
    /* The slot after the last entry whose completion was polled. Written by the polling thread,
     * read by the posting one. */
    _Atomic uint32_t done;
};

/* Map the queues of an object that tcad has created. */
int direct_cq_map(struct dcfa_cq *cq, uint32_t entries, const Tca__DcfaCreated *created);
int direct_qp_map(struct dcfa_qp *qp, const struct dcfa_qp_args *args,
                  const Tca__DcfaCreated *created);
void direct_cq_unmap(struct dcfa_cq *cq);
void direct_qp_unmap(struct dcfa_qp *qp);

/* As in tca-dcfa.h; the arguments have been checked. */
int direct_post_send(struct dcfa_qp *qp, const struct dcfa_send *send);
int direct_post_receive(struct dcfa_qp *qp, uint64_t id, const struct dcfa_piece *pieces,
                        uint32_t piece_count);
int direct_poll(struct dcfa_cq *cq, uint32_t max, struct dcfa_completion *ret_completions);
/* Removes the completions of a queue pair that tcad has released. */
void direct_forget(struct dcfa_cq *cq, const struct dcfa_qp *qp);
