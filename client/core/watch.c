#include "client/core/watch.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/notify.h"

enum { ROOM_MIN = 64 };

void watch_queue(struct watches *watches, uint32_t line)
{
    struct watched_line *last = &watches->lines[line];
    struct watch *watch = last->watch;
    if (!watch || last->queued)
        return;
    last->queued = true;
    *(watch->queued++ ? &watches->lines[watch->last].next : &watch->first) = line;
    watch->last = line;
}

uint32_t watch_take(struct watches *watches, struct watch *watch)
{
    const uint32_t line = watch->first;
    watches->lines[line].queued = false;
    watch->first = watches->lines[line].next;
    watch->queued--;
    return line;
}

/* From here on those who raise it mark it. They may have raised it before: it is looked at once. */
static void watches_add(struct watches *watches, struct notify_segment *segment, uint32_t line,
                        struct watch *watch)
{
    watches->lines[line].watch = watch;
    notify_watch(notify_line_at(segment, line), NOTIFY_OWNER);
    watch_queue(watches, line);
}

static struct watch *find(const struct watches *watches, uint32_t slot)
{
    struct watch *watch = watches->slots;
    while (watch && watch->slot != slot)
        watch = watch->next;
    return watch;
}

/* Peers can write all of the segment, so what it says is copied once. */
static int add_lines(struct watches *watches, struct notify_segment *segment, uint32_t count)
{
    if (count > watches->room) {
        uint32_t room = watches->room ? watches->room : ROOM_MIN;
        while (room < count)
            room *= 2;
        struct watched_line *lines = reallocarray(watches->lines, room, sizeof(*lines));
        if (!lines)
            return -ENOMEM;
        watches->lines = lines;
        watches->room = room;
    }
    while (watches->count < count) {
        const uint32_t line = watches->count++;
        const uint64_t key =
            atomic_load_explicit(&notify_line_at(segment, line)->key, memory_order_relaxed);
        watches->lines[line] =
            (struct watched_line){.rank = (uint32_t)(key >> 32), .slot = (uint32_t)key};
        struct watch *watch = find(watches, (uint32_t)key);
        if (watch)
            watches_add(watches, segment, line, watch);
    }
    return 0;
}

static void take_marks(struct watches *watches, _Atomic uint64_t *marks, uint32_t first)
{
    for (uint64_t bits = atomic_exchange(marks, 0); bits; bits &= bits - 1) {
        const uint32_t line = first + (uint32_t)__builtin_ctzll(bits);
        if (line < watches->count)
            watch_queue(watches, line);
    }
}

int watches_update(struct watches *watches, struct notify_segment *segment)
{
    enum { LINES_PER_WORD = NOTIFY_MARK_BITS * NOTIFY_MARK_BITS };
    struct notify_marks *marks = notify_marks(segment, NOTIFY_OWNER);
    /* acquire: pairs with the release in lines_add(): the keys of these are there */
    const uint32_t count = atomic_load_explicit(&segment->line_count, memory_order_acquire);
    if (count > watches->count && count <= NOTIFY_LINES_MAX) {
        int r = add_lines(watches, segment, count);
        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i * LINES_PER_WORD < watches->count; i++) {
        if (atomic_load_explicit(&marks->words[i], memory_order_relaxed) == 0)
            continue;
        for (uint64_t bits = atomic_exchange(&marks->words[i], 0); bits; bits &= bits - 1) {
            const uint32_t word = i * NOTIFY_MARK_BITS + (uint32_t)__builtin_ctzll(bits);
            take_marks(watches, &marks->lines[word], word * NOTIFY_MARK_BITS);
        }
    }
    return 0;
}

static void to_front(struct watches *watches, struct watch *watch)
{
    struct watch **at = &watches->slots;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    watch->next = watches->slots;
    watches->slots = watch;
}

int watches_find(struct watches *watches, struct notify_segment *segment, uint32_t slot,
                 struct watch **ret_watch)
{
    struct watch *watch = find(watches, slot);
    if (!watch) {
        watch = malloc(sizeof(*watch));
        if (!watch)
            return -ENOMEM;
        *watch = (struct watch){.slot = slot, .next = watches->slots};
        watches->slots = watch;
        for (uint32_t line = 0; line < watches->count; line++)
            if (watches->lines[line].slot == slot)
                watches_add(watches, segment, line, watch);
    }
    to_front(watches, watch);
    *ret_watch = watch;
    return 0;
}

void watches_end(struct watches *watches)
{
    while (watches->slots) {
        struct watch *watch = watches->slots;
        watches->slots = watch->next;
        free(watch);
    }
    free(watches->lines);
}
