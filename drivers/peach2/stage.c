/*
 * Staged puts, for layouts that violate the hardware's alignment. Runs of the target are gathered
 * into segments of matching phase and put from there. Unaligned bytes at their ends, and short
 * unaligned runs, are stored through the window.
 */
#include <string.h>

#include "drivers/peach2/peach2.h"

/* A run of the target, split into an aligned body and its ends. */
struct cut {
    uint32_t head, body, tail;
};

static struct cut cut_run(uint64_t address, uint32_t bytes)
{
    uint32_t head = (uint32_t)(-address % PEACH2_ALIGN);
    if (head > bytes)
        head = bytes;
    uint32_t tail = (bytes - head) % PEACH2_ALIGN;
    uint32_t body = bytes - head - tail;
    if (body < STAGE_BODY_MIN && body < bytes)
        return (struct cut){.head = bytes};
    return (struct cut){.head = head, .body = body, .tail = tail};
}

/* The packed position in the target at which the start ends. */
static uint64_t target_end(const struct put *put)
{
    return put->target_at_bytes + put->size_bytes;
}

/* The next run, at most BURST_BYTES. A longer run is split at an aligned address. */
static bool next_run(struct put *put, int64_t *ret_offset, uint32_t *ret_bytes)
{
    const struct layout_cursor before = put->target_cursor;
    const uint64_t left = target_end(put) - before.position_bytes;
    uint64_t bytes;
    if (!layout_cursor_next(&put->target_cursor, left < BURST_BYTES ? left : BURST_BYTES,
                            ret_offset, &bytes))
        return false;
    uint32_t over = (uint32_t)((put->target + (uint64_t)*ret_offset + bytes) % PEACH2_ALIGN);
    if (bytes == BURST_BYTES && over > 0) {
        put->target_cursor = before;
        layout_cursor_next(&put->target_cursor, BURST_BYTES - over, ret_offset, &bytes);
    }
    *ret_bytes = (uint32_t)bytes;
    return true;
}

static void stage_begin(struct put *put)
{
    layout_cursor_init(&put->source_cursor, put->source_layout, put->source_at_bytes);
    layout_cursor_init(&put->target_cursor, put->target_layout, put->target_at_bytes);
    put->staging = true;
}

bool peach2_stage_uses_window(const struct put *put, uint32_t segment_bytes,
                              uint32_t *ret_descriptors)
{
    struct layout_cursor cursor;
    int64_t offset;
    uint64_t bytes;
    bool window = false;
    *ret_descriptors = (uint32_t)(put->target_layout->size_bytes / segment_bytes + 1);
    layout_cursor_init(&cursor, put->target_layout, 0);
    while (!window && layout_cursor_next(&cursor, BURST_BYTES, &offset, &bytes)) {
        struct cut cut = cut_run(put->target + (uint64_t)offset, (uint32_t)bytes);
        window = cut.head > 0 || cut.tail > 0;
    }
    return window;
}

static void gather(struct put *put, uint8_t *to, uint32_t bytes)
{
    while (bytes > 0) {
        int64_t offset;
        uint64_t piece;
        if (!layout_cursor_next(&put->source_cursor, bytes, &offset, &piece))
            return;
        memcpy(to, put->source + offset, piece);
        to += piece;
        bytes -= (uint32_t)piece;
    }
}

static void through_window(struct peach2 *peach2, struct put *put, uint64_t address, uint32_t bytes)
{
    uint8_t buffer[BURST_BYTES];
    if (bytes == 0)
        return;
    gather(put, buffer, bytes);
    peach2_window_store(peach2, address, buffer, bytes);
}

/* The index of a free segment, or -1. */
static int free_piece(struct peach2 *peach2)
{
    for (int i = 0; i < SEGMENTS; i++) {
        struct piece *piece = &peach2->pieces[i];
        if (piece->busy && (int32_t)(peach2->channels[piece->channel].sent - piece->command) >= 0)
            piece->busy = false;
        if (!piece->busy)
            return i;
    }
    return -1;
}

