#include "daemon/sessions/lines.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/notify.h"

enum {
    ROOM_MIN = 16,
    FILL = 2, /* the table is at most 1/FILL full */
    THINNEST =
        8 * FILL, /* and, to separate keys that collide, at least 1/THINNEST, beyond its least
                            size */
};

static uint32_t place_of(const struct lines *lines, uint64_t hash, uint32_t probe)
{
    return (uint32_t)(hash + probe) & ((1u << lines->bits) - 1);
}

bool lines_find(const struct lines *lines, uint32_t rank, uint32_t slot, uint32_t *ret_line)
{
    const uint64_t key = notify_key(rank, slot), hash = notify_hash(key);
    for (uint32_t i = 0; lines->bits > 0 && i < NOTIFY_PROBES_MAX; i++) {
        const uint32_t line = lines->table[place_of(lines, hash, i)];
        if (line == 0)
            return false;
        if (lines->keys[line - 1] != key)
            continue;
        *ret_line = line - 1;
        return true;
    }
    return false;
}

/* False: too many others are in the way. */
static bool insert(struct lines *lines, uint32_t line, uint32_t *ret_at)
{
    const uint64_t hash = notify_hash(lines->keys[line]);
    for (uint32_t i = 0; i < NOTIFY_PROBES_MAX; i++) {
        *ret_at = place_of(lines, hash, i);
        if (lines->table[*ret_at] != 0)
            continue;
        lines->table[*ret_at] = line + 1;
        return true;
    }
    return false;
}

static bool insert_all(struct lines *lines, uint32_t count)
{
    uint32_t line = 0, at;
    while (line < count && insert(lines, line, &at))
        line++;
    return line == count;
}

/* Copies a place to the client's table. */
static void show(const struct lines *lines, uint32_t at)
{
    const uint32_t line = lines->table[at];
    struct notify_place *place = &notify_table(lines->segment, lines->bits)[at];
    atomic_store_explicit(&place->key, lines->keys[line - 1], memory_order_relaxed);
    /* release: pairs with notify_find's acquire */
    atomic_store_explicit(&place->line, line, memory_order_release);
}

static void show_all(const struct lines *lines)
{
    for (uint32_t at = 0; at < 1u << lines->bits; at++)
        if (lines->table[at] != 0)
            show(lines, at);
    /* release: pairs with notify_find's acquire */
    atomic_store_explicit(&lines->segment->table_bits, lines->bits, memory_order_release);
}

/* Makes a larger table with the first `count` keys. */
static int grow(struct lines *lines, uint32_t count)
{
    struct lines larger = *lines;
    larger.bits = lines->bits ? lines->bits + 1 : NOTIFY_TABLE_BITS_MIN;
    for (;; larger.bits++) {
        if (larger.bits > NOTIFY_TABLE_BITS_MAX ||
            (larger.bits > NOTIFY_TABLE_BITS_MIN &&
             UINT64_C(1) << larger.bits > (uint64_t)THINNEST * count))
            return -ENOSPC;
        larger.table = calloc(1u << larger.bits, sizeof(*larger.table));
        if (!larger.table)
            return -ENOMEM;
        if ((UINT64_C(1) << larger.bits) >= (uint64_t)FILL * count && insert_all(&larger, count))
            break;
        free(larger.table);
    }
    free(lines->table);
    *lines = larger;
    show_all(lines);
    return 0;
}

static int reserve_key(struct lines *lines)
{
    if (lines->count < lines->room)
        return 0;
    const uint32_t room = lines->room ? 2 * lines->room : ROOM_MIN;
    uint64_t *keys = reallocarray(lines->keys, room, sizeof(*keys));
    if (!keys)
        return -ENOMEM;
    lines->keys = keys;
    lines->room = room;
    return 0;
}

int lines_add(struct lines *lines, uint32_t rank, uint32_t slot, uint32_t *ret_line)
{
    const uint32_t line = lines->count;
    uint32_t at;
    if (line == NOTIFY_LINES_MAX)
        return -ENOSPC;
    int r = reserve_key(lines);
    if (r < 0)
        return r;
    lines->keys[line] = notify_key(rank, slot);
    const bool full = (uint64_t)FILL * (line + 1) > UINT64_C(1) << lines->bits;
    if (lines->bits == 0 || full || !insert(lines, line, &at))
        r = grow(lines, line + 1);
    else
        show(lines, at);
    if (r < 0)
        return r;
    lines->count++;
    struct notify_segment *segment = lines->segment;
    atomic_store_explicit(&notify_line_at(segment, line)->key, lines->keys[line],
                          memory_order_relaxed);
    /* release: pairs with watches_update's acquire */
    atomic_store_explicit(&segment->line_count, lines->count, memory_order_release);
    *ret_line = line;
    return 0;
}

void lines_deinit(struct lines *lines)
{
    free(lines->keys);
    free(lines->table);
}
