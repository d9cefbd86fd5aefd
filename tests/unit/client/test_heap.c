/* The heap, compared with a shadow of it: random blocks, each with its own bytes, in chunks that no
 * other code writes. */
#include "client/memory/heap.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/proto/random.h"

/* Chunks from malloc, which can be refused. */
struct store {
    unsigned chunks, asked;
    uint64_t bytes, limit;
    bool busy;
};

struct owner {
    uint64_t bytes;
    void *memory;
};

static int store_alloc(void *context, uint64_t bytes, void **ret_base, void **ret_owner)
{
    struct store *store = context;
    store->asked++;
    if (store->bytes + bytes > store->limit)
        return -EDQUOT;
    struct owner *owner = malloc(sizeof(*owner));
    *owner = (struct owner){.bytes = bytes, .memory = aligned_alloc(HEAP_PAGE_BYTES, bytes)};
    memset(owner->memory, 0x5a, bytes);
    store->chunks++;
    store->bytes += bytes;
    *ret_base = owner->memory;
    *ret_owner = owner;
    return 0;
}

static int store_free(void *context, void *of)
{
    struct store *store = context;
    struct owner *owner = of;
    if (store->busy)
        return -EBUSY;
    store->chunks--;
    store->bytes -= owner->bytes;
    free(owner->memory);
    free(owner);
    return 0;
}

static struct store store;
static struct heap heap;

static void setup(void)
{
    store = (struct store){.limit = UINT64_MAX};
    heap_init(&heap,
              &(struct heap_source){.alloc = store_alloc, .free = store_free, .context = &store});
}

/* Frees the chunks that heap_deinit() leaves to their owner. */
static void teardown(void)
{
    void *owners[64];
    uint32_t count = heap.chunk_count;
    cr_assert_lt(count, 64);
    for (uint32_t i = 0; i < count; i++)
        owners[i] = heap.chunks[i]->owner;
    heap_deinit(&heap);
    store.busy = false;
    for (uint32_t i = 0; i < count; i++)
        store_free(&store, owners[i]);
    cr_assert_eq(store.chunks, 0);
}

TestSuite(heap, .init = setup, .fini = teardown);

static uint8_t *take(uint64_t bytes)
{
    void *block = NULL;
    cr_assert_eq(heap_alloc(&heap, bytes, &block), 0, "%lu bytes", bytes);
    return block;
}

Test(heap, steps)
{
    for (uint64_t n = 1; n < 20000; n++) {
        unsigned step = heap_step(n);
        cr_assert_geq(heap_step_size(step), n);
        cr_assert(step == 1 || heap_step_size(step - 1) < n, "%lu", n);
        cr_assert_leq(heap_step_size(step), n + n / 4, "no more than a quarter is wasted");
    }
    cr_assert_eq(heap_step(HEAP_SMALL_MAX / HEAP_UNIT_BYTES), HEAP_CLASSES - 1);
    cr_assert_lt(heap_step(HEAP_CHUNK_MAX / HEAP_PAGE_BYTES + 1), HEAP_BINS);
}

Test(heap, blocks_are_aligned)
{
    for (uint64_t bytes = 1; bytes < 10000; bytes++)
        cr_assert_eq((uintptr_t)take(bytes) % HEAP_UNIT_BYTES, 0);
    for (uint64_t bytes = 16; bytes <= 65536; bytes *= 2)
        for (int i = 0; i < 5; i++)
            cr_assert_eq((uintptr_t)take(bytes) % (bytes < 4096 ? bytes : 4096), 0, "%lu", bytes);
}

Test(heap, freed_memory_is_used_again)
{
    uint8_t *a = take(100), *b = take(100);
    cr_assert_neq(a, b);
    cr_assert_eq(heap_free(&heap, a), 0);
    cr_assert_eq(take(100), a);
    for (int i = 0; i < 100000; i++) {
        a = take(3000000);
        cr_assert_eq(heap_free(&heap, a), 0);
    }
    cr_assert_leq(store.asked, 3);
}

/* ---- what is no block ---- */

Test(heap, foreign_pointers_and_second_frees_are_refused)
{
    static const uint64_t sizes[] = {1, 16, 100, 2048, 2049, 8192, 8193, 100000, 9 << 20};
    uint8_t on_stack;
    cr_assert_eq(heap_free(&heap, &on_stack), -EINVAL, "an empty heap");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *block = take(sizes[i]), *other = take(sizes[i]);
        cr_assert_eq(heap_free(&heap, block + 1), -EINVAL);
        cr_assert_eq(heap_free(&heap, block + 8), -EINVAL);
        if (sizes[i] > 4096)
            cr_assert_eq(heap_free(&heap, block + 4096), -EINVAL, "%lu", sizes[i]);
        cr_assert_eq(heap_free(&heap, block), 0);
        cr_assert_eq(heap_free(&heap, block), -EINVAL, "second free of %lu", sizes[i]);
        cr_assert_eq(heap_free(&heap, other), 0);
        cr_assert_eq(heap_free(&heap, other), -EINVAL, "second free of %lu", sizes[i]);
    }
    cr_assert_eq(heap_free(&heap, &on_stack), -EINVAL);
    cr_assert_eq(heap_free(&heap, malloc), -EINVAL);
    cr_assert_eq(heap.used_bytes, 0);
}

