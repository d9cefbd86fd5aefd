/* dcfa_parts [DEVICE [ROUNDS]]: where the time of an offload processor's 8-byte write goes when
 * tcad's thread serves its queues, beside the same write by libibverbs, in turn. Both are to the
 * writer's own memory, over a queue pair that leads to itself, so that only one process takes part.
 *
 * Doorbell seen: from before the entry is pushed until the server has it. Forwarded: until the
 * device has it. Completed: until the server has taken the completion from the device. Polled:
 * until the processor has. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "drivers/manycore/port.h"
#include "drivers/manycore/server.h"
#include "drivers/manycore/verbs_hca.h"
#include "proto/wait.h"

enum { ENTRIES = 64, MEMORY_BYTES = 1 << 20, TARGET = 4096, BYTES = 8 };
enum part { SEEN, FORWARDED, COMPLETED, POLLED, PLAIN_POSTED, PLAIN_POLLED, PARTS };

static struct verbs_device *device;
static struct verbs_ops own_ops; /* the device's, but for these two: */
static const struct verbs_ops *device_ops;
static _Atomic uint64_t seen_ns, forwarded_ns, completed_ns; /* the server's thread writes them */

static int timed_post_send(struct verbs_qp *qp, const struct dcfa_entry *entry, uint64_t token)
{
    atomic_store(&seen_ns, clock_now_ns());
    int r = device_ops->post_send(qp, entry, token);
    atomic_store(&forwarded_ns, clock_now_ns());
    return r;
}

static int timed_poll(struct verbs_cq *cq, struct verbs_completion *ret_completions, unsigned max)
{
    int n = device_ops->poll(cq, ret_completions, max);
    if (n > 0)
        atomic_store(&completed_ns, clock_now_ns());
    return n;
}

static void fail(const char *what)
{
    fprintf(stderr, "dcfa_parts: %s\n", what);
    exit(1);
}

static void check(int r, const char *what)
{
    if (r < 0) {
        fprintf(stderr, "dcfa_parts: %s: %s\n", what, strerror(-r));
        exit(1);
    }
}

static void on_broken(void *context, const char *why)
{
    (void)context;
    fail(why);
}

/* ---- the two ways ---- */

struct proxied {
    struct port *port;
    struct ring send, cq;
    uint32_t key;
};

static struct port_created create(struct port *port, struct port_request request)
{
    struct port_created created;
    char text[256] = "";
    if (port_create(port, &request, &created, text, sizeof(text)) < 0)
        fail(text);
    return created;
}

static void proxied_open(struct port_server *server, struct port_stats *totals, struct proxied *own)
{
    char text[256] = "";
    check(port_new(server, device, (struct port_owner){0}, MEMORY_BYTES, totals, on_broken, NULL,
                   &own->port),
          "a port");
    uint8_t *base = (uint8_t *)own->port->head;
    for (uint64_t at = DCFA_PAGE_BYTES; at < own->port->segment_bytes; at += DCFA_PAGE_BYTES)
        base[at] = 0;
    create(own->port, (struct port_request){.kind = DCFA_DOMAIN});
    own->key = create(own->port, (struct port_request){.kind = DCFA_MEMORY,
                                                       .offset = PORT_QUEUE_BYTES,
                                                       .bytes = MEMORY_BYTES,
                                                       .address = PORT_QUEUE_BYTES,
                                                       .access = DCFA_ACCESS_ALL})
                   .local_key;
    const struct port_created cq =
        create(own->port, (struct port_request){.kind = DCFA_CQ, .entries = 2 * ENTRIES});
    const struct port_created qp = create(
        own->port,
        (struct port_request){.kind = DCFA_QP, .entries = ENTRIES, .receive_entries = ENTRIES});
    if (port_connect(own->port, qp.id, qp.address, DCFA_ADDRESS_BYTES, text, sizeof(text)) < 0)
        fail(text);
    dcfa_ring_init(&own->cq, base + cq.queue.offset, sizeof(struct dcfa_completion_entry),
                   2 * ENTRIES);
    dcfa_ring_init(&own->send, base + qp.queue.offset, sizeof(struct dcfa_entry), ENTRIES);
}

static void proxied_write(struct proxied *own, double us[PARTS])
{
    const struct dcfa_entry entry = {.opcode = DCFA_OP_WRITE,
                                     .flags = DCFA_FLAG_SIGNALLED,
                                     .count = 1,
                                     .pieces = {{PORT_QUEUE_BYTES, BYTES, own->key}},
                                     .remote_address = PORT_QUEUE_BYTES + TARGET,
                                     .remote_key = own->key};
    struct dcfa_completion_entry completion;
    const uint64_t from_ns = clock_now_ns();
    check(ring_push(&own->send, &entry), "the queue");
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_exchange(&own->port->head->armed, 0) == 1)
        eventfd_write(own->port->wake_fd, 1);
    while (ring_pop(&own->cq, &completion) == 0)
        ;
    const uint64_t end_ns = clock_now_ns();
    if (completion.status != DCFA_ST_OK)
        fail("the write failed");
    const uint64_t seen = atomic_load(&seen_ns), forwarded = atomic_load(&forwarded_ns),
                   completed = atomic_load(&completed_ns);
    us[SEEN] = (double)(seen - from_ns) / 1e3;
    us[FORWARDED] = (double)(forwarded - seen) / 1e3;
    us[COMPLETED] = (double)(completed - forwarded) / 1e3;
    us[POLLED] = (double)(end_ns - completed) / 1e3;
}

