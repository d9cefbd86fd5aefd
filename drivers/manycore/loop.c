/* An RDMA device in software, for machines without one: its queue pairs lead to offload processors
 * of the same daemon. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "drivers/manycore/loop.h"
#include "proto/list.h"

enum { KEY_BYTES = 4 };

struct loop_address {
    char magic[8];
    uint64_t device, qp;
};
static const char address_magic[8] = "tcaloop";
static_assert(sizeof(struct loop_address) <= VERBS_ADDRESS_BYTES, "fits");

static struct loop_device *lock(struct verbs_device *base)
{
    struct loop_device *device = (struct loop_device *)base;
    pthread_mutex_lock(&device->mutex);
    return device;
}

static void unlock(struct loop_device *device)
{
    pthread_mutex_unlock(&device->mutex);
}

/* ---- names ---- */

static struct loop_name **bucket_of(struct loop_names *names, uint64_t value)
{
    return &names->buckets[value % LOOP_BUCKETS];
}

void *loop_find(const struct loop_names *names, uint64_t value)
{
    const struct loop_name *name = names->buckets[value % LOOP_BUCKETS];
    while (name && name->value != value)
        name = name->next;
    return name ? name->object : NULL;
}

/* Gives the object a random name of so many bytes, at most 8. */
static int enter_name(struct loop_names *names, struct loop_name *name, size_t bytes, void *object)
{
    do {
        name->value = 0;
        if (getrandom(&name->value, bytes, 0) != (ssize_t)bytes)
            return -EIO;
    } while (name->value == 0 || loop_find(names, name->value));
    struct loop_name **bucket = bucket_of(names, name->value);
    name->object = object;
    name->next = *bucket;
    *bucket = name;
    return 0;
}

static void leave_name(struct loop_names *names, const struct loop_name *name)
{
    struct loop_name **link = bucket_of(names, name->value);
    while (*link != name)
        link = &(*link)->next;
    *link = name->next;
}

/* ---- domains and memory ---- */

static int domain_new(struct verbs_device *device, struct verbs_domain **ret_domain)
{
    struct loop_domain *domain = calloc(1, sizeof(*domain));
    if (!domain)
        return -ENOMEM;
    domain->base.device = device;
    *ret_domain = &domain->base;
    return 0;
}

static void domain_free(struct verbs_domain *domain)
{
    free(domain);
}

static int memory_new(struct verbs_domain *domain, void *base, uint64_t bytes, uint64_t address,
                      unsigned access, struct verbs_memory **ret_memory)
{
    struct loop_memory *memory = malloc(sizeof(*memory));
    if (!memory)
        return -ENOMEM;
    *memory = (struct loop_memory){.base.device = domain->device,
                                   .domain = (struct loop_domain *)domain,
                                   .at = base,
                                   .bytes = bytes,
                                   .address = address,
                                   .access = access | DCFA_ACCESS_LOCAL};
    struct loop_device *device = lock(domain->device);
    int r = enter_name(&device->memories, &memory->name, KEY_BYTES, memory);
    unlock(device);
    if (r < 0) {
        free(memory);
        return r;
    }
    memory->base.local_key = memory->base.remote_key = (uint32_t)memory->name.value;
    *ret_memory = &memory->base;
    return 0;
}

static void memory_free(struct verbs_memory *base)
{
    struct loop_memory *memory = (struct loop_memory *)base;
    struct loop_device *device = lock(base->device);
    leave_name(&device->memories, &memory->name);
    unlock(device);
    free(memory);
}

/* ---- completion queues ---- */

static int cq_new(struct verbs_device *device, uint32_t entries, struct verbs_cq **ret_cq)
{
    struct loop_cq *cq = calloc(1, sizeof(*cq) + entries * sizeof(cq->entries[0]));
    if (!cq)
        return -ENOMEM;
    cq->base.device = device;
    cq->capacity = entries;
    *ret_cq = &cq->base;
    return 0;
}

static void cq_free(struct verbs_cq *cq)
{
    free(cq);
}

void loop_complete(struct loop_cq *cq, const struct verbs_completion *completion)
{
    if (cq->tail - cq->head < cq->capacity) /* as a device's, it loses what it has no space for */
        cq->entries[cq->tail++ % cq->capacity] = *completion;
}

