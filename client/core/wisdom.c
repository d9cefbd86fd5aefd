#include "client/core/wisdom.h"

#include <stdbool.h>
#include <string.h>

#include "proto/limits.h"
#include "proto/load.h"
#include "proto/siphash.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* The processor's name: another kind has other caches. */
void wisdom_seed(uint64_t ret_key[2])
{
    unsigned name[12] = {0};
#ifdef __x86_64__
    for (unsigned i = 0; i < 3; i++)
        __get_cpuid(0x80000002 + i, &name[4 * i], &name[4 * i + 1], &name[4 * i + 2],
                    &name[4 * i + 3]);
#endif
    siphash_128((uint64_t[]){PROTO_VERSION, LANE_SLOT_BYTES}, name, sizeof(name), ret_key);
}

static void mix(uint64_t key[2], const void *data, size_t bytes)
{
    const uint64_t before[2] = {key[0], key[1]};
    siphash_128(before, data, bytes, key);
}

/* Where the layout begins does not matter: the two faces of an array that a halo exchange sends
 * differ in nothing else. */
static void mix_layout(uint64_t key[2], const struct layout *layout)
{
    const struct layout_op *ops = layout->ops;
    const size_t pairs_bytes =
        layout_bytes(layout) - sizeof(*layout) - layout->op_count * sizeof(*ops);
    uint32_t top = 0; /* index of the next outermost operation */
    mix(key,
        (uint64_t[]){layout->size_bytes, layout->block_count, layout->op_count, layout->alignment},
        4 * sizeof(uint64_t));
    for (uint32_t i = 0; i < layout->op_count; i++) {
        struct layout_op op = ops[i];
        if (i == top) {
            op.offset_bytes -= layout->lower_bytes;
            top += 1 + (op.kind == LAYOUT_LOOP ? op.body : 0);
        }
        mix(key, &op, sizeof(op));
    }
    mix(key, ops + layout->op_count, pairs_bytes);
}

void wisdom_key(const struct layout *target, const struct layout *source, uint64_t ret_key[2])
{
    wisdom_seed(ret_key);
    mix_layout(ret_key, target);
    mix_layout(ret_key, source);
}

static uint32_t index_of(const struct wisdom *wisdom, const uint64_t key[2], unsigned distance)
{
    uint32_t i = 0;
    while (i < wisdom->count &&
           (wisdom->entries[i].key[0] != key[0] || wisdom->entries[i].key[1] != key[1] ||
            wisdom->entries[i].distance != distance))
        i++;
    return i;
}

const struct wisdom_entry *wisdom_find(const struct wisdom *wisdom, const uint64_t key[2],
                                       unsigned distance)
{
    const uint32_t i = index_of(wisdom, key, distance);
    return i < wisdom->count ? &wisdom->entries[i] : NULL;
}

/* Bits are never cleared: what has gone from the table costs a search in vain. */
static uint32_t filter_bit(const struct wisdom_entry *entry)
{
    const uint64_t kind = entry->seat != SEAT_NONE ? 2 : entry->rail[0] != '\0' ? 1 : 0;
    uint64_t mixed = (entry->bytes * 4 + kind) * UINT64_C(0x9e3779b97f4a7c15);
    mixed = (mixed ^ entry->blocks) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(mixed >> 40) % WISDOM_FILTER_BITS;
}

bool wisdom_may_know(const struct wisdom *wisdom, const struct wisdom_entry *puts)
{
    const uint32_t bit = filter_bit(puts);
    return wisdom->described[bit / 64] & UINT64_C(1) << bit % 64;
}

void wisdom_describe(struct wisdom *wisdom, const struct wisdom_entry *entry)
{
    const uint32_t bit = filter_bit(entry);
    wisdom->described[bit / 64] |= UINT64_C(1) << bit % 64;
}

void wisdom_doubt(struct wisdom *wisdom, double load)
{
    uint32_t kept = 0;
    if (load >= LOAD_QUIET)
        return;
    for (uint32_t i = 0; i < wisdom->count; i++)
        if (wisdom->entries[i].load_tenths <= 10 * LOAD_BUSY)
            wisdom->entries[kept++] = wisdom->entries[i];
    wisdom->count = kept;
}

void wisdom_add(struct wisdom *wisdom, const struct wisdom_entry *entry)
{
    uint32_t at = index_of(wisdom, entry->key, entry->distance);
    const bool is_new = at < wisdom->count - wisdom->added || at == wisdom->count;
    if (at == wisdom->count && wisdom->count < WISDOM_ENTRIES_MAX)
        wisdom->count++;
    else if (at == wisdom->count)
        at = 0; /* the oldest */
    memmove(&wisdom->entries[at], &wisdom->entries[at + 1],
            (wisdom->count - 1 - at) * sizeof(*entry));
    wisdom->entries[wisdom->count - 1] = *entry;
    wisdom_describe(wisdom, entry);
    if (is_new && wisdom->added < wisdom->count)
        wisdom->added++;
}
