/*
 * The allocator of tca_alloc(): blocks in chunks of memory that the caller provides (regions). Its
 * bookkeeping is outside the chunks, because other processes may write there.
 *
 * A chunk is an array of pages, of 4 KiB whatever the processor's are: nothing is mapped or
 * protected page by page. Free pages form runs, which are binned by length and merged with free
 * neighbours at once. A run in use is one large block or a slab: blocks of one size class, with a
 * bit for each free one. Every operation therefore touches only a few words, however much is
 * allocated, and detects a pointer that is not a block.
 *
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    HEAP_PAGE_BYTES = 4096,
    HEAP_UNIT_BYTES = 16,  /* size of the smallest block, and alignment of all blocks */
    HEAP_SMALL_MAX = 8192, /* longer blocks are runs of pages */
    HEAP_CLASSES = 33,     /* class 0 is unused */
    HEAP_BINS = 64,
    HEAP_SLAB_WORDS = 16,
    HEAP_CHUNK_MIN = 256 << 10, /* size of the first chunk: its process clears all of it; sizes
                                   double up to HEAP_CHUNK_MAX */
    HEAP_CHUNK_MAX = 32 << 20,
    HEAP_RUN_MAX = 8 << 20,   /* longer blocks have separate chunks */
    HEAP_EMPTY_MAX = 8 << 20, /* in several empty chunks; one may be longer */
};

/* Allocates and frees chunks. */
struct heap_source {
    /* Page-aligned memory; *ret_owner is passed to free(). 0 or a negative errno. */
    int (*alloc)(void *context, uint64_t bytes, void **ret_base, void **ret_owner);
    /* On a negative errno the chunk remains. */
    int (*free)(void *context, void *owner);
    void *context;
};

struct heap_page;
struct heap_slab;

struct heap_chunk {
    uint8_t *base;
    uint64_t bytes;
    void *owner;
    uint32_t page_count;
    uint32_t used_pages;
    bool single; /* one block occupies all of it */
    struct heap_page *pages;
};

struct heap {
    struct heap_source source;
    struct heap_slab *partial[HEAP_CLASSES]; /* slabs with a free block, by class */
    struct heap_page *bins[HEAP_BINS];       /* first pages of free runs, by length */
    uint64_t bin_bits;                       /* bit by bin: not empty */
    struct heap_chunk **chunks;              /* sorted by base */
    uint32_t chunk_count, chunk_room;
    struct heap_chunk *latest; /* cache: chunk of the last heap_find() */
    uint64_t next_chunk_bytes;
    uint64_t used_bytes; /* rounded sizes of all blocks */
};

void heap_init(struct heap *heap, const struct heap_source *source);
/* Frees the bookkeeping, but not the chunks. */
void heap_deinit(struct heap *heap);

/* bytes > 0. 0, -ENOMEM, -EOVERFLOW, or an error of the source. */
int heap_alloc(struct heap *heap, uint64_t bytes, void **ret_block);
/* -EINVAL: not a block of this heap, or freed already; or an error of the source: the block then
 * remains. */
int heap_free(struct heap *heap, void *block);

/* ---- pages.c ---- */

enum heap_page_state {
    HEAP_NONE,  /* inside a run or a large block */
    HEAP_FREE,  /* first or last page of a free run */
    HEAP_SLAB,  /* any page of a slab */
    HEAP_BLOCK, /* first page of a large block */
};

struct heap_page {
    enum heap_page_state state;
    uint32_t run; /* FREE, BLOCK: number of pages */
    struct heap_chunk *chunk;
    struct heap_slab *slab;            /* SLAB */
    struct heap_page *next, *previous; /* FREE: list of its bin */
};

/* Size steps: every number up to 8, then four in each doubling. heap_step() returns the first step
 * of size n or more; heap_step_size() the size of a step. */
static inline unsigned heap_step(uint64_t n)
{
    if (n <= 8)
        return (unsigned)n;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(n - 1);
    return 9 + (exponent - 3) * 4 + (unsigned)((n - 1 - (1ull << exponent)) >> (exponent - 2));
}

static inline uint64_t heap_step_size(unsigned step)
{
    if (step <= 8)
        return step;
    unsigned exponent = 3 + (step - 9) / 4;
    return (1ull << exponent) + ((step - 9) % 4 + 1) * (1ull << (exponent - 2));
}

static inline uint8_t *heap_page_address(const struct heap_page *page)
{
    return page->chunk->base + (uint64_t)(page - page->chunk->pages) * HEAP_PAGE_BYTES;
}

/* Allocates a run of `count` pages, from a new chunk if necessary. The caller sets their state, and
 * resets it to HEAP_NONE before it returns them. */
int heap_take_pages(struct heap *heap, uint32_t count, struct heap_page **ret_first);
/* Returns pages. A chunk that becomes empty is freed
 * if there are others, and they would exceed HEAP_EMPTY_MAX. */
void heap_give_pages(struct heap *heap, struct heap_page *first, uint32_t count);
/* Allocates a chunk for a single block. */
int heap_take_chunk(struct heap *heap, uint64_t bytes, struct heap_page **ret_first);
int heap_give_chunk(struct heap *heap, struct heap_chunk *chunk);
/* The page that an address lies in; NULL: in no chunk. */
struct heap_page *heap_find(struct heap *heap, const void *address);
