/* Streaming stores, which need not fetch a line that another core holds. Used for whole lines only;
 * the bytes at both ends of a block are stored as usual. */
#include "drivers/copy/moves.h"
#include "drivers/copy/variant.h"

enum {
    LINE = 64,
    SHORT = 512, /* blocks that are not whole lines must be at least this long to benefit */
};

#ifdef __x86_64__
#include <emmintrin.h>

/* 16-byte stores fill a line as fast as wider ones. */
static inline void stream_line(uint8_t *to, const uint8_t *from)
{
    for (unsigned i = 0; i < LINE / 16; i++)
        _mm_stream_si128((__m128i *)to + i, _mm_loadu_si128((const __m128i *)from + i));
}

/* Orders streaming stores before later stores, for example of a notification. */
void copy_stream_end(void)
{
    _mm_sfence();
}
#else
static inline void stream_line(uint8_t *to, const uint8_t *from)
{
    MOVE(64, to, from);
}

void copy_stream_end(void)
{
}
#endif

void copy_stream(uint8_t *target, const uint8_t *source, uint64_t bytes)
{
    uint64_t head = -(uintptr_t)target % LINE;
    if (bytes < head + LINE) {
        move_bytes(target, source, bytes);
        return;
    }
    move_bytes(target, source, head);
    target += head;
    source += head;
    bytes -= head;
    for (; bytes >= LINE; bytes -= LINE) {
        stream_line(target, source);
        target += LINE;
        source += LINE;
    }
    move_bytes(target, source, bytes);
}

/* Short blocks with partial lines at their ends would take up to three times as long with streaming
 * stores as without. */
static inline void stream_block(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    if (bytes >= SHORT || ((uintptr_t)to | bytes) % LINE == 0)
        copy_stream(to, from, bytes);
    else
        move_bytes(to, from, bytes);
}

static bool may_stream(uint64_t block_bytes)
{
    return block_bytes >= SHORT || block_bytes % LINE == 0;
}

static bool is_whole_lines(const uint8_t *target, const struct copy_nest *nest)
{
    return ((uintptr_t)target | nest->block_bytes | (uint64_t)nest->target_stride_bytes |
            (uint64_t)nest->target_row_bytes) %
               LINE ==
           0;
}

static void stream_nest(uint8_t *target, const uint8_t *source, const struct copy_nest *nest)
{
    if (nest->block_bytes < SHORT && !is_whole_lines(target, nest)) {
        copy_nest_choose(nest)(target, source, nest);
        return;
    }
    for (uint64_t row = nest->rows; row > 0; row--) {
        uint8_t *to = target;
        const uint8_t *from = source;
        for (uint64_t left = nest->count; left > 0; left--) {
            copy_stream(to, from, nest->block_bytes);
            to += nest->target_stride_bytes;
            from += nest->source_stride_bytes;
        }
        target += nest->target_row_bytes;
        source += nest->source_row_bytes;
    }
}

copy_nest_kernel *copy_nest_choose_stream(const struct copy_nest *nest)
{
    return may_stream(nest->block_bytes) ? stream_nest : NULL;
}

static void stream_list(uint8_t *target, const uint8_t *source, const struct copy_list *list,
                        uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        int64_t start = copy_list_start(list, i);
        stream_block(target + (list->target_places ? list->target_places[i] : start),
                     source + (list->source_places ? list->source_places[i] : start),
                     copy_list_length(list, i));
    }
}

copy_list_kernel *copy_list_choose_stream(const struct copy_list *list)
{
    return list->starts || may_stream(list->block_bytes) ? stream_list : NULL;
}
