/* A port's life, its memory, and the objects of its processor but for queue pairs. */
#include "drivers/manycore/port.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/manycore/server.h"

/* ---- pages for queues ---- */

int port_take_pages(struct port *port, uint32_t count)
{
    if (count == 0)
        return 0;
    for (uint32_t page = 1, run = 0; page < DCFA_QUEUE_PAGES; page++) {
        run = port->pages[page] ? 0 : run + 1;
        if (run < count)
            continue;
        page -= count - 1;
        memset(port->pages + page, 1, count);
        memset(port_page(port, page), 0, sizeof(struct ring_indexes));
        return (int)page;
    }
    return -ENOSPC;
}

void port_return_pages(struct port *port, uint32_t page, uint32_t count)
{
    memset(port->pages + page, 0, count);
}

/* ---- life ---- */

static int make_segment(struct port *port)
{
    port->segment_fd = memfd_create("tca-dcfa", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (port->segment_fd < 0 || ftruncate(port->segment_fd, (off_t)port->segment_bytes) < 0 ||
        fcntl(port->segment_fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    void *base =
        mmap(NULL, port->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, port->segment_fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    port->head = base;
    port->head->magic = DCFA_MAGIC;
    port->head->version = PROTO_VERSION;
    port->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return port->wake_fd < 0 ? -errno : 0;
}

int port_new(struct port_server *server, struct verbs_device *device, struct port_owner owner,
             uint64_t memory_bytes, struct port_stats *totals,
             void (*on_broken)(void *context, const char *why), void *context,
             struct port **ret_port)
{
    struct port *port = calloc(1, sizeof(*port));
    if (!port)
        return -ENOMEM;
    port->server = server;
    port->device = device;
    port->owner = owner;
    port->totals = totals;
    port->on_broken = on_broken;
    port->context = context;
    port->segment_fd = port->wake_fd = -1;
    port->segment_bytes = PORT_QUEUE_BYTES + memory_bytes;
    int r = make_segment(port);
    if (r == 0 && !port_is_direct(port))
        r = port_server_add(server, port);
    if (r < 0) {
        port_free(port);
        return r;
    }
    *ret_port = port;
    return 0;
}

struct port *port_free(struct port *port)
{
    const struct verbs_ops *ops;
    if (!port)
        return NULL;
    ops = port->device->ops;
    port_server_remove(port);
    for (uint32_t i = 0; i < DCFA_QPS_MAX; i++)
        if (port->qps[i])
            port_qp_destroy(port, i);
    for (uint32_t i = 0; i < DCFA_MEMORIES_MAX; i++)
        if (port->memories[i]) {
            ops->memory_free(port->memories[i]->memory);
            free(port->memories[i]);
        }
    for (uint32_t i = 0; i < DCFA_CQS_MAX; i++)
        if (port->cqs[i]) {
            ops->cq_free(port->cqs[i]->cq);
            free(port->cqs[i]);
        }
    for (uint32_t i = 0; i < DCFA_DOMAINS_MAX; i++)
        if (port->domains[i]) {
            ops->domain_free(port->domains[i]->domain);
            free(port->domains[i]);
        }
    if (port->head)
        munmap(port->head, port->segment_bytes);
    if (port->segment_fd >= 0)
        close(port->segment_fd);
    if (port->wake_fd >= 0)
        close(port->wake_fd);
    free(port);
    return NULL;
}

/* ---- objects ---- */

/* A free number in one of the arrays of pointers, or -EDQUOT. */
static int free_number(void *const *objects, uint32_t max, const char *what, char *text,
                       size_t text_bytes)
{
    for (uint32_t i = 0; i < max; i++)
        if (!objects[i])
            return (int)i;
    snprintf(text, text_bytes, "an offload processor has at most %u %s: release some", max, what);
    return -EDQUOT;
}
#define FREE_NUMBER(objects, max, what)                                                            \
    free_number((void *const *)(objects), max, what, text, text_bytes)

static int domain_create(struct port *port, struct port_created *ret_created, char *text,
                         size_t text_bytes)
{
    int number = FREE_NUMBER(port->domains, DCFA_DOMAINS_MAX, "protection domains");
    if (number < 0)
        return number;
    struct port_domain *domain = calloc(1, sizeof(*domain));
    int r = domain ? port->device->ops->domain_new(port->device, &domain->domain) : -ENOMEM;
    if (r < 0) {
        free(domain);
        snprintf(text, text_bytes, "%s has no protection domain: %s", port->device->name,
                 strerrordesc_np(-r));
        return r;
    }
    domain->bytes = port_request_bytes(&(struct port_request){.kind = DCFA_DOMAIN});
    port->domains[number] = domain;
    ret_created->id = (uint32_t)number;
    return 0;
}

static int cq_create(struct port *port, const struct port_request *request,
                     struct port_created *ret_created, char *text, size_t text_bytes)
{
    const uint32_t entries = request->entries,
                   pages = port_queue_pages(port, entries, sizeof(struct dcfa_completion_entry));
    if (entries < 2 || entries > DCFA_ENTRIES_MAX || (entries & (entries - 1))) {
        snprintf(text, text_bytes,
                 "a completion queue of %u entries: it must be a power of two from 2 to %u",
                 entries, DCFA_ENTRIES_MAX);
        return -EINVAL;
    }
    int number = FREE_NUMBER(port->cqs, DCFA_CQS_MAX, "completion queues");
    if (number < 0)
        return number;
    struct port_cq *cq = calloc(1, sizeof(*cq));
    /* twice: completions of a queue pair can be left when it is released and another created */
    int r = cq ? port->device->ops->cq_new(port->device, 2 * entries, &cq->cq) : -ENOMEM;
    int page = r < 0 ? r : port_take_pages(port, pages);
    if (page < 0) {
        if (r == 0)
            port->device->ops->cq_free(cq->cq);
        free(cq);
        snprintf(text, text_bytes, "no place for a completion queue of %u entries: %s", entries,
                 strerrordesc_np(-page));
        return page;
    }
    cq->bytes = port_request_bytes(request);
    cq->entries = entries;
    cq->page = (uint32_t)page;
    if (pages > 0)
        dcfa_ring_init(&cq->ring, port_page(port, cq->page), sizeof(struct dcfa_completion_entry),
                       entries);
    port_server_lock(port->server);
    port->cqs[number] = cq;
    if (port->cq_end <= (uint32_t)number)
        port->cq_end = (uint32_t)number + 1;
    port_server_unlock(port->server);
    ret_created->id = (uint32_t)number;
    ret_created->queue = cq->cq->queue;
    if (pages > 0)
        ret_created->queue.offset = (uint64_t)cq->page * DCFA_PAGE_BYTES;
    return 0;
}

/* Whether the process has allocated all pages. Otherwise the device would, at the daemon's
 * expense. */
static bool is_made(const struct port *port)
{
    struct stat status;
    return fstat(port->segment_fd, &status) == 0 &&
           (uint64_t)status.st_blocks * 512 >= port->segment_bytes;
}

static int memory_create(struct port *port, const struct port_request *request,
                         struct port_created *ret_created, char *text, size_t text_bytes)
{
    if (request->domain >= DCFA_DOMAINS_MAX || !port->domains[request->domain]) {
        snprintf(text, text_bytes, "there is no protection domain %u", request->domain);
        return -EINVAL;
    }
    if (request->bytes == 0 || request->offset < PORT_QUEUE_BYTES ||
        request->offset > port->segment_bytes ||
        request->bytes > port->segment_bytes - request->offset ||
        request->access & ~(unsigned)DCFA_ACCESS_ALL ||
        request->address + request->bytes < request->address) {
        snprintf(
            text, text_bytes,
            "%" PRIu64 " bytes at offset %" PRIu64
            " are not within the processor's memory (dcfa_memory()), or access 0x%x is unknown",
            request->bytes, request->offset, request->access);
        return -EINVAL;
    }
    if (!is_made(port)) {
        snprintf(text, text_bytes,
                 "pages of the processor's memory are missing: its process must access all of them "
                 "first");
        return -EFAULT;
    }
    int number = FREE_NUMBER(port->memories, DCFA_MEMORIES_MAX, "registered memories");
    if (number < 0)
        return number;
    struct port_domain *domain = port->domains[request->domain];
    struct port_memory *memory = calloc(1, sizeof(*memory));
    int r = memory ? port->device->ops->memory_new(
                         domain->domain, (uint8_t *)port->head + request->offset, request->bytes,
                         request->address, request->access, &memory->memory)
                   : -ENOMEM;
    if (r < 0) {
        free(memory);
        snprintf(text, text_bytes, "%s could not register %" PRIu64 " bytes: %s%s",
                 port->device->name, request->bytes, strerrordesc_np(-r),
                 r == -ENOMEM ? " (the limit may be tcad's locked memory, LimitMEMLOCK=)" : "");
        return r;
    }
    memory->bytes = port_request_bytes(request);
    memory->domain = request->domain;
    domain->users++;
    port->memories[number] = memory;
    ret_created->id = (uint32_t)number;
    ret_created->local_key = memory->memory->local_key;
    ret_created->remote_key = memory->memory->remote_key;
    return 0;
}

uint64_t port_request_bytes(const struct port_request *request)
{
    enum { OBJECT_BYTES = 1024, ENTRY_BYTES = 192, COMPLETION_BYTES = 96 };
    const uint64_t queues = (uint64_t)request->entries + request->receive_entries;
    return OBJECT_BYTES + (request->kind == DCFA_CQ   ? queues * COMPLETION_BYTES
                           : request->kind == DCFA_QP ? queues * ENTRY_BYTES
                                                      : 0);
}

int port_create(struct port *port, const struct port_request *request,
                struct port_created *ret_created, char *text, size_t text_bytes)
{
    int r;
    *ret_created = (struct port_created){0};
    switch (request->kind) {
    case DCFA_DOMAIN:
        r = domain_create(port, ret_created, text, text_bytes);
        break;
    case DCFA_CQ:
        r = cq_create(port, request, ret_created, text, text_bytes);
        break;
    case DCFA_QP:
        r = port_qp_create(port, request, ret_created, text, text_bytes);
        break;
    case DCFA_MEMORY:
        r = memory_create(port, request, ret_created, text, text_bytes);
        break;
    default:
        snprintf(text, text_bytes, "objects of kind %d are unknown", (int)request->kind);
        return -EINVAL;
    }
    if (r == 0)
        atomic_fetch_add_explicit(&port->counts[request->kind], 1, memory_order_relaxed);
    return r;
}

/* ---- release ---- */

static int busy(uint32_t users, const char *what, uint32_t id, char *text, size_t text_bytes)
{
    if (users == 0)
        return 0;
    snprintf(text, text_bytes, "%s %u is used by %u objects: release these first", what, id, users);
    return -EBUSY;
}

static int64_t cq_release(struct port *port, uint32_t id, char *text, size_t text_bytes)
{
    struct port_cq *cq = port->cqs[id];
    int64_t r = busy(cq->users, "completion queue", id, text, text_bytes);
    if (r < 0)
        return r;
    port_server_lock(port->server);
    port->cqs[id] = NULL;
    port_server_unlock(port->server);
    port_return_pages(port, cq->page,
                      port_queue_pages(port, cq->entries, sizeof(struct dcfa_completion_entry)));
    port->device->ops->cq_free(cq->cq);
    r = (int64_t)cq->bytes;
    free(cq);
    return r;
}

static int64_t domain_release(struct port *port, uint32_t id, char *text, size_t text_bytes)
{
    struct port_domain *domain = port->domains[id];
    int64_t r = busy(domain->users, "protection domain", id, text, text_bytes);
    if (r < 0)
        return r;
    port->domains[id] = NULL;
    port->device->ops->domain_free(domain->domain);
    r = (int64_t)domain->bytes;
    free(domain);
    return r;
}

static int64_t memory_release(struct port *port, uint32_t id)
{
    struct port_memory *memory = port->memories[id];
    port->memories[id] = NULL;
    port->domains[memory->domain]->users--;
    port->device->ops->memory_free(memory->memory);
    int64_t bytes = (int64_t)memory->bytes;
    free(memory);
    return bytes;
}

int64_t port_release(struct port *port, enum dcfa_kind kind, uint32_t id, char *text,
                     size_t text_bytes)
{
    int64_t r;
    if (kind == DCFA_DOMAIN && id < DCFA_DOMAINS_MAX && port->domains[id])
        r = domain_release(port, id, text, text_bytes);
    else if (kind == DCFA_CQ && id < DCFA_CQS_MAX && port->cqs[id])
        r = cq_release(port, id, text, text_bytes);
    else if (kind == DCFA_QP && id < DCFA_QPS_MAX && port->qps[id])
        r = port_qp_destroy(port, id);
    else if (kind == DCFA_MEMORY && id < DCFA_MEMORIES_MAX && port->memories[id])
        r = memory_release(port, id);
    else {
        snprintf(text, text_bytes, "the offload processor has no object %u of kind %d", id,
                 (int)kind);
        return -EINVAL;
    }
    if (r >= 0)
        atomic_fetch_sub_explicit(&port->counts[kind], 1, memory_order_relaxed);
    return r;
}
