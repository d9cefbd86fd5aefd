/*
 * Reuse of bus addresses, on the side of a sender: see recall.c.
 *
 * Puts to a recalled range become stale. Those that the board has not begun fail; the others end by
 * themselves, because the owner's board also acknowledges packets to unmapped addresses. The
 * confirmation is sent when the peer is in sync and they have ended: then all their packets have
 * landed. If no peer is in sync, it is sent to PEACH2_AT_RESTART, which makes the owner's board
 * discard all earlier packets.
 */
#include <errno.h>

#include "drivers/peach2/peach2.h"
#include "proto/list.h"

static struct recalled *recalled_of(struct peach2 *peach2, unsigned node)
{
    return &peach2->recalled[node];
}

void peach2_recalled_add(struct peach2 *peach2, struct put *put)
{
    struct recalled *recalled = recalled_of(peach2, put->peer->address.node);
    LIST_ADD(&recalled->puts, put, next_prepared, link_prepared);
}

void peach2_recalled_remove(struct put *put)
{
    LIST_REMOVE(put, next_prepared, link_prepared);
}

static bool is_in(const struct put *put, const struct recalled_range *range)
{
    return recall_is_before(put->recall, range->number) && put->target_first < range->end &&
           range->first < put->target_end;
}

bool peach2_recalled_already(const struct peach2 *peach2, const struct put *put)
{
    const struct recalled *recalled = &peach2->recalled[put->peer->address.node];
    bool found = recall_is_before(put->recall, recalled->forgotten);
    for (unsigned i = 0; i < RECALLED_KEPT; i++)
        found |= is_in(put, &recalled->kept[i]);
    return found;
}

static void keep(struct recalled *recalled, struct recalled_range range)
{
    struct recalled_range *last =
        &recalled->kept[(recalled->next + RECALLED_KEPT - 1) % RECALLED_KEPT];
    if (last->number == range.number && last->first == range.first && last->end == range.end)
        return; /* repeated */
    struct recalled_range *oldest = &recalled->kept[recalled->next++ % RECALLED_KEPT];
    recalled->forgotten = oldest->number;
    *oldest = range;
}

void peach2_recalled_take(struct peach2 *peach2, unsigned node, uint64_t number, uint64_t range)
{
    struct recalled *recalled = recalled_of(peach2, node);
    const struct recalled_range taken = {.number = number,
                                         .first = (range >> 32) * PAGE,
                                         .end = ((range >> 32) + (uint32_t)range) * PAGE};
    keep(recalled, taken);
    recalled->confirm = true;
    recalled->number = number;
    for (struct put *put = recalled->puts, *next; put; put = next) {
        next = put->next_prepared;
        if (!is_in(put, &taken))
            continue;
        put->stale = true;
        if (put->state == PUT_QUEUED && !put->staging)
            peach2_put_done(peach2, put, -ESTALE);
    }
}

void peach2_recalled_revoke(struct peach2 *peach2, unsigned node, uint64_t number)
{
    struct recalled *recalled = recalled_of(peach2, node);
    keep(recalled, (struct recalled_range){.number = number, .end = PEACH2_INTERNAL});
    recalled->confirm = true;
    recalled->number = number;
    peach2_channels_reset(peach2);
    for (struct put *put = recalled->puts; put; put = put->next_prepared)
        if (recall_is_before(put->recall, number) && put->peer->error == 0)
            peach2_peer_down(peach2, put->peer, -ENETDOWN);
    for (struct peer *peer = peach2->peers; peer; peer = peer->next)
        if (peer->address.node == node && peer->state == PEER_OPEN)
            peach2_peer_sync(peach2, peer);
}

/* Whether packets can still land in what was recalled. ret_restart: unless the owner's board
 * discards all that were sent before. */
static bool can_land(const struct peach2 *peach2, unsigned node, bool *ret_restart)
{
    bool open = false, syncing = false;
    for (const struct peer *peer = peach2->peers; peer; peer = peer->next) {
        if (peer->address.node != node)
            continue;
        open |= peer->state == PEER_OPEN;
        syncing |= peer->state == PEER_SYNCING;
    }
    *ret_restart = !open;
    if (open)
        for (const struct put *put = peach2->recalled[node].puts; put; put = put->next_prepared)
            if (put->stale && put->state != PUT_IDLE)
                return true;
    return open && syncing;
}

unsigned peach2_recalled_send(struct peach2 *peach2, unsigned node)
{
    struct recalled *recalled = recalled_of(peach2, node);
    bool restart;
    if (!recalled->confirm || can_land(peach2, node, &restart))
        return 0;
    if (restart)
        peach2_peer_epoch(peach2);
    if (!peach2_message_recalled(peach2, node, recalled->number, restart))
        return 0;
    recalled->confirm = false;
    return 1;
}
