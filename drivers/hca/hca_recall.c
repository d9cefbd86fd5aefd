/*
 * Freed regions. The adapter would refuse a write with their key, but fail the connection with it.
 * So the key of a region that peers were told of stays valid until each of them has confirmed a
 * message (RECALL) that names the region (drivers/recall.h): the peer counts it when it writes
 * there no more, and as the connection keeps the order, all that it had written has arrived before
 * its count. A peer that is lost needs no message, because its queue pair takes no packets. Until
 * then, the pages stay pinned and belong to nobody else. Between processes, what a peer has no key
 * to does not wait for it.
 */
#include <errno.h>
#include <stdlib.h>

#include "drivers/hca/hca.h"
#include "proto/wait.h"

enum { RECALL_MAX = (HCA_SEGMENT_MIN - sizeof(struct hca_head)) / sizeof(uint64_t) };

/* ---- the owner of the region ---- */

static struct hca_peer *peer_of(struct recall_holder *holder)
{
    return (struct hca_peer *)((char *)holder - offsetof(struct hca_peer, holder));
}

static bool holds(void *context, const struct recall_holder *holder, const struct recall_key *key)
{
    const struct hca_peer *peer = peer_of((struct recall_holder *)holder);
    return ((const struct hca_region *)key)->domain == peer->domain;
}

static int send(void *context, struct recall_holder *holder, struct recall_key *const *keys,
                unsigned count, uint64_t number)
{
    struct hca_peer *peer = peer_of(holder);
    uint64_t numbers[RECALL_MAX];
    if (!peer->answered || peer->error < 0)
        return -EAGAIN;
    for (unsigned i = 0; i < count; i++)
        numbers[i] = ((const struct hca_region *)keys[i])->number;
    int r =
        hca_send_notice(peer, HCA_RECALL, numbers, (uint32_t)(count * sizeof(numbers[0])), NULL);
    if (r < 0)
        return -EAGAIN;
    peer->recall_made = peer->window.made;
    return 0;
}

/* Its queue pair is destroyed in the next round, and it gets no other one. */
static void cut_off(void *context, struct recall_holder *holder)
{
    struct hca_peer *peer = peer_of(holder);
    peer->garbled = true;
    hca_peer_break(peer, -ENETDOWN);
}

/* The memory is its owner's again when its parts have been freed, too. */
void hca_region_free(struct hca_driver *hca, struct hca_region *region)
{
    struct hca_region *whole = region->whole ? region->whole : region;
    if (region->mr)
        ibv_dereg_mr(region->mr);
    hca_domain_give(hca, region->domain);
    if (region != whole)
        free(region);
    if (atomic_fetch_sub(&whole->registered, 1) > 1)
        return;
    driver_memory_gone(whole->gone, whole->context);
    free(whole);
}

static void free_recalled(void *context, struct recall_key *key)
{
    hca_region_free(context, (struct hca_region *)key);
}

const struct recall_driver hca_recall = {
    .holds = holds,
    .send = send,
    .cut_off = cut_off,
    .free = free_recalled,
    .many = RECALL_MAX,
    .deadline_ns = HCA_CONFIRM_MS * UINT64_C(1000000),
};
static_assert((int)RECALL_MAX <= (int)RECALL_MANY_MAX, "a message's");

void hca_recall_counted(struct hca_peer *peer)
{
    if (peer->recall_made == 0 || peer->window.counted < peer->recall_made)
        return;
    peer->recall_made = 0;
    recall_ack(&peer->hca->recall, &peer->holder, peer->holder.asked);
}

int hca_recall_run(struct hca_driver *hca)
{
    hca_alive_watch(hca);
    return (int)recall_run(&hca->recall, clock_now_ns());
}

/* ---- the peer ---- */

static int compare(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int hca_recalled(struct hca_peer *peer, const struct hca_head *head, void *payload)
{
    const uint32_t bytes = head->length_bytes;
    uint64_t *numbers = payload; /* a receive buffer: aligned */
    const size_t count = bytes / sizeof(numbers[0]);
    if (bytes % sizeof(numbers[0]) != 0)
        return -EPROTO;
    qsort(numbers, count, sizeof(numbers[0]), compare);
    for (struct hca_put *put = peer->writes; put; put = put->next)
        put->base.stale |=
            bsearch(&put->region, numbers, count, sizeof(numbers[0]), compare) != NULL;
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