static int poll(struct verbs_cq *base, struct verbs_completion *ret_completions, unsigned max)
{
    struct loop_cq *cq = (struct loop_cq *)base;
    struct loop_device *device = lock(base->device);
    unsigned n = 0;
    while (n < max && cq->head != cq->tail)
        ret_completions[n++] = cq->entries[cq->head++ % cq->capacity];
    unlock(device);
    return (int)n;
}

/* ---- queue pairs ---- */

static int queue_init(struct loop_queue *queue, uint32_t entries)
{
    queue->capacity = entries;
    queue->entries = malloc(entries * sizeof(*queue->entries));
    return queue->entries ? 0 : -ENOMEM;
}

/* The device is locked. */
static int take_share(struct loop_device *device, const void *owner, struct loop_share **ret_share)
{
    struct loop_share *share = device->shares;
    while (share && share->owner != owner)
        share = share->next;
    if (!share) {
        share = calloc(1, sizeof(*share));
        if (!share)
            return -ENOMEM;
        share->owner = owner;
        LIST_ADD(&device->shares, share, next, link);
    }
    share->users++;
    *ret_share = share;
    return 0;
}

static void give_share(struct loop_share *share)
{
    if (--share->users > 0)
        return;
    LIST_REMOVE(share, next, link);
    free(share);
}

/* Under a name and in the share of its owner. */
static int enter(struct loop_device *device, const void *owner, struct loop_qp *qp)
{
    int r = take_share(device, owner, &qp->share);
    if (r < 0)
        return r;
    r = enter_name(&device->qps, &qp->name, sizeof(qp->name.value), qp);
    if (r < 0)
        give_share(qp->share);
    return r;
}

static void qp_destroy(struct loop_qp *qp)
{
    free(qp->sends.entries);
    free(qp->receives.entries);
    free(qp);
}

static int qp_new(const struct verbs_qp_args *args, struct verbs_qp **ret_qp)
{
    struct loop_qp *qp = calloc(1, sizeof(*qp));
    if (!qp)
        return -ENOMEM;
    qp->base.device = args->domain->device;
    qp->domain = (struct loop_domain *)args->domain;
    qp->send_cq = (struct loop_cq *)args->send_cq;
    qp->receive_cq = (struct loop_cq *)args->receive_cq;
    int r = queue_init(&qp->sends, args->send_entries);
    if (r == 0)
        r = queue_init(&qp->receives, args->receive_entries);
    if (r == 0) {
        struct loop_device *device = lock(qp->base.device);
        r = enter(device, args->owner, qp);
        unlock(device);
    }
    if (r < 0) {
        qp_destroy(qp);
        return r;
    }
    struct loop_address address = {.device = ((struct loop_device *)qp->base.device)->id,
                                   .qp = qp->name.value};
    memcpy(address.magic, address_magic, sizeof(address.magic));
    memcpy(qp->base.address, &address, sizeof(address));
    *ret_qp = &qp->base;
    return 0;
}

static void leave_busy(struct loop_qp *qp)
{
    if (!qp->link)
        return;
    if (qp->share->turn == qp)
        qp->share->turn = qp->next;
    LIST_REMOVE(qp, next, link);
    qp->share->busy_count--;
}

static void qp_free(struct verbs_qp *base)
{
    struct loop_qp *qp = (struct loop_qp *)base;
    struct loop_device *device = lock(base->device);
    leave_name(&device->qps, &qp->name);
    loop_leave(qp);
    while (qp->followers)
        loop_lose(qp->followers);
    leave_busy(qp);
    give_share(qp->share);
    unlock(device);
    qp_destroy(qp);
}

static int qp_connect(struct verbs_qp *base, const uint8_t bytes[static VERBS_ADDRESS_BYTES])
{
    struct loop_qp *qp = (struct loop_qp *)base;
    struct loop_address address;
    memcpy(&address, bytes, sizeof(address));
    if (memcmp(address.magic, address_magic, sizeof(address.magic)) != 0)
        return -EINVAL;
    struct loop_device *device = lock(base->device);
    struct loop_qp *remote = loop_find(&device->qps, address.qp);
    int r = address.device != device->id ? -EHOSTUNREACH : !remote ? -ECONNREFUSED : 0;
    if (r == 0) {
        qp->state = LOOP_CONNECTED;
        qp->remote = remote;
        LIST_ADD(&remote->followers, qp, next_follower, follower_link);
    }
    unlock(device);
    return r;
}

