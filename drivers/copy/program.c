/* A pair of layouts, compiled: once from one to the other, and each side from and to packed bytes.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/pieces.h"
#include "drivers/copy/tree.h"

/* Where two layouts have no loops in common, bytes go through so much memory that stays in the
 * first cache. */
enum { BOUNCE_BYTES = 8 << 10 };

/* Packed bytes of shorter blocks are put together in as much before they go past the caches. */
enum { STREAM_BLOCK_MIN = 512 };

struct copy_program {
    bool bounce;
    bool short_blocks;  /* the source's */
    bool packed_target; /* at this offset: */
    int64_t target_offset_bytes;
    struct copy_tree run;    /* unless bounce */
    struct copy_tree pack;   /* source to packed */
    struct copy_tree unpack; /* packed to target */
    const struct copy_kernels *kernels;
};

static void look_at_target(struct copy_program *program, const struct layout *target)
{
    struct layout_strided strided;
    if (layout_as_strided(target, &strided) && strided.count == 1) {
        program->packed_target = true;
        program->target_offset_bytes = strided.offset_bytes;
    }
}

static int compile(struct copy_program *program, const struct layout *target,
                   const struct layout *source)
{
    program->kernels = copy_kernels();
    look_at_target(program, target);
    program->short_blocks = source->size_bytes < source->block_count * STREAM_BLOCK_MIN;
    struct copy_pieces pieces = {0};
    int r = copy_tree_init(&program->run, target, source, &pieces);
    program->bounce = r == -ENOTSUP;
    if (r == 0 || r == -ENOTSUP)
        r = copy_tree_init(&program->pack, NULL, source, &pieces);
    if (r == 0)
        r = copy_tree_init(&program->unpack, target, NULL, &pieces);
    copy_pieces_deinit(&pieces);
    return r;
}

int copy_program_new(const struct layout *target, const struct layout *source,
                     struct copy_program **ret_program)
{
    if (target->size_bytes != source->size_bytes)
        return -EMSGSIZE;
    struct copy_program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;
    int r = compile(program, target, source);
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
        copy_tree_deinit(&program->run);
        copy_tree_deinit(&program->pack);
        copy_tree_deinit(&program->unpack);
        free(program);
    }
    return NULL;
}

/* The tree counts packed bytes from position 0: where the buffer would begin then. */
static uint8_t *packed_base(const void *buffer, uint64_t position_bytes)
{
    return (uint8_t *)((uintptr_t)buffer - position_bytes);
}

static void run(const struct copy_program *program, const struct copy_kernels *stream,
                void *target_base, const void *source_base, uint64_t position, uint64_t length)
{
    if (!program->bounce) {
        copy_tree_run(&program->run, stream, target_base, source_base, position, length);
        return;
    }
    uint8_t bounce[BOUNCE_BYTES];
    while (length > 0) {
        uint64_t piece = length < BOUNCE_BYTES ? length : BOUNCE_BYTES;
        uint8_t *packed = packed_base(bounce, position);
        copy_tree_run(&program->pack, NULL, packed, source_base, position, piece);
        copy_tree_run(&program->unpack, stream, target_base, packed, position, piece);
        position += piece;
        length -= piece;
    }
}

void copy_program_run(const struct copy_program *program, void *target_base,
                      const void *source_base, uint64_t position_bytes, uint64_t length_bytes)
{
    run(program, NULL, target_base, source_base, position_bytes, length_bytes);
}

void copy_program_pack(const struct copy_program *program, void *buffer, const void *source_base,
                       uint64_t position_bytes, uint64_t length_bytes)
{
    copy_tree_run(&program->pack, NULL, packed_base(buffer, position_bytes), source_base,
                  position_bytes, length_bytes);
}

static void pack_short_blocks(const struct copy_program *program, uint8_t *buffer,
                              const void *source_base, uint64_t position, uint64_t length)
{
    _Alignas(64) uint8_t bounce[BOUNCE_BYTES];
    while (length > 0) {
        uint64_t piece = length < BOUNCE_BYTES ? length : BOUNCE_BYTES;
        copy_program_pack(program, bounce, source_base, position, piece);
        program->kernels->stream(buffer, bounce, piece);
        buffer += piece;
        position += piece;
        length -= piece;
    }
}

void copy_program_pack_stream(const struct copy_program *program, void *buffer,
                              const void *source_base, uint64_t position_bytes,
                              uint64_t length_bytes)
{
    if (program->short_blocks)
        pack_short_blocks(program, buffer, source_base, position_bytes, length_bytes);
    else
        copy_tree_run(&program->pack, program->kernels, packed_base(buffer, position_bytes),
                      source_base, position_bytes, length_bytes);
    program->kernels->stream_end();
}

void copy_program_run_stream(const struct copy_program *program, void *target_base,
                             const void *source_base, uint64_t position_bytes,
                             uint64_t length_bytes)
{
    if (program->packed_target) {
        uint8_t *target = (uint8_t *)target_base + program->target_offset_bytes;
        copy_program_pack_stream(program, target + position_bytes, source_base, position_bytes,
                                 length_bytes);
        return;
    }
    run(program, program->kernels, target_base, source_base, position_bytes, length_bytes);
    program->kernels->stream_end();
}

void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes)
{
    copy_tree_run(&program->unpack, NULL, target_base, packed_base(buffer, position_bytes),
                  position_bytes, length_bytes);
}

void copy_program_unpack_stream(const struct copy_program *program, void *target_base,
                                const void *buffer, uint64_t position_bytes, uint64_t length_bytes)
{
    copy_tree_run(&program->unpack, program->kernels, target_base,
                  packed_base(buffer, position_bytes), position_bytes, length_bytes);
    program->kernels->stream_end();
}