struct work { /* on one segment */
    uint8_t *memory;
    uint64_t bus;
    uint32_t filled, size;
    struct builder builder;
};

/* Fills the segment until it or the window is full (false), or the put ends (true). */
static bool fill(struct peach2 *peach2, struct put *put, struct work *work)
{
    while (put->target_cursor.position_bytes < target_end(put)) {
        int64_t offset;
        uint32_t bytes;
        if (work->filled + BURST_BYTES + PEACH2_PHASE > work->size ||
            work->builder.count + 1 >= work->builder.max ||
            peach2_window_room(peach2) < BURST_LINES)
            return false;
        if (!next_run(put, &offset, &bytes))
            return true;
        uint64_t address = put->target + (uint64_t)offset;
        struct cut cut = cut_run(address, bytes);
        through_window(peach2, put, address, cut.head);
        if (cut.body == 0)
            continue;
        work->filled += (uint32_t)((address + cut.head - work->filled) % PEACH2_PHASE);
        gather(put, work->memory + work->filled, cut.body);
        peach2_builder_add(&work->builder, work->bus + work->filled, address + cut.head, cut.body);
        work->filled += cut.body;
        through_window(peach2, put, address + cut.head + cut.body, cut.tail);
    }
    return true;
}

/* Issues a command for the segment. At the end of the put, adds a descriptor that notifies. */
static void hand_over(struct peach2 *peach2, struct put *put, struct piece *piece,
                      struct work *work, bool end)
{
    struct builder *builder = &work->builder;
    if (end)
        builder->descriptors[builder->count++] = (struct peach2_descriptor){
            .destination = peach2_global(put->peer->address.node, 0),
            .flags = PEACH2_NOTIFY | PEACH2_ACKNOWLEDGE | (put->notify ? 0 : PEACH2_QUIET),
            .notify = {peach2_message_put(put), put->id},
        };
    const uint64_t first =
        peach2->arena_bus + (uint64_t)((uint8_t *)builder->descriptors - peach2->arena);
    for (uint32_t i = 0; i < builder->count; i++)
        builder->descriptors[i].next = first + (i + 1) * sizeof(builder->descriptors[0]);
    builder->descriptors[builder->count - 1].flags |= PEACH2_END;
    peach2_channel_command(peach2, put, PEACH2_FETCH_HOST, first);
    *piece = (struct piece){
        .busy = true, .command = stream_of(put)->last_command, .channel = put->channel};
}

enum stage_result peach2_stage_run(struct peach2 *peach2, struct put *put)
{
    const struct channel *channel = &peach2->channels[put->channel];
    int index = free_piece(peach2);
    if (index < 0 || !peach2_channel_room(channel) || peach2_window_room(peach2) < BURST_LINES)
        return STAGE_BLOCKED;
    /* A store through the window would overtake earlier chains that have not been sent yet. */
    if (!put->staging && put->window && (int32_t)(channel->sent - stream_of(put)->last_command) < 0)
        return STAGE_BLOCKED;
    if (!put->staging)
        stage_begin(put);
    struct work work = {
        .memory = peach2->segments + (uint64_t)index * peach2->segment_bytes,
        .size = peach2->segment_bytes,
        .builder = {.descriptors = peach2->segment_descriptors + index * SEGMENT_DESCRIPTORS,
                    .max = SEGMENT_DESCRIPTORS},
    };
    work.bus = peach2->arena_bus + (uint64_t)(work.memory - peach2->arena);
    bool end = fill(peach2, put, &work);
    peach2_window_push(peach2);
    if (end || work.builder.count > 0)
        hand_over(peach2, put, &peach2->pieces[index], &work, end);
    else
        peach2_device_ring(&peach2->device);
    put->staging = !end;
    return end ? STAGE_END : STAGE_MOVED;
}
