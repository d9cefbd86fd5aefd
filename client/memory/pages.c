/* Chunks of a heap, and runs of pages in them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/memory/heap.h"

/* ---- free runs ---- */

/* The bin for runs of this length. All runs in a bin have at least the size of its step. */
static unsigned bin_of(uint32_t pages)
{
    return heap_step((uint64_t)pages + 1) - 1;
}

static void bin_insert(struct heap *heap, struct heap_page *first, uint32_t count)
{
    const unsigned bin = bin_of(count);
    first->state = first[count - 1].state = HEAP_FREE;
    first->run = first[count - 1].run = count;
    first->previous = NULL;
    first->next = heap->bins[bin];
    if (first->next)
        first->next->previous = first;
    heap->bins[bin] = first;
    heap->bin_bits |= 1ull << bin;
}

static void bin_remove(struct heap *heap, struct heap_page *first)
{
    const unsigned bin = bin_of(first->run);
    if (first->previous)
        first->previous->next = first->next;
    else
        heap->bins[bin] = first->next;
    if (first->next)
        first->next->previous = first->previous;
    if (!heap->bins[bin])
        heap->bin_bits &= ~(1ull << bin);
    first->state = first[first->run - 1].state = HEAP_NONE;
}

/* ---- chunks ---- */

static uint32_t chunk_index(const struct heap *heap, const void *address)
{
    uint32_t low = 0, high = heap->chunk_count; /* number of chunks at or before the address */
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if ((const uint8_t *)address < heap->chunks[middle]->base)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static int reserve_chunk(struct heap *heap)
{
    if (heap->chunk_count < heap->chunk_room)
        return 0;
    uint32_t room = heap->chunk_room ? heap->chunk_room * 2 : 8;
    struct heap_chunk **chunks = reallocarray(heap->chunks, room, sizeof(*chunks));
    if (!chunks)
        return -ENOMEM;
    heap->chunks = chunks;
    heap->chunk_room = room;
    return 0;
}

static struct heap_chunk *chunk_free(struct heap_chunk *chunk)
{
    if (chunk)
        free(chunk->pages);
    free(chunk);
    return NULL;
}

/* Allocates a chunk, with bookkeeping for `pages` pages. */
static int chunk_new(struct heap *heap, uint64_t bytes, uint32_t pages,
                     struct heap_chunk **ret_chunk)
{
    void *base;
    struct heap_chunk *chunk = calloc(1, sizeof(*chunk));
    int r = chunk ? reserve_chunk(heap) : -ENOMEM;
    if (r == 0 && !(chunk->pages = calloc(pages, sizeof(*chunk->pages))))
        r = -ENOMEM;
    if (r == 0)
        r = heap->source.alloc(heap->source.context, bytes, &base, &chunk->owner);
    if (r < 0) {
        chunk_free(chunk);
        return r;
    }
    chunk->base = base;
    chunk->bytes = bytes;
    chunk->page_count = pages;
    for (uint32_t i = 0; i < pages; i++)
        chunk->pages[i].chunk = chunk;
    uint32_t at = chunk_index(heap, base);
    memmove(&heap->chunks[at + 1], &heap->chunks[at],
            (heap->chunk_count - at) * sizeof(*heap->chunks));
    heap->chunks[at] = chunk;
    heap->chunk_count++;
    *ret_chunk = chunk;
    return 0;
}

int heap_give_chunk(struct heap *heap, struct heap_chunk *chunk)
{
    int r = heap->source.free(heap->source.context, chunk->owner);
    if (r < 0)
        return r;
    uint32_t at = chunk_index(heap, chunk->base) - 1;
    heap->chunk_count--;
    memmove(&heap->chunks[at], &heap->chunks[at + 1],
            (heap->chunk_count - at) * sizeof(*heap->chunks));
    if (heap->latest == chunk)
        heap->latest = NULL;
    chunk_free(chunk);
    return 0;
}

int heap_take_chunk(struct heap *heap, uint64_t bytes, struct heap_page **ret_first)
{
    struct heap_chunk *chunk;
    int r = chunk_new(heap, bytes, 1, &chunk);
    if (r < 0)
        return r;
    chunk->single = true;
    chunk->used_pages = 1;
    *ret_first = chunk->pages;
    return 0;
}

/* Adds a chunk of free pages; if that fails, a shorter one that is still sufficient. */
static int grow(struct heap *heap, uint32_t pages)
{
    uint64_t least = (uint64_t)pages * HEAP_PAGE_BYTES, bytes = heap->next_chunk_bytes;
    struct heap_chunk *chunk;
    if (bytes < least)
        bytes = least;
    int r = chunk_new(heap, bytes, (uint32_t)(bytes / HEAP_PAGE_BYTES), &chunk);
    while (r < 0 && bytes / 2 >= least && bytes / 2 >= HEAP_PAGE_BYTES * 16) {
        bytes /= 2;
        bytes -= bytes % HEAP_PAGE_BYTES;
        r = chunk_new(heap, bytes, (uint32_t)(bytes / HEAP_PAGE_BYTES), &chunk);
    }
    if (r < 0)
        return r;
    if (heap->next_chunk_bytes < HEAP_CHUNK_MAX)
        heap->next_chunk_bytes *= 2;
    bin_insert(heap, chunk->pages, chunk->page_count);
    return 0;
}

struct heap_page *heap_find(struct heap *heap, const void *address)
{
    const uint8_t *at = address;
    struct heap_chunk *chunk = heap->latest;
    if (!chunk || at < chunk->base || (uint64_t)(at - chunk->base) >= chunk->bytes) {
        uint32_t index = chunk_index(heap, at);
        if (index == 0)
            return NULL;
        chunk = heap->chunks[index - 1];
        if ((uint64_t)(at - chunk->base) >= chunk->bytes)
            return NULL;
        heap->latest = chunk;
    }
    return chunk->single ? chunk->pages
                         : &chunk->pages[(uint64_t)(at - chunk->base) / HEAP_PAGE_BYTES];
}

/* ---- runs ---- */

int heap_take_pages(struct heap *heap, uint32_t count, struct heap_page **ret_first)
{
    const uint64_t fit = ~0ull << heap_step(count); /* bins in which every run is long enough */
    if (!(heap->bin_bits & fit)) {
        int r = grow(heap, (uint32_t)heap_step_size(heap_step(count)));
        if (r < 0)
            return r;
    }
    struct heap_page *first = heap->bins[__builtin_ctzll(heap->bin_bits & fit)];
    const uint32_t rest = first->run - count;
    bin_remove(heap, first);
    if (rest > 0)
        bin_insert(heap, first + count, rest);
    first->chunk->used_pages += count;
    *ret_first = first;
    return 0;
}

/* Whether another chunk is empty. */
/* Whether this empty chunk is too much, with those that are empty already. */
static bool is_spare(const struct heap *heap, const struct heap_chunk *chunk)
{
    uint64_t empty_bytes = 0;

    for (uint32_t i = 0; i < heap->chunk_count; i++)
        if (heap->chunks[i] != chunk && heap->chunks[i]->used_pages == 0)
            empty_bytes += heap->chunks[i]->bytes;
    return empty_bytes > 0 && empty_bytes + chunk->bytes > HEAP_EMPTY_MAX;
}

void heap_give_pages(struct heap *heap, struct heap_page *first, uint32_t count)
{
    struct heap_chunk *chunk = first->chunk;
    struct heap_page *before = first - 1, *behind = first + count;
    chunk->used_pages -= count;
    if (behind < chunk->pages + chunk->page_count && behind->state == HEAP_FREE) {
        bin_remove(heap, behind);
        count += behind->run;
    }
    if (first > chunk->pages && before->state == HEAP_FREE) {
        first -= before->run;
        count += before->run;
        bin_remove(heap, first);
    }
    bin_insert(heap, first, count);
    if (chunk->used_pages == 0 && is_spare(heap, chunk)) {
        bin_remove(heap, first);
        if (heap_give_chunk(heap, chunk) < 0) /* in use by a plan */
            bin_insert(heap, first, count);
    }
}