static void qp_fail(struct verbs_qp *qp)
{
    struct loop_device *device = lock(qp->device);
    loop_fail((struct loop_qp *)qp);
    unlock(device);
}

/* ---- transfers ---- */

static int post(struct loop_queue *queue, const struct dcfa_entry *entry, uint64_t token)
{
    if (queue->tail - queue->head == queue->capacity)
        return -ENOBUFS;
    queue->entries[queue->tail++ % queue->capacity] = (struct loop_work){*entry, token};
    return 0;
}

static int post_send(struct verbs_qp *base, const struct dcfa_entry *entry, uint64_t token)
{
    struct loop_qp *qp = (struct loop_qp *)base;
    struct loop_device *device = lock(base->device);
    int r = qp->state != LOOP_NEW ? post(&qp->sends, entry, token) : -ENOTCONN;
    if (r == 0 && qp->state == LOOP_FAILED) {
        loop_fail(qp);
    } else if (r == 0 && !qp->link) {
        LIST_ADD(&qp->share->busy, qp, next, link);
        qp->share->busy_count++;
    }
    unlock(device);
    return r;
}

static int post_receive(struct verbs_qp *base, const struct dcfa_entry *entry, uint64_t token)
{
    struct loop_qp *qp = (struct loop_qp *)base;
    struct loop_device *device = lock(base->device);
    int r = post(&qp->receives, entry, token);
    if (r == 0 && (qp->state == LOOP_LOST || qp->state == LOOP_FAILED))
        loop_flush_receives(qp);
    unlock(device);
    return r;
}

/* In turn, until the share is used, or none can be advanced. */
static unsigned advance(struct loop_device *device, struct loop_share *share)
{
    uint64_t used = 0;
    uint32_t idle = 0;
    unsigned work = 0;
    while (used < LOOP_SLICE_BYTES && idle < share->busy_count) {
        struct loop_qp *qp = share->turn ? share->turn : share->busy;
        share->turn = qp->next;
        const uint64_t took = loop_advance(device, qp);
        idle = took > 0 ? 0 : idle + 1;
        work += took > 0;
        used += took;
        if (qp->sends.head == qp->sends.tail)
            leave_busy(qp);
    }
    return work;
}

static unsigned progress(struct verbs_device *base)
{
    struct loop_device *device = lock(base);
    unsigned work = 0;
    for (struct loop_share *share = device->shares; share; share = share->next)
        work += advance(device, share);
    unlock(device);
    return work;
}

/* ---- the device ---- */

static void close_device(struct verbs_device *base)
{
    struct loop_device *device = (struct loop_device *)base;
    pthread_mutex_destroy(&device->mutex);
    free(device);
}

int verbs_open_loop(struct verbs_device **ret_device)
{
    static const struct verbs_ops ops = {
        .close = close_device,
        .domain_new = domain_new,
        .domain_free = domain_free,
        .memory_new = memory_new,
        .memory_free = memory_free,
        .cq_new = cq_new,
        .cq_free = cq_free,
        .qp_new = qp_new,
        .qp_free = qp_free,
        .qp_connect = qp_connect,
        .qp_fail = qp_fail,
        .post_send = post_send,
        .post_receive = post_receive,
        .poll = poll,
        .progress = progress,
    };
    struct loop_device *device = calloc(1, sizeof(*device));
    if (!device)
        return -ENOMEM;
    if (getrandom(&device->id, sizeof(device->id), 0) < 0) {
        int r = -errno;
        free(device);
        return r;
    }
    device->base.ops = &ops;
    strcpy(device->base.name, "loop");
    device->base.fd = -1;
    device->base.event_fd = -1; /* work arrives only by post_*() */
    pthread_mutex_init(&device->mutex, NULL);
    *ret_device = &device->base;
    return 0;
}
