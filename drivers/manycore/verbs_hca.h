/* Devices of libibverbs: shared by verbs_hca.c (devices, memory, completion queues) and
 * verbs_hca_qp.c (queue pairs and transfers). */
#pragma once

#include <infiniband/verbs.h>

#include "drivers/manycore/verbs.h"

struct hca_qp;

struct hca_device {
    struct verbs_device base;
    struct ibv_context *context;
    struct ibv_comp_channel *channel;
    struct ibv_port_attr port;
    uint8_t port_number, gid_index, reads;
    union ibv_gid gid;
    /* verbs_direct.c: NULL: libibverbs */
    const struct hca_raw {
        int (*create_qp)(const struct verbs_qp_args *args, struct hca_qp *qp);
        void (*destroy_qp)(struct hca_qp *qp);
        int (*modify_qp)(struct hca_qp *qp, const struct ibv_qp_attr *attributes, int mask);
    } * raw;
};
struct hca_domain {
    struct verbs_domain base;
    struct ibv_pd *pd;
};
struct hca_memory {
    struct verbs_memory base;
    struct ibv_mr *mr;
};
struct hca_cq {
    struct verbs_cq base;
    struct ibv_cq *cq;
};
struct hca_qp {
    struct verbs_qp base;
    struct ibv_qp *qp;
    uint32_t psn;
};

static inline struct hca_device *hca_of(struct verbs_device *device)
{
    return (struct hca_device *)device;
}

static inline int hca_access(unsigned access)
{
    return IBV_ACCESS_LOCAL_WRITE | (access & DCFA_ACCESS_WRITE ? IBV_ACCESS_REMOTE_WRITE : 0) |
           (access & DCFA_ACCESS_READ ? IBV_ACCESS_REMOTE_READ : 0);
}

bool hca_is_rxe(const struct verbs_device *device);
int hca_qp_new(const struct verbs_qp_args *args, struct verbs_qp **ret_qp);
void hca_qp_free(struct verbs_qp *qp);
int hca_qp_connect(struct verbs_qp *qp, const uint8_t address[static VERBS_ADDRESS_BYTES]);
void hca_qp_fail(struct verbs_qp *qp);
int hca_post_send(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token);
int hca_post_receive(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token);
int hca_poll(struct verbs_cq *cq, struct verbs_completion *ret_completions, unsigned max);
