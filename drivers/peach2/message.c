/*
 * Messages between drivers: 16 bytes each, in the notification rings. The message of a put is at
 * the end of its chain and numbered with its packets. The others are sent through the window
 * without numbers and repeated if they are lost.
 *
 *            first word: kind << 56 | ...    second word
 *   PUT      stream << 32 | sequence         landing
 *   SYNC     cookie of the sender            cookie of the receiver
 *                                            (to PEACH2_AT_RESTART, with a new epoch)
 *   SYNCED   sequences expected, by stream   epoch of the SYNC
 *   REFUSE                                   epoch of the SYNC: no such instance here
 *   CREDIT   puts taken since the SYNC       its epoch
 *   FLUSH    number
 *   FLUSHED  number of the last FLUSH
 *   GAP                                      packets are missing: resync
 *   RECALL   number of the recall            first page << 32 | pages
 *   REVOKE   number of the last recall
 *   RECALLED number of the recall or REVOKE  (to PEACH2_AT_RESTART if no peer is in sync)
 */
#include <string.h>

#include "drivers/peach2/peach2.h"

enum kind {
    KIND_PUT = 1,
    KIND_SYNC,
    KIND_SYNCED,
    KIND_REFUSE,
    KIND_CREDIT,
    KIND_FLUSH,
    KIND_FLUSHED,
    KIND_GAP,
    KIND_RECALL,
    KIND_REVOKE,
    KIND_RECALLED
};

#define NUMBER_MASK ((UINT64_C(1) << 56) - 1)

static uint64_t word(enum kind kind, uint64_t number)
{
    return (uint64_t)kind << 56 | (number & NUMBER_MASK);
}

uint64_t peach2_message_put(const struct put *put)
{
    return word(KIND_PUT, (uint64_t)put->channel << 32 | put->sequence);
}

/* ---- out ---- */

static bool message_to(struct peach2 *peach2, uint64_t address, uint64_t first, uint64_t second)
{
    const uint64_t words[2] = {first, second};
    if (!peach2->device.bar0 || peach2_window_room(peach2) < 2)
        return false;
    peach2_window_store(peach2, address, (const uint8_t *)words, sizeof(words));
    peach2_window_push(peach2);
    peach2_device_ring(&peach2->device);
    return true;
}

static bool send_to_node(struct peach2 *peach2, unsigned node, uint64_t first, uint64_t second)
{
    return message_to(peach2, peach2_global(node, PEACH2_INTERNAL | PEACH2_AT_MESSAGE), first,
                      second);
}

static bool message_sync(struct peach2 *peach2, const struct peer *peer)
{
    return message_to(peach2,
                      peach2_global(peer->address.node, PEACH2_INTERNAL | PEACH2_AT_RESTART),
                      word(KIND_SYNC, peach2->cookie), peer->address.cookie);
}

bool peach2_message_flush(struct peach2 *peach2, const struct peer *peer, uint64_t number)
{
    return send_to_node(peach2, peer->address.node, word(KIND_FLUSH, number), 0);
}

bool peach2_message_recall(struct peach2 *peach2, unsigned node, uint64_t number,
                           const struct span *span)
{
    return send_to_node(peach2, node, word(KIND_RECALL, number),
                        span->first / PAGE << 32 | (span->end - span->first) / PAGE);
}

bool peach2_message_revoke(struct peach2 *peach2, unsigned node, uint64_t number)
{
    return send_to_node(peach2, node, word(KIND_REVOKE, number), 0);
}

bool peach2_message_recalled(struct peach2 *peach2, unsigned node, uint64_t number, bool restart)
{
    const uint64_t at = PEACH2_INTERNAL | (restart ? PEACH2_AT_RESTART : PEACH2_AT_MESSAGE);
    return message_to(peach2, peach2_global(node, at), word(KIND_RECALLED, number), 0);
}

static uint64_t expected_of(const struct source *source)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        all |= (uint64_t)source->expected[i] << i * SEQUENCE_BITS;
    return all;
}

static unsigned send_to(struct peach2 *peach2, unsigned node)
{
    struct source *source = &peach2->sources[node];
    unsigned moved = 0;
    if (source->refuse && send_to_node(peach2, node, word(KIND_REFUSE, 0), source->reply_epoch)) {
        source->refuse = false;
        moved++;
    }
    if (source->reply &&
        send_to_node(peach2, node, word(KIND_SYNCED, expected_of(source)), source->reply_epoch)) {
        source->reply = false;
        moved++;
    }
    if (credits_due(&source->credits, CREDIT_EVERY, UINT64_MAX) &&
        send_to_node(peach2, node, word(KIND_CREDIT, source->credits.counted), source->epoch)) {
        credits_reported(&source->credits);
        moved++;
    }
    if (source->gap && send_to_node(peach2, node, word(KIND_GAP, 0), source->epoch)) {
        source->gap = false;
        moved++;
    }
    if (source->flushed &&
        send_to_node(peach2, node, word(KIND_FLUSHED, source->flush_number), 0)) {
        source->flushed = false;
        moved++;
    }
    return moved + peach2_recalled_send(peach2, node);
}

