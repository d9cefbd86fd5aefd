/*
 * The allocator behind tca_alloc(): blocks in chunks of memory that somebody else provides
 * (regions). All that it keeps is outside of the chunks, because others may write there.
 *
 * A chunk is an array of pages. Free pages form runs, kept by length; neighbours are joined at
 * once. A run in use is one large block, or a slab: blocks of one size class, with a bit for each
 * that is free. So every step is a look at a few words, however much is allocated, and a pointer
 * that is no block is known as such.
 *
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HEAP_PAGE_BYTES = 4096,
    HEAP_UNIT_BYTES = 16,  /* of the smallest block, and what all are aligned to */
    HEAP_SMALL_MAX = 8192, /* longer ones are runs of pages */
    HEAP_CLASSES = 33,     /* class 0 is none */
    HEAP_BINS = 64,
    HEAP_SLAB_WORDS = 16,
    HEAP_CHUNK_MIN = 2 << 20, /* of the first chunk; each is twice as long as the one before */
    HEAP_CHUNK_MAX = 32 << 20,
    HEAP_RUN_MAX = 8 << 20, /* longer blocks have a chunk of their own */
};

/* Where chunks come from. */
struct heap_source {
    /* Page-aligned memory; *ret_owner is handed to free. Negative errno. */
    int (*alloc)(void *context, uint64_t bytes, void **ret_base, void **ret_owner);
    /* May refuse with a negative errno: then the chunk stays. */
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
    bool single; /* one block has all of it */
    struct heap_page *pages;
};

struct heap {
    struct heap_source source;
    struct heap_slab *partial[HEAP_CLASSES]; /* slabs with a free block, by class */
    struct heap_page *bins[HEAP_BINS];       /* first pages of free runs, by length */
    uint64_t bin_bits;                       /* bit by bin: it is not empty */
    struct heap_chunk **chunks;              /* sorted by base */
    uint32_t chunk_count, chunk_room;
    struct heap_chunk *latest; /* that a pointer was found in */
    uint64_t next_chunk_bytes;
    uint64_t used_bytes; /* of blocks, as rounded */
};

void heap_init(struct heap *heap, const struct heap_source *source);
/* Forgets everything; does not give chunks back. */
void heap_deinit(struct heap *heap);

/* bytes > 0. 0, -ENOMEM, -EOVERFLOW, or what the source said. */
int heap_alloc(struct heap *heap, uint64_t bytes, void **ret_block);
/* -EINVAL: it is no block of this heap, or not any more; or what the source said to its end: then
 * the block stays. */
int heap_free(struct heap *heap, void *block);

/* ---- pages.c ---- */

enum heap_page_state {
    HEAP_NONE,  /* inside of a run, or of a large block */
    HEAP_FREE,  /* first or last page of a free run */
    HEAP_SLAB,  /* every page of one */
    HEAP_BLOCK, /* first page of a large block */
};

struct heap_page {
    enum heap_page_state state;
    uint32_t run; /* FREE, BLOCK: how many pages */
    struct heap_chunk *chunk;
    struct heap_slab *slab;            /* SLAB */
    struct heap_page *next, *previous; /* FREE: in its bin */
};

/* Sizes in steps: every number to 8, then four in each doubling. The first step that is n at least,
 * and what a step is. */
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

/* A run of `count` pages out of the free ones, or of a new chunk. Their state is the caller's to
 * set, and to make HEAP_NONE again before it gives them back. */
int heap_take_pages(struct heap *heap, uint32_t count, struct heap_page **ret_first);
/* A chunk of which nothing is in use any more goes back when there is another such. */
void heap_give_pages(struct heap *heap, struct heap_page *first, uint32_t count);
/* A chunk for one block. */
int heap_take_chunk(struct heap *heap, uint64_t bytes, struct heap_page **ret_first);
int heap_give_chunk(struct heap *heap, struct heap_chunk *chunk);
/* The page that an address lies in; NULL: in no chunk. */
struct heap_page *heap_find(struct heap *heap, const void *address);
