/* Offload processors that drive queues of soft-RoCE themselves, and abuse them and the device. */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_rxe.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/dcfa/dcfa.h"
#include "tests/integration/dcfa/hostile.h"

/* A command of the kernel on the device's descriptor. */
static int command(const struct world *world, uint64_t what, const void *in, size_t in_bytes,
                   void *out, size_t out_bytes)
{
    struct {
        struct ib_uverbs_ioctl_hdr head;
        struct ib_uverbs_attr attributes[3];
    } call = {
        .head = {.length = sizeof(call),
                 .object_id = UVERBS_OBJECT_DEVICE,
                 .method_id = UVERBS_METHOD_INVOKE_WRITE,
                 .num_attrs = 3,
                 .driver_id = RDMA_DRIVER_RXE},
        .attributes = {{UVERBS_ATTR_CORE_IN, (uint16_t)in_bytes, .flags = UVERBS_ATTR_F_MANDATORY,
                        .data = (uintptr_t)in},
                       {UVERBS_ATTR_CORE_OUT, (uint16_t)out_bytes, .flags = UVERBS_ATTR_F_MANDATORY,
                        .data = (uintptr_t)out},
                       {UVERBS_ATTR_WRITE_CMD, sizeof(what), .flags = UVERBS_ATTR_F_MANDATORY,
                        .data = what}},
    };
    return ioctl(world->processor->device_fd, RDMA_VERBS_IOCTL, &call);
}

static void works(struct world *world)
{
    world_connect(world);
    const struct dcfa_completion completion = world_move(world, 0, DCFA_WRITE, 0, 8192, 4096);
    CHECK(completion.result == DCFA_OK, "%s", dcfa_result_name(completion.result));
}

/* Addresses, keys, lengths and flags of all entries. */
static void entries(struct world *world)
{
    for (int round = 0; round < 20; round++) {
        const struct direct_queue *queue = &world->qps[0]->direct_send;
        for (uint32_t i = 0; i < ENTRIES / 2; i++) {
            const struct dcfa_piece piece = {(void *)hostile_random(),
                                             (uint32_t)hostile_random() >> 4,
                                             (uint32_t)hostile_random()};
            const struct dcfa_send send = {.what = (uint32_t)hostile_random() % 5,
                                           .pieces = &piece,
                                           .piece_count = 1,
                                           .remote_address = hostile_random(),
                                           .remote_key = (uint32_t)hostile_random()};
            dcfa_post_send(world->qps[0], &send);
        }
        hostile_scribble(queue->shared->data, (size_t)queue->slots * queue->entry_bytes);
        works(world);
    }
}

/* Impossible indexes of every queue. */
static void indexes(struct world *world)
{
    for (int round = 0; round < 20; round++) {
        struct dcfa_qp *qp = world->qps[0];
        const struct dcfa_send send = {.what = DCFA_WRITE};
        qp->direct_receive.shared->producer_index = (uint32_t)hostile_random();
        qp->direct_send.shared->consumer_index = (uint32_t)hostile_random();
        dcfa_post_send(qp, &send);
        works(world);
    }
}

/* Destroys objects that tcad has created, without a command. */
static void destroys(struct world *world)
{
    const struct ib_uverbs_destroy_qp body = {.qp_handle = world->qps[0]->device_handle};
    struct ib_uverbs_destroy_qp_resp response;
    CHECK(command(world, IB_USER_VERBS_CMD_DESTROY_QP, &body, sizeof(body), &response,
                  sizeof(response)) == 0,
          "%m");
    const struct dcfa_send send = {.what = DCFA_WRITE};
    CHECK(dcfa_post_send(world->qps[0], &send) < 0, "posted to a queue pair that was destroyed");
    works(world);
}

/* A process that holds the session's descriptors outlives it. */
static void outlives(struct world *world)
{
    if (fork() == 0) {
        sleep(3);
        _exit(0);
    }
    works(world);
}

void (*const hostile_direct[])(struct world *) = {entries, indexes, destroys, outlives, NULL};