/* ---- limits ---- */

Test(heap, what_the_source_refuses_is_said)
{
    void *none = NULL;
    store.limit = 0;
    cr_assert_eq(heap_alloc(&heap, 16, &none), -EDQUOT);
    cr_assert_eq(heap_alloc(&heap, 100000, &none), -EDQUOT);
    cr_assert_eq(heap_alloc(&heap, 1ull << 40, &none), -EDQUOT);
    cr_assert_eq(heap_alloc(&heap, UINT64_MAX, &none), -EOVERFLOW);
    cr_assert_null(none);
    store.limit = 600000; /* less than a first chunk: a shorter one is requested */
    cr_assert_not_null(take(16));
    cr_assert_leq(store.bytes, 600000);
    cr_assert_eq(heap_alloc(&heap, 1000000, &none), -EDQUOT);
    store.limit = UINT64_MAX;
    cr_assert_not_null(take(1000000));
}

Test(heap, chunks_go_back_but_some)
{
    uint8_t *blocks[200];
    for (int i = 0; i < 200; i++)
        blocks[i] = take(1 << 20);
    unsigned most = store.chunks;
    cr_assert_gt(most, 3);
    for (int i = 0; i < 200; i++)
        cr_assert_eq(heap_free(&heap, blocks[i]), 0);
    const unsigned kept = store.chunks;
    cr_assert(kept >= 1 && store.bytes <= HEAP_EMPTY_MAX);
    for (int i = 0; i < 3; i++) /* for those that come and go */
        blocks[i] = take(1 << 20);
    cr_assert_eq(store.chunks, kept);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(heap_free(&heap, blocks[i]), 0);
    uint8_t *own = take(100 << 20);
    cr_assert_eq(store.chunks, kept + 1);
    store.busy = true;
    cr_assert_eq(heap_free(&heap, own), -EBUSY);
    own[5] = 5;
    store.busy = false;
    cr_assert_eq(heap_free(&heap, own), 0);
    cr_assert_eq(store.chunks, kept);
}

/* ---- chance ---- */

enum { BLOCKS = 1500, STEPS = 60000 };

struct shadow {
    uint8_t *block;
    uint64_t bytes;
    uint8_t mark;
};

static uint64_t random_bytes(struct random *random)
{
    switch (random_below(random, 20)) {
    case 0:
        return 1 + random_below(random, 12 << 20);
    case 1:
    case 2:
        return 1 + random_below(random, 200000);
    case 3:
    case 4:
    case 5:
        return 1 + random_below(random, 10000);
    default:
        return 1 + random_below(random, 300);
    }
}

/* Long blocks are checked at both ends, and at some places between. */
static uint64_t step_of(uint64_t bytes)
{
    return bytes < 1000 ? 1 : bytes / 50;
}

static void fill(struct shadow *shadow)
{
    for (uint64_t i = 0; i < shadow->bytes; i += step_of(shadow->bytes))
        shadow->block[i] = shadow->mark;
    shadow->block[shadow->bytes - 1] = shadow->mark;
}

static void look(const struct shadow *shadow, uint64_t seed)
{
    for (uint64_t i = 0; i < shadow->bytes; i += step_of(shadow->bytes))
        cr_assert_eq(shadow->block[i], shadow->mark, "seed %lu", seed);
    cr_assert_eq(shadow->block[shadow->bytes - 1], shadow->mark, "seed %lu", seed);
}

Test(heap, equals_its_shadow)
{
    static struct shadow shadows[BLOCKS];
    const char *only = getenv("TCA_TEST_SEED");
    const uint64_t seed = only ? strtoull(only, NULL, 0) : random_seed();
    struct random random = {seed};
    store.limit = 256 << 20;
    for (int step = 0; step < STEPS; step++) {
        /* from time to time mostly frees, so that runs and chunks become free */
        unsigned room = step / 5000 % 2 ? BLOCKS : BLOCKS / 10;
        struct shadow *shadow = &shadows[random_below(&random, BLOCKS)];
        void *block;
        if (shadow->block) {
            look(shadow, seed);
            cr_assert_eq(heap_free(&heap, shadow->block), 0, "seed %lu step %d", seed, step);
            shadow->block = NULL;
        } else if (random_below(&random, BLOCKS) < room) {
            shadow->bytes = random_bytes(&random);
            int r = heap_alloc(&heap, shadow->bytes, &block);
            cr_assert(r == 0 || r == -EDQUOT, "seed %lu: %d", seed, r);
            if (r < 0)
                continue;
            shadow->block = block;
            shadow->mark = (uint8_t)random_next(&random);
            fill(shadow);
        }
    }
    for (int i = 0; i < BLOCKS; i++)
        if (shadows[i].block) {
            look(&shadows[i], seed);
            cr_assert_eq(heap_free(&heap, shadows[i].block), 0, "seed %lu", seed);
        }
    cr_assert_eq(heap.used_bytes, 0, "seed %lu", seed);
}
