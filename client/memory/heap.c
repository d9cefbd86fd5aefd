/* Blocks of a heap: slabs for the small ones. */
#include "client/memory/heap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct heap_slab {
    uint8_t *base;
    uint32_t block_bytes;
    uint32_t reciprocal; /* 2^32 / block_bytes, rounded up: the upper half of its product with an
                            offset in the slab is the block's index */
    uint16_t count;      /* of blocks */
    uint16_t free;
    uint8_t class;
    uint8_t hint; /* words before this one have no free block */
    struct heap_page *first;
    uint32_t pages;
    struct heap_slab *next, *previous; /* in heap->partial while free > 0 */
    uint64_t bits[HEAP_SLAB_WORDS];    /* 1: free */
};

void heap_init(struct heap *heap, const struct heap_source *source)
{
    *heap = (struct heap){.source = *source, .next_chunk_bytes = HEAP_CHUNK_MIN};
}

/* ---- slabs ---- */

static void partial_insert(struct heap *heap, struct heap_slab *slab)
{
    slab->previous = NULL;
    slab->next = heap->partial[slab->class];
    if (slab->next)
        slab->next->previous = slab;
    heap->partial[slab->class] = slab;
}

static void partial_remove(struct heap *heap, struct heap_slab *slab)
{
    if (slab->previous)
        slab->previous->next = slab->next;
    else
        heap->partial[slab->class] = slab->next;
    if (slab->next)
        slab->next->previous = slab->previous;
}

/* Gives a slab at least eight blocks, and no more blocks than bits. */
static uint32_t slab_pages(uint32_t block_bytes)
{
    return block_bytes <= 2048 ? 16384 / HEAP_PAGE_BYTES : 65536 / HEAP_PAGE_BYTES;
}
static_assert(16384 / HEAP_UNIT_BYTES <= HEAP_SLAB_WORDS * 64, "a bit for every block");

static int slab_new(struct heap *heap, unsigned class)
{
    struct heap_slab *slab = calloc(1, sizeof(*slab));
    if (!slab)
        return -ENOMEM;
    slab->class = (uint8_t) class;
    slab->block_bytes = (uint32_t)heap_step_size(class) * HEAP_UNIT_BYTES;
    slab->reciprocal = (uint32_t)(((1ull << 32) + slab->block_bytes - 1) / slab->block_bytes);
    slab->pages = slab_pages(slab->block_bytes);
    int r = heap_take_pages(heap, slab->pages, &slab->first);
    if (r < 0) {
        free(slab);
        return r;
    }
    slab->base = heap_page_address(slab->first);
    slab->count = slab->free = (uint16_t)(slab->pages * HEAP_PAGE_BYTES / slab->block_bytes);
    for (uint32_t i = 0; i < slab->count; i++)
        slab->bits[i / 64] |= 1ull << i % 64;
    for (uint32_t i = 0; i < slab->pages; i++) {
        slab->first[i].state = HEAP_SLAB;
        slab->first[i].slab = slab;
    }
    partial_insert(heap, slab);
    return 0;
}

static void slab_free(struct heap *heap, struct heap_slab *slab)
{
    partial_remove(heap, slab);
    for (uint32_t i = 0; i < slab->pages; i++)
        slab->first[i].state = HEAP_NONE;
    heap_give_pages(heap, slab->first, slab->pages);
    free(slab);
}

static int small_alloc(struct heap *heap, uint64_t bytes, void **ret_block)
{
    const unsigned class = heap_step((bytes + HEAP_UNIT_BYTES - 1) / HEAP_UNIT_BYTES);
    if (__builtin_expect(!heap->partial[class], 0)) {
        int r = slab_new(heap, class);
        if (r < 0)
            return r;
    }
    struct heap_slab *slab = heap->partial[class];
    unsigned word = slab->hint;
    while (slab->bits[word] == 0)
        word++;
    unsigned index = word * 64 + (unsigned)__builtin_ctzll(slab->bits[word]);
    slab->bits[word] &= slab->bits[word] - 1;
    slab->hint = (uint8_t)word;
    if (--slab->free == 0)
        partial_remove(heap, slab);
    heap->used_bytes += slab->block_bytes;
    *ret_block = slab->base + (uint64_t)index * slab->block_bytes;
    return 0;
}

