#include "drivers/shm/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/notify.h"

void lane_init(struct lane *lane, struct lane_segment *segment, enum lane_drainer self)
{
    *lane = (struct lane){.segment = segment, .self = self};
    if (self == LANE_RECEIVER) /* it may meet a lane that is in use: its process, or the library, is new there */
        lane->next = atomic_load_explicit(&segment->head, memory_order_relaxed);
}

void lane_deinit(struct lane *lane)
{
    free(lane->puts);
    lane->puts = NULL;
    lane->put_room = 0;
}

int lane_add(struct lane *lane, struct lane_put *put)
{
    uint32_t place = put->id % LANE_PUTS_MAX;
    if (put->id == 0)
        return -EINVAL;
    if (place >= lane->put_room) {
        uint32_t room = lane->put_room ? lane->put_room : 8;
        while (room <= place)
            room *= 2;
        struct lane_put **puts = reallocarray(lane->puts, room, sizeof *puts);
        if (!puts)
            return -ENOMEM;
        memset(puts + lane->put_room, 0, (room - lane->put_room) * sizeof *puts);
        lane->puts = puts;
        lane->put_room = room;
    }
    if (lane->puts[place])
        return -EEXIST;
    lane->puts[place] = put;
    if ((int32_t)(put->id - lane->newest) > 0)
        lane->newest = put->id;
    return 0;
}

void lane_remove(struct lane *lane, const struct lane_put *put)
{
    uint32_t place = put->id % LANE_PUTS_MAX;
    if (place < lane->put_room && lane->puts[place] == put)
        lane->puts[place] = NULL;
}

/* Does the work of an entry, our own copy of it. What is wrong in itself is passed over. */
static int land(const struct lane *lane, const struct lane_entry *entry, const uint8_t *slot)
{
    uint32_t place = entry->put % LANE_PUTS_MAX;
    const struct lane_put *put = place < lane->put_room ? lane->puts[place] : NULL;
    if (!put || put->id != entry->put)
        return (int32_t)(entry->put - lane->newest) > 0 ? -ENOENT : 0;
    if (entry->position_bytes > put->size_bytes || entry->length_bytes > put->size_bytes - entry->position_bytes)
        return 0;
    if (entry->kind == LANE_DIRECT)
        copy_program_run(put->program, put->target, put->source, entry->position_bytes, entry->length_bytes);
    else if (entry->kind == LANE_STAGED && entry->length_bytes <= LANE_SLOT_BYTES)
        copy_program_unpack(put->program, put->target, slot, entry->position_bytes, entry->length_bytes);
    return 0;
}

int lane_drain_one(struct lane *lane)
{
    struct lane_segment *segment = lane->segment;
    uint32_t nobody = LANE_NOBODY;
    /* acquire: what the last drainer has written */
    if (!atomic_compare_exchange_strong_explicit(&segment->drainer, &nobody, (uint32_t)lane->self, memory_order_acquire,
                                                 memory_order_relaxed))
        return -EAGAIN;
    uint64_t head = atomic_load_explicit(&segment->head, memory_order_relaxed); /* the lock orders it */
    const struct lane_entry *shared = &segment->entries[head % LANE_ENTRIES];
    int r = 0;
    if (atomic_load_explicit(&shared->sequence, memory_order_acquire) == head + 1) { /* as in lane_pending() */
        struct lane_entry entry = {.put = shared->put,
                                   .kind = shared->kind,
                                   .position_bytes = shared->position_bytes,
                                   .length_bytes = shared->length_bytes};
        r = land(lane, &entry, segment->slots[head % LANE_ENTRIES]);
        if (r == 0) {
            /* release: pairs with lane_backlog() */
            atomic_store_explicit(&segment->head, ++head, memory_order_release);
            r = 1;
        }
    }
    if (lane->self == LANE_RECEIVER)
        lane->next = head;
    atomic_store_explicit(&segment->drainer, LANE_NOBODY, memory_order_release);
    if (lane->self == LANE_SENDER)
        notify_wake(lane->receiver); /* it may have found us at work, and have gone to sleep */
    return r;
}

int lane_drain(struct lane *lane)
{
    for (unsigned i = 0; i <= LANE_ENTRIES; i++) {
        int r = lane_drain_one(lane);
        if (r <= 0)
            return r;
        if (lane->self == LANE_RECEIVER && !lane_pending(lane))
            return 0;
    }
    return -EAGAIN; /* a sender that is as fast as we are: others have their turn first */
}
