#include "daemon/base/table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/siphash.h"

enum {
    BITS_MIN = 4,
    BITS_MAX = 30,
};

/* Distributes ids, which are counters or hashes, over the buckets. */
static uint64_t spread(uint64_t value)
{
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

uint64_t table_mix(uint64_t a, uint64_t b)
{
    return spread(a + UINT64_C(0x9e3779b97f4a7c15)) ^ b;
}

uint64_t table_text(const char *text)
{
    static uint64_t key[2];
    uint64_t hash[2];
    if (!key[0] && getrandom(key, sizeof(key), 0) != sizeof(key))
        key[0] = 1; /* not reached: getrandom() only fails during early boot */
    siphash_128(key, text, strlen(text), hash);
    return hash[0];
}

static struct table_entry **bucket_of(const struct table *table, uint64_t id)
{
    return table->buckets ? &table->buckets[spread(id) >> (64 - table->bits)]
                          : (struct table_entry **)&table->first;
}

void table_deinit(struct table *table)
{
    free(table->buckets);
    *table = (struct table){0};
}

/* If out of memory, the table remains as it is and becomes slower. */
static void grow(struct table *table)
{
    const unsigned bits = table->buckets ? table->bits + 2 : BITS_MIN;
    struct table_entry **buckets =
        bits <= BITS_MAX ? calloc((size_t)1 << bits, sizeof(*buckets)) : NULL;
    if (!buckets)
        return;
    struct table before = *table;
    table->buckets = buckets;
    table->bits = bits;
    for (size_t i = 0; i < (before.buckets ? (size_t)1 << before.bits : 1); i++) {
        struct table_entry *entry = before.buckets ? before.buckets[i] : before.first, *next;
        for (; entry; entry = next) {
            struct table_entry **bucket = bucket_of(table, entry->id);
            next = entry->next;
            entry->next = *bucket;
            *bucket = entry;
        }
    }
    table->first = NULL;
    free(before.buckets);
}

void table_add(struct table *table, struct table_entry *entry, uint64_t id, void *owner)
{
    if (table->count >= (table->buckets ? (size_t)1 << table->bits : 1))
        grow(table);
    struct table_entry **bucket = bucket_of(table, id);
    *entry = (struct table_entry){.next = *bucket, .id = id, .owner = owner};
    *bucket = entry;
    table->count++;
}

void table_remove(struct table *table, struct table_entry *entry)
{
    struct table_entry **at = bucket_of(table, entry->id);
    while (*at != entry)
        at = &(*at)->next;
    *at = entry->next;
    table->count--;
}

struct table_entry *table_first(const struct table *table, uint64_t id)
{
    struct table_entry *entry = *bucket_of(table, id);
    while (entry && entry->id != id)
        entry = entry->next;
    return entry;
}

struct table_entry *table_again(const struct table_entry *entry)
{
    struct table_entry *next = entry->next;
    while (next && next->id != entry->id)
        next = next->next;
    return next;
}

void *table_find(const struct table *table, uint64_t id)
{
    const struct table_entry *entry = table_first(table, id);
    return entry ? entry->owner : NULL;
}

void table_each(const struct table *table, void (*each)(void *context, void *owner), void *context)
{
    for (size_t i = 0; i < (table->buckets ? (size_t)1 << table->bits : 1); i++) {
        struct table_entry *entry = table->buckets ? table->buckets[i] : table->first, *next;
        for (; entry; entry = next) {
            next = entry->next;
            each(context, entry->owner);
        }
    }
}
