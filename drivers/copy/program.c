/* A pair of layouts, compiled: which kernel moves them, and with what parameters. */
#include "drivers/copy/copy.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/copy/kernels.h"

enum copy_kind {
    COPY_CONTIGUOUS,
    COPY_STRIDED, /* both sides have blocks of one size */
    COPY_GENERAL, /* a cursor on each side */
};

struct copy_program {
    enum copy_kind kind;
    int64_t target_offset_bytes;
    int64_t source_offset_bytes;
    int64_t target_stride_bytes;
    int64_t source_stride_bytes;
    uint64_t block_bytes;
    struct layout *target; /* own copies */
    struct layout *source;
};

/* The one block size that both sides can be read with; a contiguous side takes any. */
static bool common_blocks(struct layout_strided *target, struct layout_strided *source)
{
    if (target->count == 1) {
        target->block_bytes = source->block_bytes;
        target->stride_bytes = (int64_t)source->block_bytes;
    } else if (source->count == 1) {
        source->block_bytes = target->block_bytes;
        source->stride_bytes = (int64_t)target->block_bytes;
    }
    return target->block_bytes == source->block_bytes;
}

static bool compile_strided(struct copy_program *program, const struct layout *target,
                            const struct layout *source)
{
    struct layout_strided to, from;
    if (!layout_as_strided(target, &to) || !layout_as_strided(source, &from))
        return false;

    bool contiguous = to.count == 1 && from.count == 1;
    if (!contiguous && !common_blocks(&to, &from))
        return false;
    program->kind = contiguous ? COPY_CONTIGUOUS : COPY_STRIDED;
    program->block_bytes = to.block_bytes;
    program->target_offset_bytes = to.offset_bytes;
    program->source_offset_bytes = from.offset_bytes;
    program->target_stride_bytes = to.stride_bytes;
    program->source_stride_bytes = from.stride_bytes;
    return true;
}

int copy_program_new(const struct layout *target, const struct layout *source,
                     struct copy_program **ret_program)
{
    if (target->size_bytes != source->size_bytes)
        return -EMSGSIZE;
    struct copy_program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;

    if (target->size_bytes > 0 && !compile_strided(program, target, source))
        program->kind = COPY_GENERAL;
    int r = layout_dup(target, &program->target);
    if (r >= 0)
        r = layout_dup(source, &program->source);
    if (r < 0) {
        copy_program_free(program);
        return r;
    }
    *ret_program = program;
    return 0;
}

struct copy_program *copy_program_free(struct copy_program *program)
{
    if (program) {
        free(program->target);
        free(program->source);
        free(program);
    }
    return NULL;
}

/* From anywhere inside a block: the rest of that block, the whole blocks, the beginning of the
 * last. */
static void run_strided(const struct copy_program *program, uint8_t *target, const uint8_t *source,
                        uint64_t position, uint64_t length)
{
    const uint64_t block = program->block_bytes;
    int64_t index = (int64_t)(position / block);
    uint64_t inside = position % block;
    target += index * program->target_stride_bytes;
    source += index * program->source_stride_bytes;

    if (inside > 0) {
        uint64_t rest = block - inside < length ? block - inside : length;
        memmove(target + inside, source + inside, rest);
        target += program->target_stride_bytes;
        source += program->source_stride_bytes;
        length -= rest;
    }
    uint64_t whole = length / block;
    copy_strided(target, program->target_stride_bytes, source, program->source_stride_bytes, block,
                 whole);
    if (length > whole * block)
        memmove(target + (int64_t)whole * program->target_stride_bytes,
                source + (int64_t)whole * program->source_stride_bytes, length - whole * block);
}

static void run_general(const struct copy_program *program, uint8_t *target, const uint8_t *source,
                        uint64_t position, uint64_t length)
{
    struct layout_cursor to, from;
    layout_cursor_init(&to, program->target, position);
    layout_cursor_init(&from, program->source, position);

    int64_t to_offset = 0, from_offset = 0;
    uint64_t to_left = 0, from_left = 0;
    while (length > 0) {
        if (to_left == 0 && !layout_cursor_next(&to, length, &to_offset, &to_left))
            return;
        if (from_left == 0 && !layout_cursor_next(&from, length, &from_offset, &from_left))
            return;
        uint64_t piece = to_left < from_left ? to_left : from_left;
        memmove(target + to_offset, source + from_offset, piece);
        to_offset += (int64_t)piece;
        from_offset += (int64_t)piece;
        to_left -= piece;
        from_left -= piece;
        length -= piece;
    }
}

void copy_program_run(const struct copy_program *program, void *target_base,
                      const void *source_base, uint64_t position_bytes, uint64_t length_bytes)
{
    uint8_t *target = (uint8_t *)target_base + program->target_offset_bytes;
    const uint8_t *source = (const uint8_t *)source_base + program->source_offset_bytes;

    if (length_bytes == 0)
        return;
    switch (program->kind) {
    case COPY_CONTIGUOUS:
        memmove(target + position_bytes, source + position_bytes, length_bytes);
        break;
    case COPY_STRIDED:
        run_strided(program, target, source, position_bytes, length_bytes);
        break;
    case COPY_GENERAL:
        run_general(program, target, source, position_bytes, length_bytes);
        break;
    }
}

void copy_program_pack(const struct copy_program *program, void *buffer, const void *source_base,
                       uint64_t position_bytes, uint64_t length_bytes)
{
    copy_pack(buffer, source_base, program->source, position_bytes, length_bytes);
}

void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes)
{
    copy_unpack(target_base, program->target, position_bytes, buffer, length_bytes);
}
