#include "client/mpi/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS = 4096,
    IDLE_VALUES_MAX = 1024,
    IDLE_BYTES_MAX = 16 << 20,
    BLOCK_BYTES = 16, /* of a layout's table of irregular blocks */
};

static struct {
    struct value *buckets[BUCKETS];
    uint64_t last_id;
    /* Values without users. */
    struct value *oldest, *youngest;
    size_t idle_count;
    uint64_t idle_bytes;
} values;

uint64_t value_hash(const uint64_t *key, size_t words)
{
    uint64_t hash = words;
    for (size_t i = 0; i < words; i++) {
        hash = (hash ^ key[i]) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

static struct value **bucket_of(uint64_t hash)
{
    return &values.buckets[hash % BUCKETS];
}

/* Of memory, roughly. */
static uint64_t cost_bytes(const struct value *value)
{
    return sizeof(*value) + value->words * sizeof(*value->key) + value->irregular * BLOCK_BYTES;
}

static void leave_idle(struct value *value)
{
    *(value->older ? &value->older->younger : &values.oldest) = value->younger;
    *(value->younger ? &value->younger->older : &values.youngest) = value->older;
    value->older = value->younger = NULL;
    values.idle_count--;
    values.idle_bytes -= cost_bytes(value);
}

struct value *value_find(const uint64_t *key, size_t words, uint64_t hash)
{
    for (struct value *value = *bucket_of(hash); value; value = value->chain) {
        if (value->hash != hash || value->words != words ||
            memcmp(value->key, key, words * sizeof(*key)) != 0)
            continue;
        if (value->users++ == 0)
            leave_idle(value);
        return value;
    }
    return NULL;
}

static void delete (struct value *value)
{
    struct value **place = bucket_of(value->hash);
    while (*place != value)
        place = &(*place)->chain;
    *place = value->chain;
    if (value->based != value->layout)
        tca_layout_free(value->based);
    tca_layout_free(value->layout);
    free(value);
}

static void delete_oldest(void)
{
    struct value *value = values.oldest;
    leave_idle(value);
    delete (value);
}

/* Finds the first byte of the data and whether it is one block. */
static int look_at_layout(struct value *value)
{
    int64_t upper;
    tca_layout_bounds(value->layout, &value->lower_bytes, &upper);
    value->contiguous =
        value->size_bytes == 0 || (value->size_bytes == (uint64_t)(upper - value->lower_bytes) &&
                                   tca_layout_blocks(value->layout) == 1);
    if (value->contiguous)
        return 0;
    value->based = value->layout;
    if (value->lower_bytes == 0)
        return 0;
    value->based = NULL;
    return tca_layout_shift(value->layout, -value->lower_bytes, &value->based);
}

int value_new(const struct value_args *args, struct value **ret_value)
{
    struct value *value = calloc(1, sizeof(*value) + args->words * sizeof(*args->key));
    if (!value) {
        tca_layout_free(args->layout);
        return -ENOMEM;
    }
    value->users = 1;
    value->size_bytes = args->size_bytes;
    value->extent_bytes = args->extent_bytes;
    value->layout = args->layout;
    value->hash = args->hash;
    value->words = args->words;
    memcpy(value->key, args->key, args->words * sizeof(*args->key));
    value->irregular = args->irregular;
    int r = value->layout ? look_at_layout(value) : 0;
    if (r < 0) {
        tca_layout_free(value->layout);
        free(value);
        return -ENOMEM;
    }
    value->id = ++values.last_id;
    value->chain = *bucket_of(value->hash);
    *bucket_of(value->hash) = value;
    *ret_value = value;
    return 0;
}

void value_drop(struct value *value)
{
    if (!value || --value->users > 0)
        return;
    value->older = values.youngest;
    *(values.youngest ? &values.youngest->younger : &values.oldest) = value;
    values.youngest = value;
    values.idle_count++;
    values.idle_bytes += cost_bytes(value);
    while (values.idle_count > IDLE_VALUES_MAX || values.idle_bytes > IDLE_BYTES_MAX)
        delete_oldest();
}

void value_forget(void)
{
    while (values.oldest)
        delete_oldest();
}
