/* The four channels: run commands in order and split descriptors into packets. */

#include "tools/tca-board/board.h"

static struct peach2_channel *registers(struct board *board, unsigned index)
{
    return &board->bar0->channels[index];
}

static void stop(struct board *board, unsigned index, int error)
{
    struct channel *channel = &board->channels[index];
    channel->stopped = true;
    channel->running = false;
    atomic_store(&registers(board, index)->error_at, channel->at);
    atomic_store(&registers(board, index)->error, (uint32_t)error);
    board_cause(board, PEACH2_CAUSE_ERROR << index);
}

void channel_reset(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    uint32_t start = atomic_load_explicit(&registers(board, index)->start, memory_order_acquire);
    *channel = (struct channel){
        .start = start, .begun = start, .sent = start, .done = start, .packets = channel->packets};
    atomic_store(&registers(board, index)->error, 0);
    atomic_store(&registers(board, index)->error_at, 0);
    atomic_store(&registers(board, index)->sent, start);
    atomic_store(&registers(board, index)->done, start);
}

static void retire(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    uint32_t before = channel->done;
    while (channel->done != channel->begun) {
        const struct start *oldest = &channel->starts[channel->done % PEACH2_COMMANDS];
        if (!oldest->sent || oldest->acks_left > 0)
            break;
        channel->done++;
    }
    if (channel->done == before)
        return;
    atomic_store_explicit(&registers(board, index)->done, channel->done, memory_order_release);
    board_cause(board, PEACH2_CAUSE_DONE << index);
}

static uint64_t tag_of(const struct board *board, unsigned index)
{
    return (uint64_t)board->boot << 32 | index << 16 |
           ((board->channels[index].begun - 1) & 0xffff);
}

/* The tag is untrusted: it can be from before a restart, of an aborted command, or invalid. */
void channel_acknowledged(struct board *board, uint64_t tag)
{
    unsigned index = (unsigned)(tag >> 16) & 0xffff;
    if (tag >> 32 != board->boot || index >= PEACH2_CHANNELS)
        return;
    struct channel *channel = &board->channels[index];
    uint16_t ahead = (uint16_t)((uint16_t)tag - (uint16_t)channel->done);
    struct start *start = &channel->starts[(channel->done + ahead) % PEACH2_COMMANDS];
    if (ahead >= channel->begun - channel->done || start->acks_left == 0)
        return;
    start->acks_left--;
    retire(board, index);
}

/* Starts the next command; false: there is none, or it may not start yet. */
static bool begin(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    /* acquire: pairs with the driver's release; the command, and earlier lines of BAR 2, are
     * complete */
    uint32_t start = atomic_load_explicit(&registers(board, index)->start, memory_order_acquire);
    if (start != channel->start) {
        channel->start = start;
        channel->pio_goal = atomic_load_explicit(&board->bar2->tail, memory_order_acquire);
    }
    if (channel->begun == start)
        return false;
    if (start - channel->done > PEACH2_COMMANDS) {
        stop(board, index, PEACH2_BAD_START);
        return false;
    }
    if ((int32_t)(channel->pio_goal - board->pio_head) > 0)
        return false;
    struct peach2_command command =
        registers(board, index)->commands[channel->begun % PEACH2_COMMANDS];
    channel->starts[channel->begun % PEACH2_COMMANDS] = (struct start){0};
    channel->begun++;
    channel->fetch = command.fetch;
    channel->at = command.first;
    channel->links = 0;
    channel->loaded = false;
    channel->running = true;
    return true;
}

static bool send(struct board *board, unsigned index, struct packet_header *header,
                 const uint8_t *payload, bool last)
{
    struct channel *channel = &board->channels[index];
    bool acknowledge = last && (channel->descriptor.flags & PEACH2_ACKNOWLEDGE);
    if (acknowledge) {
        header->flags |= PACKET_ACKNOWLEDGE;
        header->tag = tag_of(board, index);
    }
    if (!board_emit(board, header, payload))
        return false;
    channel->packets++;
    if (acknowledge)
        channel->starts[(channel->begun - 1) % PEACH2_COMMANDS].acks_left++;
    return true;
}

