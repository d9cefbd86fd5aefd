/*
 * Freed regions. The adapter would refuse a write with their key, but fail the connection with it. So
 * the key of a region that peers were told of stays valid until each of them has confirmed a message
 * (RECALL) that names the region: the peer writes there no more, and as the connection keeps the
 * order, all that it had written has arrived before its count. A peer that is lost needs no message,
 * because its queue pair takes no packets. Until then, the pages stay pinned and belong to nobody
 * else. Between processes, what a peer has no key to does not wait for it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "drivers/hca/hca.h"

enum { RECALL_MAX = (HCA_SEGMENT_MIN - sizeof(struct hca_head)) / sizeof(uint64_t) };

int hca_recall_init(struct hca_driver *hca)
{
    struct epoll_event event = {.events = EPOLLIN};
    hca->freed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return hca->freed_fd < 0 || epoll_ctl(hca->epoll_fd, EPOLL_CTL_ADD, hca->freed_fd, &event) < 0
               ? -errno
               : 0;
}

/* ---- the owner of the region ---- */

void hca_region_free(struct hca_driver *hca, struct hca_region *region)
{
    if (region->mr)
        ibv_dereg_mr(region->mr);
    hca_domain_give(hca, region->domain);
    driver_memory_gone(region->gone, region->context);
    free(region);
}

void hca_region_unpin(void *context, struct unpin *unpin)
{
    hca_region_free(context, (struct hca_region *)unpin);
}

void hca_region_recall(struct hca_driver *hca, struct hca_region *region)
{
    pthread_mutex_lock(&hca->lock);
    *hca->freed_last = region;
    hca->freed_last = &region->next;
    atomic_store_explicit(&hca->freed_any, true,
                          memory_order_relaxed); /* the lock orders the list */
    pthread_mutex_unlock(&hca->lock);
    eventfd_write(hca->freed_fd, 1);
}

static void take_freed(struct hca_driver *hca)
{
    eventfd_t ignored;
    eventfd_read(hca->freed_fd, &ignored);
    pthread_mutex_lock(&hca->lock);
    struct hca_region *freed = hca->freed;
    hca->freed = NULL;
    hca->freed_last = &hca->freed;
    atomic_store_explicit(&hca->freed_any, false, memory_order_relaxed);
    pthread_mutex_unlock(&hca->lock);
    for (struct hca_region *next; freed; freed = next) {
        next = freed->next;
        freed->next = NULL;
        freed->recall = ++hca->recalls;
        *hca->recalling_last = freed;
        hca->recalling_last = &freed->next;
    }
    hca->recall_news = true;
}

/* Names the next regions to a peer that has confirmed the earlier ones. */
static void tell(struct hca_peer *peer)
{
    uint64_t numbers[RECALL_MAX], last = peer->recall_sent;
    unsigned count = 0;
    for (const struct hca_region *region = peer->hca->recalling; region && count < RECALL_MAX;
         region = region->next) {
        if (region->recall <= peer->recall_done)
            continue;
        if (region->domain == peer->domain)
            numbers[count++] = region->number;
        last = region->recall;
    }
    if (count == 0) { /* they are of other peers */
        peer->recall_sent = peer->recall_done = last;
        peer->hca->recall_news = true;
    }
    if (count == 0 ||
        hca_send_notice(peer, HCA_RECALL, numbers, (uint32_t)(count * sizeof numbers[0]), NULL) < 0)
        return;
    peer->recall_sent = last;
    peer->recall_made = peer->window.made;
}

static void tell_all(struct hca_driver *hca)
{
    pthread_mutex_lock(&hca->lock);
    for (struct hca_peer *peer = hca->peers; peer; peer = peer->next) {
        if (!peer->answered || peer->error < 0 || peer->window.counted < peer->recall_made)
            continue;
        hca->recall_news |= peer->recall_done < peer->recall_sent;
        peer->recall_done = peer->recall_sent;
        if (peer->recall_done < hca->recalls)
            tell(peer);
    }
    pthread_mutex_unlock(&hca->lock);
}

/* A paused peer will be able to write again. */
static bool may_write(const struct hca_peer *peer, const struct hca_region *region)
{
    return (peer->answered || peer->paused) && peer->error == 0 &&
           (!peer->hca->seat || !region->domain || region->domain == peer->domain) &&
           peer->recall_done < region->recall;
}

static bool is_written(struct hca_driver *hca, const struct hca_region *region)
{
    pthread_mutex_lock(&hca->lock);
    const struct hca_peer *peer = hca->peers;
    while (peer && !may_write(peer, region))
        peer = peer->next;
    pthread_mutex_unlock(&hca->lock);
    return peer;
}

static int free_recalled(struct hca_driver *hca)
{
    struct hca_region **link = &hca->recalling;
    int freed = 0;
    while (*link) {
        struct hca_region *region = *link;
        if (is_written(hca, region)) {
            link = &region->next;
            continue;
        }
        *link = region->next;
        unpinner_give(&hca->unpinner, &region->unpin);
        freed++;
    }
    hca->recalling_last = link;
    return freed;
}

int hca_recall_run(struct hca_driver *hca)
{
    if (atomic_load_explicit(&hca->freed_any, memory_order_relaxed))
        take_freed(hca);
    tell_all(hca);
    if (!hca->recall_news)
        return 0;
    hca->recall_news = false;
    return free_recalled(hca);
}

/* No queue pair is left. */
void hca_recall_deinit(struct hca_driver *hca)
{
    if (hca->freed_fd < 0)
        return;
    hca_recall_run(hca);
    close(hca->freed_fd);
}

/* ---- the peer ---- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int hca_recalled(struct hca_peer *peer, void *payload, uint32_t bytes)
{
    uint64_t *numbers = payload; /* a receive buffer: aligned */
    const size_t count = bytes / sizeof numbers[0];
    if (bytes % sizeof numbers[0] != 0)
        return -EPROTO;
    qsort(numbers, count, sizeof numbers[0], compare);
    for (struct hca_put *put = peer->writes; put; put = put->next)
        put->base.stale |=
            bsearch(&put->region, numbers, count, sizeof numbers[0], compare) != NULL;
    for (size_t i = 0; i < count; i++)
        peer->recalled[peer->recalled_next++ % HCA_RECALLED_KEPT] = numbers[i];
    return 0;
}

/* The region was freed while the description of its landing was on the way. */
bool hca_is_recalled(const struct hca_peer *peer, uint64_t region)
{
    for (unsigned i = 0; region > 0 && i < HCA_RECALLED_KEPT; i++)
        if (peer->recalled[i] == region)
            return true;
    return false;
}
