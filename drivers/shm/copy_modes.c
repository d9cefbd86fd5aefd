#include "drivers/shm/copy_modes.h"

#include <stdlib.h>

#include "proto/segment.h"

enum {
    SHARE_LINES_MIN = 24, /* the sender stores fewer before the receiver can react */
    HALF_UP_TO_NS = 66,   /* beyond it, RING cost less per line on a small EPYC machine */
    STREAM_MIN = 32 * 1024,
    STREAM_BLOCK_MIN = 8192,
    TRY_STREAM_MIN = 4096,
    TRY_STREAM_BLOCK_MIN = 512,
    SMALL_PIECE = 2048,           /* both ends begin sooner; costs an entry more per piece */
    SMALL_PIECES_MAX = 64 * 1024, /* beyond it, the beginning is a small part of the whole */
    HALF_MIN = 512 * 1024,        /* source and target together exceed a second-level cache */
};

/* The expected number of cache lines, if blocks start at any offset that their alignment allows. */
static double lines_touched(const struct layout *layout)
{
    uint64_t block = layout->size_bytes / layout->block_count, align = layout->alignment;
    double across = block > align ? (double)(block - align) / LINE_BYTES : 0;
    double lines = (double)layout->block_count * (1 + across);
    double span = (double)(layout->upper_bytes - layout->lower_bytes) / LINE_BYTES + 1;
    return lines < span ? lines : span;
}

/* Whether consecutive packed bytes are on different lines to which the layout returns much later,
 * as in a transpose. Copied in pieces, each line would be fetched many times. */
static bool crosses_lines(const struct layout *layout)
{
    for (uint32_t i = 0; i + 1 < layout->op_count; i++) {
        const struct layout_op *outer = &layout->ops[i], *inner = outer + 1;
        if (outer->kind == LAYOUT_LOOP && inner->kind == LAYOUT_LOOP &&
            llabs(outer->stride_bytes) < LINE_BYTES && llabs(inner->stride_bytes) >= LINE_BYTES &&
            inner->count >= LINE_BYTES)
            return true;
    }
    return false;
}

bool copy_streams(const struct layout *target, const struct layout *source)
{
    uint64_t bytes = target->size_bytes;
    return bytes >= STREAM_MIN && bytes / target->block_count >= STREAM_BLOCK_MIN &&
           (target->block_count == 1 || bytes / source->block_count >= STREAM_BLOCK_MIN);
}

/* Streaming stores help with whole lines only (copy.h). */
static bool can_stream(const struct layout *target)
{
    return target->size_bytes >= TRY_STREAM_MIN &&
           target->size_bytes / target->block_count >= TRY_STREAM_BLOCK_MIN;
}

struct copy_mode copy_mode_of(enum copy_method method, const struct layout *target,
                              const struct layout *source)
{
    return (struct copy_mode){
        .method = method, .stream = copy_streams(target, source), .piece_bytes = LANE_SLOT_BYTES};
}

bool copy_mode_equal(const struct copy_mode *a, const struct copy_mode *b)
{
    return a->method == b->method && a->stream == b->stream && a->piece_bytes == b->piece_bytes;
}

unsigned copy_mode_candidates(const struct layout *target, const struct layout *source, bool mapped,
                              struct copy_mode ret_modes[COPY_MODES_MAX])
{
    const bool streams = can_stream(target);
    const uint64_t bytes = target->size_bytes;
    unsigned count = 0;
    ret_modes[count++] = (struct copy_mode){.method = COPY_PUSH};
    if (streams)
        ret_modes[count++] = (struct copy_mode){.method = COPY_PUSH, .stream = true};
    if (mapped) {
        ret_modes[count++] = (struct copy_mode){.method = COPY_PULL};
        ret_modes[count++] = (struct copy_mode){.method = COPY_HALF};
        if (streams)
            ret_modes[count++] = (struct copy_mode){.method = COPY_HALF, .stream = true};
    }
    if (crosses_lines(target) || crosses_lines(source))
        return count;
    ret_modes[count++] = (struct copy_mode){.method = COPY_RING, .piece_bytes = LANE_SLOT_BYTES};
    if (bytes > SMALL_PIECE && bytes <= SMALL_PIECES_MAX)
        ret_modes[count++] = (struct copy_mode){.method = COPY_RING, .piece_bytes = SMALL_PIECE};
    return count;
}

bool copy_share_pays(const struct layout *target, const struct layout *source)
{
    return target->size_bytes > 0 && lines_touched(target) >= SHARE_LINES_MIN;
}

struct copy_choice copy_choose(const struct layout *target, const struct layout *source)
{
    if (crosses_lines(target) || crosses_lines(source))
        return (struct copy_choice){COPY_HALF, COPY_HALF, UINT32_MAX};
    const uint64_t blocks =
        target->block_count > source->block_count ? target->block_count : source->block_count;
    const bool whole_lines =
        target->size_bytes / LINE_BYTES >= blocks; /* else RING stores fewer lines */
    return (struct copy_choice){
        .near = target->size_bytes >= HALF_MIN && whole_lines ? COPY_HALF : COPY_RING,
        .far = copy_streams(target, source) ? COPY_PUSH : COPY_RING,
        .up_to_ns = HALF_UP_TO_NS,
    };
}
