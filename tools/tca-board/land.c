/* Delivers packets for this node: memory, notification rings, acknowledgements. Never waits. */
#include <string.h>

#include "tools/tca-board/board.h"

static void set_broken(struct board *board, unsigned node, bool broken)
{
    board->broken[node] = broken;
    if (broken)
        atomic_fetch_or(&board->bar0->broken, 1u << node);
    else
        atomic_fetch_and(&board->bar0->broken, ~(1u << node));
}

/* Appends a notification. False: it is lost, and must not be acknowledged. */
static bool notify(struct board *board, const struct packet_header *header, const uint8_t *payload,
                   unsigned in, bool restart)
{
    if (header->length != 16 || header->node >= PEACH2_NODES) {
        board_discard(board, PEACH2_CAUSE_MALFORMED);
        return false;
    }
    unsigned node = header->node;
    const uint64_t ring_bytes =
        (uint64_t)board->notify_entries * sizeof(struct peach2_notification);
    uint32_t serial = board->notify_serial[node];
    uint32_t unread =
        serial - atomic_load_explicit(&board->bar0->notify_taken[node], memory_order_acquire);
    if (board->notify_entries == 0 || unread >= board->notify_entries) {
        set_broken(board, node, true);
        board_discard(board, PEACH2_CAUSE_OVERRUN | PEACH2_CAUSE_GAP);
        return false;
    }
    uint64_t at = board->notify_base + node * ring_bytes +
                  (serial & (board->notify_entries - 1)) * sizeof(struct peach2_notification);
    uint8_t *memory =
        at % 32 == 0 ? board_memory(board, at, sizeof(struct peach2_notification), true) : NULL;
    if (!memory) {
        board_discard(board, PEACH2_CAUSE_UNMAPPED);
        return false;
    }
    struct peach2_notification *entry = (struct peach2_notification *)memory;
    memmove(entry->notify, payload, 16);
    entry->epoch = header->epoch;
    entry->node = header->node;
    entry->port = (uint8_t)in;
    entry->restart = restart;
    board->notify_serial[node] = ++serial;
    /* release: pairs with the driver's acquire; the entry and all data before it are visible */
    atomic_store_explicit(&entry->serial, serial, memory_order_release);
    if (!(header->flags & PACKET_QUIET) || unread >= board->notify_entries / 2)
        board_cause(board, PEACH2_CAUSE_NOTIFY);
    return true;
}

static void put(struct board *board, uint64_t bus, const struct packet_header *header,
                const uint8_t *payload)
{
    uint8_t *memory = board_memory(board, bus, header->length, true);
    if (memory)
        memmove(memory, payload, header->length); /* in a put to this node, they may overlap */
    else
        board_discard(board, PEACH2_CAUSE_UNMAPPED);
}

/* Queues an acknowledgement for the board that created the packet. */
static void acknowledge(struct board *board, const struct packet_header *header)
{
    if (board->ack_count == BOARD_ACKS) {
        board_discard(board, PEACH2_CAUSE_OVERRUN);
        return;
    }
    board->acks[(board->ack_first + board->ack_count++) % BOARD_ACKS] =
        (struct ack){.tag = header->tag, .node = header->node};
}

static bool stale(struct board *board)
{
    atomic_fetch_add_explicit(&board->bar0->stale, 1, memory_order_relaxed);
    return false;
}

/* Whether to accept a packet: see accept_epoch. */
static bool due(struct board *board, const struct packet_header *header, bool restart)
{
    unsigned node = header->node;
    if (node >= PEACH2_NODES)
        return true;
    if (header->epoch <
        atomic_load_explicit(&board->bar0->accept_epoch[node], memory_order_relaxed))
        return stale(board);
    if (!board_counted(header->address))
        return true;
    if (restart) {
        board->number_due[node] = header->number;
        set_broken(board, node, false);
    }
    const bool admitted =
        restart || (atomic_load_explicit(&board->bar0->admitted, memory_order_relaxed) >> node & 1);
    int32_t ahead = (int32_t)(header->number - board->number_due[node]);
    const bool next = ahead == 0 && admitted;
    if (ahead >= 0 && !next && !board->broken[node]) {
        set_broken(board, node, true);
        board_cause(board, PEACH2_CAUSE_GAP);
    }
    if (!next || board->broken[node])
        return stale(board);
    board->number_due[node]++;
    return true;
}

void board_land(struct board *board, const struct packet_header *header, const uint8_t *payload,
                unsigned in)
{
    const uint64_t bus = header->address & PEACH2_OFFSET_MASK;
    const unsigned node = peach2_node_of(header->address);
    const bool restart = bus == (PEACH2_INTERNAL | PEACH2_AT_RESTART);
    if (node != board->node) { /* misrouted */
        board_discard(board, PEACH2_CAUSE_UNROUTED);
        return;
    }
    if (bus == (PEACH2_INTERNAL | PEACH2_AT_ACKNOWLEDGE)) { /* tags tell old ones apart */
        uint64_t tag = 0;
        if (header->length == sizeof(tag))
            memcpy(&tag, payload, sizeof(tag));
        channel_acknowledged(board, tag);
        return;
    }
    if (!due(board, header, restart))
        return;
    board->ports[PEACH2_N].packets_in++;
    board->ports[PEACH2_N].bytes_in += header->length;
    if (restart || bus == (PEACH2_INTERNAL | PEACH2_AT_NOTIFY) ||
        bus == (PEACH2_INTERNAL | PEACH2_AT_MESSAGE)) {
        if (!notify(board, header, payload, in, restart))
            return;
    } else if (header->length > 0) {
        put(board, bus, header, payload);
    }
    if (header->flags & PACKET_ACKNOWLEDGE)
        acknowledge(board, header);
}

static bool send_ack(struct board *board, const struct ack *ack)
{
    const struct packet_header header = {
        .address = peach2_global(ack->node, PEACH2_INTERNAL | PEACH2_AT_ACKNOWLEDGE),
        .length = sizeof(ack->tag),
        .node = (uint8_t)board->node,
        .hops = PEACH2_HOPS_MAX,
    };
    return board_send(board, &header, (const uint8_t *)&ack->tag, PEACH2_N, false);
}

unsigned acks_run(struct board *board)
{
    unsigned sent = 0;
    unsigned looks = board->ack_count < BOARD_BURST ? board->ack_count : BOARD_BURST;
    while (looks-- > 0) {
        struct ack ack = board->acks[board->ack_first];
        board->ack_first = (board->ack_first + 1) % BOARD_ACKS;
        if (send_ack(board, &ack)) {
            board->ack_count--;
            sent++;
        } else { /* order does not matter: a blocked acknowledgement does not delay the others */
            board->acks[(board->ack_first + board->ack_count - 1) % BOARD_ACKS] = ack;
        }
    }
    return sent;
}