static void advance(struct channel *channel, uint32_t bytes)
{
    const struct peach2_descriptor *descriptor = &channel->descriptor;
    channel->moved_bytes += bytes;
    channel->source += bytes;
    channel->destination += bytes;
    channel->block_left -= bytes;
    if (channel->block_left > 0)
        return;
    channel->source += (uint64_t)(int64_t)descriptor->source_gap;
    channel->destination += (uint64_t)(int64_t)descriptor->destination_gap;
    channel->block_left = descriptor->block;
}

/* Sends the next packet of data. 1 (sent), 0 (try again later) or negative: -enum peach2_error. */
static int send_data(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    uint32_t bytes = PEACH2_PAYLOAD_MAX - (uint32_t)(channel->destination % PEACH2_PAYLOAD_MAX);
    if (bytes > channel->block_left)
        bytes = channel->block_left;
    const uint8_t *from = board_memory(board, channel->source, bytes, false);
    if (!from)
        return -PEACH2_BAD_SOURCE;
    if ((channel->destination ^ channel->descriptor.destination) & ~PEACH2_OFFSET_MASK)
        return -PEACH2_BAD_DESTINATION; /* a gap crosses into another node's window */
    struct packet_header header = {.address = channel->destination, .length = (uint16_t)bytes};
    bool last = channel->moved_bytes + bytes == channel->descriptor.length;
    if (!send(board, index, &header, from, last && !(channel->descriptor.flags & PEACH2_NOTIFY)))
        return 0;
    if (last)
        channel->notified = !(channel->descriptor.flags & PEACH2_NOTIFY);
    advance(channel, bytes);
    return 1;
}

/* Sends the notification or the acknowledgement request after the data, if any. */
static int send_end(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    const struct peach2_descriptor *descriptor = &channel->descriptor;
    struct packet_header header = {.address = descriptor->destination};
    if (descriptor->flags & PEACH2_NOTIFY) {
        header.address =
            (descriptor->destination & ~PEACH2_OFFSET_MASK) | PEACH2_INTERNAL | PEACH2_AT_NOTIFY;
        header.length = sizeof(descriptor->notify);
        header.flags = descriptor->flags & PEACH2_QUIET ? PACKET_QUIET : 0;
    } else if (!(descriptor->flags & PEACH2_ACKNOWLEDGE)) {
        channel->notified = true;
        return 1;
    }
    if (!send(board, index, &header, (const uint8_t *)descriptor->notify, true))
        return 0;
    channel->notified = true;
    return 1;
}

static void next_descriptor(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    channel->loaded = false;
    channel->at = channel->descriptor.next;
    if (!(channel->descriptor.flags & PEACH2_END))
        return;
    channel->running = false;
    channel->starts[(channel->begun - 1) % PEACH2_COMMANDS].sent = true;
    channel->sent = channel->begun;
    atomic_store_explicit(&registers(board, index)->sent, channel->sent, memory_order_release);
    retire(board, index);
}

/* Advances a command by one packet. 1, 0 (try again later) or negative: -enum peach2_error. */
static int step(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    if (!channel->loaded) {
        int error = descriptor_load(board, index);
        if (error != 0)
            return -error;
    }
    int r = channel->moved_bytes < channel->descriptor.length ? send_data(board, index)
            : channel->notified                               ? 1
                                                              : send_end(board, index);
    if (r > 0 && channel->moved_bytes == channel->descriptor.length && channel->notified)
        next_descriptor(board, index);
    return r;
}

unsigned channel_run(struct board *board, unsigned index)
{
    struct channel *channel = &board->channels[index];
    if (atomic_load_explicit(&registers(board, index)->control, memory_order_acquire) &
        PEACH2_ABORT) {
        channel_reset(board, index);
        atomic_store_explicit(&registers(board, index)->control, 0, memory_order_release);
        board_cause(board, PEACH2_CAUSE_DONE << index);
        return 1;
    }
    if (channel->stopped)
        return 0;
    unsigned moved = 0;
    while (moved < BOARD_BURST && (channel->running || begin(board, index))) {
        int r = step(board, index);
        if (r < 0)
            stop(board, index, -r);
        if (r <= 0)
            break;
        moved++;
    }
    if (moved > 0)
        atomic_store_explicit(&registers(board, index)->packets, channel->packets,
                              memory_order_relaxed);
    return moved;
}