unsigned peach2_messages_send(struct peach2 *peach2)
{
    unsigned moved = 0;
    for (unsigned node = 0; node < peach2->topology.nodes; node++)
        moved += send_to(peach2, node);
    for (struct peer *peer = peach2->peers; peer; peer = peer->next) {
        if (!peer->request || peach2->exits[peer->address.node] == PEACH2_DISCARD ||
            !message_sync(peach2, peer))
            continue;
        peer->request = false;
        moved++;
    }
    return moved;
}

/* ---- in ---- */

static void take_put(struct peach2 *peach2, struct source *source, unsigned node, uint64_t number,
                     uint64_t id)
{
    uint32_t *expected = &source->expected[(number >> 32) % PEACH2_CHANNELS];
    if ((uint32_t)number != *expected)
        return; /* a duplicate */
    *expected = (*expected + 1) & SEQUENCE_MASK;
    credits_count(&source->credits, 0);
    const struct landing *landing =
        landings_find(&peach2->landings, (uint32_t)id, (uint32_t)(id >> 32));
    if (landing && landing->notify && landing->nodes & UINT32_C(1) << node)
        peach2->driver.events.notified(peach2->driver.events.context, landing->token);
}

static void take_sync(struct peach2 *peach2, struct source *source, unsigned node, uint64_t cookie,
                      uint64_t whom, uint64_t epoch)
{
    if (epoch < source->epoch)
        return;
    source->reply_epoch = epoch;
    source->refuse = whom != peach2->cookie;
    source->reply = !source->refuse && peach2_recall_admit(peach2, node);
    if (source->refuse || epoch == source->epoch)
        return;
    if (source->cookie != cookie)
        memset(source->expected, 0, sizeof(source->expected));
    source->cookie = cookie;
    source->epoch = epoch;
    source->credits = (struct credits){0};
    if (peach2->device.bar0)
        atomic_store(&peach2->device.bar0->accept_epoch[node], epoch);
}

static void take_synced(struct peach2 *peach2, unsigned node, uint64_t all, uint64_t epoch)
{
    uint32_t expected[PEACH2_CHANNELS];
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        expected[i] = (uint32_t)(all >> i * SEQUENCE_BITS) & SEQUENCE_MASK;
    peach2_peer_synced(peach2, node, epoch, expected);
}

static void take(struct peach2 *peach2, unsigned node, const struct peach2_notification *entry)
{
    struct source *source = &peach2->sources[node];
    const uint64_t number = entry->notify[0] & NUMBER_MASK;
    switch ((enum kind)(entry->notify[0] >> 56)) {
    case KIND_PUT:
        if (entry->epoch >= source->epoch && source->epoch > 0)
            take_put(peach2, source, node, number, entry->notify[1]);
        break;
    case KIND_SYNC:
        take_sync(peach2, source, node, number, entry->notify[1], entry->epoch);
        break;
    case KIND_SYNCED:
        take_synced(peach2, node, number, entry->notify[1]);
        break;
    case KIND_REFUSE:
        peach2_peer_synced(peach2, node, entry->notify[1], NULL);
        break;
    case KIND_CREDIT:
        peach2_peer_credited(peach2, node, entry->notify[1], (uint32_t)number);
        break;
    case KIND_FLUSH:
        source->flush_number = number;
        source->flushed = true;
        break;
    case KIND_FLUSHED:
        peach2_peer_flushed(peach2, node, number);
        break;
    case KIND_GAP:
        peach2_peer_gap(peach2, node, entry->notify[1]);
        break;
    case KIND_RECALL:
        peach2_recalled_take(peach2, node, number, entry->notify[1]);
        break;
    case KIND_REVOKE:
        peach2_recalled_revoke(peach2, node, number);
        break;
    case KIND_RECALLED:
        peach2_recall_confirmed(peach2, node, number);
        break;
    }
}

static unsigned take_ring(struct peach2 *peach2, unsigned node)
{
    struct source *source = &peach2->sources[node];
    const struct peach2_notification *ring = peach2->rings + node * RING_ENTRIES;
    unsigned moved = 0;
    for (;; moved++) {
        const struct peach2_notification *entry = &ring[source->head % RING_ENTRIES];
        /* acquire: pairs with the board's release; the entry and all data before it are visible */
        if (atomic_load_explicit(&entry->serial, memory_order_acquire) != source->head + 1)
            break;
        const struct peach2_notification copy = {.notify = {entry->notify[0], entry->notify[1]},
                                                 .epoch = entry->epoch,
                                                 .node = entry->node,
                                                 .port = entry->port};
        source->head++;
        take(peach2, node, &copy);
    }
    if (moved > 0 && peach2->device.bar0)
        atomic_store_explicit(&peach2->device.bar0->notify_taken[node], source->head,
                              memory_order_release);
    return moved;
}

unsigned peach2_messages_take(struct peach2 *peach2)
{
    unsigned moved = 0;
    for (unsigned node = 0; node < peach2->topology.nodes; node++)
        moved += take_ring(peach2, node);
    return moved;
}