static int small_free(struct heap *heap, struct heap_slab *slab, const uint8_t *block)
{
    const uint32_t offset = (uint32_t)(block - slab->base);
    const uint32_t index = (uint32_t)((uint64_t)offset * slab->reciprocal >> 32);
    const uint64_t bit = 1ull << index % 64;
    if (index * slab->block_bytes != offset || index >= slab->count ||
        (slab->bits[index / 64] & bit))
        return -EINVAL;
    slab->bits[index / 64] |= bit;
    if (index / 64 < slab->hint)
        slab->hint = (uint8_t)(index / 64);
    if (slab->free++ == 0)
        partial_insert(heap, slab);
    heap->used_bytes -= slab->block_bytes;
    if (slab->free == slab->count && (slab->next || slab->previous))
        slab_free(heap, slab); /* its class has another slab with free blocks */
    return 0;
}

/* ---- large blocks ---- */

static int large_alloc(struct heap *heap, uint64_t bytes, void **ret_block)
{
    struct heap_page *first;
    if (bytes > UINT64_MAX - HEAP_PAGE_BYTES)
        return -EOVERFLOW;
    const uint64_t pages = (bytes + HEAP_PAGE_BYTES - 1) / HEAP_PAGE_BYTES;
    const bool own = bytes > HEAP_RUN_MAX;
    int r = own ? heap_take_chunk(heap, pages * HEAP_PAGE_BYTES, &first)
                : heap_take_pages(heap, (uint32_t)pages, &first);
    if (r < 0)
        return r;
    first->state = HEAP_BLOCK;
    first->run = own ? 1 : (uint32_t)pages;
    heap->used_bytes += pages * HEAP_PAGE_BYTES;
    *ret_block = heap_page_address(first);
    return 0;
}

static int large_free(struct heap *heap, struct heap_page *first, const void *block)
{
    if (first->state != HEAP_BLOCK || block != heap_page_address(first))
        return -EINVAL;
    const uint64_t bytes =
        first->chunk->single ? first->chunk->bytes : (uint64_t)first->run * HEAP_PAGE_BYTES;
    if (first->chunk->single) {
        int r = heap_give_chunk(heap, first->chunk);
        if (r < 0)
            return r;
    } else {
        first->state = HEAP_NONE;
        heap_give_pages(heap, first, first->run);
    }
    heap->used_bytes -= bytes;
    return 0;
}

/* ---- blocks ---- */

int heap_alloc(struct heap *heap, uint64_t bytes, void **ret_block)
{
    return bytes <= HEAP_SMALL_MAX ? small_alloc(heap, bytes, ret_block)
                                   : large_alloc(heap, bytes, ret_block);
}

int heap_free(struct heap *heap, void *block)
{
    struct heap_page *page = heap_find(heap, block);
    if (!page)
        return -EINVAL;
    return page->state == HEAP_SLAB ? small_free(heap, page->slab, block)
                                    : large_free(heap, page, block);
}

static void chunk_forget(struct heap_chunk *chunk)
{
    for (uint32_t i = 0, step; i < chunk->page_count; i += step) {
        struct heap_page *page = &chunk->pages[i];
        step = page->state == HEAP_SLAB ? page->slab->pages : 1;
        if (page->state == HEAP_SLAB)
            free(page->slab);
    }
    free(chunk->pages);
    free(chunk);
}

void heap_deinit(struct heap *heap)
{
    for (uint32_t i = 0; i < heap->chunk_count; i++)
        chunk_forget(heap->chunks[i]);
    free(heap->chunks);
    *heap = (struct heap){0};
}