struct plain {
    struct verbs_domain *domain;
    struct hca_qp *qp;
    struct hca_cq *cq;
    struct verbs_memory *memory;
    uint8_t *bytes;
};

static void plain_open(struct plain *own)
{
    struct verbs_cq *cq;
    struct verbs_qp *qp;
    own->bytes = aligned_alloc(4096, MEMORY_BYTES);
    if (!own->bytes)
        fail("out of memory");
    check(device_ops->domain_new(device, &own->domain), "a domain");
    check(device_ops->memory_new(own->domain, own->bytes, MEMORY_BYTES, (uintptr_t)own->bytes,
                                 DCFA_ACCESS_ALL, &own->memory),
          "memory");
    check(device_ops->cq_new(device, 2 * ENTRIES, &cq), "a completion queue");
    const struct verbs_qp_args args = {NULL, own->domain, cq, cq, ENTRIES, ENTRIES};
    check(device_ops->qp_new(&args, &qp), "a queue pair");
    check(device_ops->qp_connect(qp, qp->address), "connecting it");
    own->qp = (struct hca_qp *)qp;
    own->cq = (struct hca_cq *)cq;
}

static void plain_close(struct plain *own)
{
    device_ops->qp_free(&own->qp->base);
    device_ops->cq_free(&own->cq->base);
    device_ops->memory_free(own->memory);
    device_ops->domain_free(own->domain);
    free(own->bytes);
}

/* Not inlined, for those who count its instructions. */
__attribute__((noinline)) static void plain_post(struct plain *own)
{
    struct ibv_sge piece = {(uintptr_t)own->bytes, BYTES, own->memory->local_key};
    struct ibv_send_wr request = {.sg_list = &piece,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_RDMA_WRITE,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr.rdma = {(uintptr_t)own->bytes + TARGET,
                                              own->memory->remote_key}},
                       *bad;
    check(-ibv_post_send(own->qp->qp, &request, &bad), "ibv_post_send");
}

static void plain_write(struct plain *own, double us[PARTS])
{
    struct ibv_wc completion;
    const uint64_t from_ns = clock_now_ns();
    plain_post(own);
    const uint64_t posted_ns = clock_now_ns();
    while (ibv_poll_cq(own->cq->cq, 1, &completion) == 0)
        ;
    const uint64_t end_ns = clock_now_ns();
    if (completion.status != IBV_WC_SUCCESS)
        fail("the plain write failed");
    us[PLAIN_POSTED] = (double)(posted_ns - from_ns) / 1e3;
    us[PLAIN_POLLED] = (double)(end_ns - posted_ns) / 1e3;
}

/* ---- the report ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double (*us)[PARTS], unsigned rounds, unsigned first, unsigned count)
{
    double *sums = calloc(rounds, sizeof(*sums)), result;
    if (!sums)
        fail("out of memory");
    for (unsigned i = 0; i < rounds; i++)
        for (unsigned part = first; part < first + count; part++)
            sums[i] += us[i][part];
    qsort(sums, rounds, sizeof(*sums), compare);
    result = sums[rounds / 2];
    free(sums);
    return result;
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1000;
    struct port_stats totals = {0};
    struct port_server *server;
    struct proxied proxied = {0};
    struct plain plain = {0};
    char text[256] = "";
    if (argc > 3 || rounds == 0 || rounds > 1000000)
        fail("usage: dcfa_parts [DEVICE [ROUNDS]]");
    if (verbs_open(argc > 1 ? argv[1] : "auto", &device, text, sizeof(text)) < 0)
        fail(text);
    double(*us)[PARTS] = calloc(rounds, sizeof(*us));
    if (!us)
        fail("out of memory");
    const bool has_verbs = strcmp(device->name, "loop") != 0;
    device_ops = device->ops;
    own_ops = *device->ops;
    own_ops.post_send = timed_post_send;
    own_ops.poll = timed_poll;
    device->ops = &own_ops;
    check(port_server_new(device, 1000000, 1000000, &server), "the server");
    proxied_open(server, &totals, &proxied);
    if (has_verbs)
        plain_open(&plain);
    for (unsigned i = 0; i < rounds; i++) {
        proxied_write(&proxied, us[i]);
        if (has_verbs)
            plain_write(&plain, us[i]);
    }
    printf("%s: 8 B write, us: served by tcad %.2f = doorbell seen %.2f, forwarded %.2f, completed "
           "%.2f, polled %.2f",
           device->name, median(us, rounds, SEEN, 4), median(us, rounds, SEEN, 1),
           median(us, rounds, FORWARDED, 1), median(us, rounds, COMPLETED, 1),
           median(us, rounds, POLLED, 1));
    if (has_verbs)
        printf("; libibverbs %.2f = posted %.2f, completed %.2f",
               median(us, rounds, PLAIN_POSTED, 2), median(us, rounds, PLAIN_POSTED, 1),
               median(us, rounds, PLAIN_POLLED, 1));
    printf("\n");
    free(us);
    port_free(proxied.port);
    port_server_free(server);
    if (has_verbs)
        plain_close(&plain);
    device_ops->close(device);
    return 0;
}
