/* The places for our notices at other processes: their keys and counts. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/compat/program.h"

struct sent {
    uint64_t key;
    uint64_t count;
    uint64_t doubts; /* as reported to the receiver */
    uint64_t failed; /* the last so many of `count` belong to a failed start */
    uint64_t chain;  /* of that start */
    uint64_t tried;  /* the highest count used by a failed start */
    uint32_t users;  /* programs that use the place */
};

struct outbox {
    struct sent *places;
    uint32_t used, room;
};
static struct outbox *outboxes; /* by rank */

static struct outbox *outbox_of(uint32_t rank)
{
    if (!outboxes)
        outboxes = calloc(compat.size, sizeof(*outboxes));
    return outboxes ? &outboxes[rank] : NULL;
}

static bool grow(struct outbox *outbox)
{
    if (outbox->used < outbox->room)
        return true;
    uint32_t room = outbox->room ? 2 * outbox->room : 16;
    struct sent *places = realloc(outbox->places, room * sizeof(*places));
    if (!places)
        return false;
    outbox->places = places;
    outbox->room = room;
    return true;
}

/* Finds a place that no program uses and whose notices the receiver has all taken. A partly written
 * word of the receiver cannot mislead, because counts only grow. */
static bool reuse(struct outbox *outbox, uint32_t rank, uint64_t key, uint32_t *ret_index)
{
    const _Atomic uint64_t *taken = taken_at(rank);
    for (uint32_t i = 0; i < outbox->used; i++) {
        struct sent *sent = &outbox->places[i];
        if (sent->users == 0 &&
            sent->count == atomic_load_explicit(&taken[i], memory_order_relaxed)) {
            sent->key = key;
            *ret_index = i;
            return true;
        }
    }
    return false;
}

/* Waits until the receiver reports that a place is free. */
static tcaresult wait_for_reuse(struct outbox *outbox, uint32_t rank, uint64_t key,
                                uint32_t *ret_index)
{
    while (!reuse(outbox, rank, key, ret_index)) {
        if (programs_trim())
            continue;
        int r = tca_notified_wait(compat.session, rank, NOTIFY_TAKEN, TCA_DEFAULT);
        if (r == -ETIMEDOUT)
            return compat_fail(
                TCA_ERROR_OUT_OF_MEMORY,
                "process %u has not waited for notifications with %u different slots and tags "
                "from this process: there is no room for more",
                rank, outbox->used);
        if (r < 0)
            return compat_fail_errno(r, "waiting for room for a notification");
    }
    return TCA_SUCCESS;
}

static bool find(const struct outbox *outbox, uint64_t key, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < outbox->used; i++)
        if (outbox->places[i].key == key) {
            *ret_index = i;
            return true;
        }
    return false;
}

tcaresult place_take(uint32_t rank, int channel, int slot, int tag, struct place *ret_place)
{
    const uint64_t key = notice_key(channel, slot, tag);
    struct outbox *outbox = outbox_of(rank);
    uint32_t index = 0;
    if (!outbox || !grow(outbox))
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "out of memory for notifications to process %u",
                           rank);
    if (!find(outbox, key, &index)) {
        if (outbox->used < notices_per_process()) {
            index = outbox->used++;
            outbox->places[index] = (struct sent){.key = key};
        } else {
            tcaresult result = wait_for_reuse(outbox, rank, key, &index);
            if (result != TCA_SUCCESS)
                return result;
        }
    }
    outbox->places[index].users++;
    *ret_place = (struct place){.rank = rank, .index = index};
    return TCA_SUCCESS;
}

static struct sent *sent_at(struct place place)
{
    return &outboxes[place.rank].places[place.index];
}

void place_give(struct place place)
{
    sent_at(place)->users--;
}

struct tca_handle place_target(struct place place, uint64_t *ret_offset_bytes)
{
    *ret_offset_bytes =
        ((uint64_t)compat.rank * notices_per_process() + place.index) * sizeof(struct notice);
    return notices_at(place.rank);
}

void place_begin(struct place place, uint64_t chain)
{
    struct sent *sent = sent_at(place);
    if (sent->chain == chain)
        sent->count -= sent->failed;
    else
        sent->doubts += sent->failed;
    sent->failed = 0;
}

struct notice place_next(struct place place)
{
    struct sent *sent = sent_at(place);
    uint64_t count = ++sent->count;
    return (struct notice){.key = sent->key,
                           .count = count,
                           .check = notice_check(sent->key, count, sent->doubts),
                           .doubts = sent->doubts};
}

void place_doubt(struct place place, uint64_t chain)
{
    struct sent *sent = sent_at(place);
    sent->chain = chain;
    sent->tried = sent->count;
    sent->failed++;
}

void place_undo(struct place place)
{
    struct sent *sent = sent_at(place);
    if (sent->count > sent->tried)
        sent->count--;
    else /* it repeated a notice that may have arrived */
        sent->failed++;
}
