/* Compiles two layouts: from one to the other, and each to or from packed bytes. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/pieces.h"
#include "drivers/copy/tree.h"

/* Two layouts without common loops are copied through a staging buffer of this size, which stays in
 * the first-level cache. */
enum { STAGING_BYTES = 8 << 10 };

struct copy_program {
    struct copy_tree pack;   /* source to packed */
    struct copy_tree unpack; /* packed to target */
    struct copy_tree both;   /* from layout to layout; empty if one of them is packed */
    /* The tree to run: `both`, or one of the others with its packed side moved by these offsets;
     * NULL: through a staging buffer. */
    const struct copy_tree *run;
    int64_t target_offset_bytes;
    int64_t source_offset_bytes;
    bool complete; /* `pack` and `unpack` are both compiled */
    const struct copy_kernels *kernels;
};

/* Whether a side is packed, apart from an offset. */
static bool is_packed(const struct layout *layout, int64_t *ret_offset)
{
    struct layout_strided strided;
    if (!layout_as_strided(layout, &strided) || strided.count != 1)
        return false;
    *ret_offset = strided.offset_bytes;
    return true;
}

static int compile_run(struct copy_program *program, const struct layout *target,
                       const struct layout *source, struct copy_pieces *pieces)
{
    if (is_packed(target, &program->target_offset_bytes)) {
        program->run = &program->pack;
        return 0;
    }
    if (is_packed(source, &program->source_offset_bytes)) {
        program->run = &program->unpack;
        return 0;
    }
    int r = copy_tree_init(&program->both, target, source, pieces);
    if (r == 0)
        program->run = &program->both;
    return r == -ENOTSUP ? 0 : r;
}

static int compile_packed(struct copy_program *program, const struct layout *target,
                          const struct layout *source, struct copy_pieces *pieces)
{
    int r = copy_tree_init(&program->pack, NULL, source, pieces);
    if (r == 0)
        r = copy_tree_init(&program->unpack, target, NULL, pieces);
    program->complete = r == 0;
    return r;
}

/* The uses of a program, each including those before it. */
enum uses { USE_RUN, USE_UNPACK, USE_ALL };

static int compile(struct copy_program *program, const struct layout *target,
                   const struct layout *source, enum uses uses)
{
    struct copy_pieces pieces = {0};
    program->kernels = copy_kernels();
    int r = compile_run(program, target, source, &pieces);
    if (r == 0 && (uses == USE_ALL || program->run != &program->both))
        r = compile_packed(program, target, source, &pieces);
    else if (r == 0 && uses == USE_UNPACK)
        r = copy_tree_init(&program->unpack, target, NULL, &pieces);
    copy_pieces_deinit(&pieces);
    return r;
}

int copy_program_complete(struct copy_program *program, const struct layout *target,
                          const struct layout *source)
{
    struct copy_pieces pieces = {0};
    if (program->complete)
        return 0;
    copy_tree_deinit(&program->pack); /* from a failed attempt, or only one of them */
    copy_tree_deinit(&program->unpack);
    int r = compile_packed(program, target, source, &pieces);
    copy_pieces_deinit(&pieces);
    return r;
}

static int make(const struct layout *target, const struct layout *source, enum uses uses,
                struct copy_program **ret_program)
{
    if (target->size_bytes != source->size_bytes)
        return -EMSGSIZE;
    struct copy_program *program = calloc(1, sizeof(*program));
    if (!program)
        return -ENOMEM;
    int r = compile(program, target, source, uses);
    if (r < 0) {
        copy_program_free(program);
        return r;
    }
    *ret_program = program;
    return 0;
}

int copy_program_new(const struct layout *target, const struct layout *source,
                     struct copy_program **ret_program)
{
    return make(target, source, USE_ALL, ret_program);
}

int copy_program_new_run(const struct layout *target, const struct layout *source,
                         struct copy_program **ret_program)
{
    return make(target, source, USE_RUN, ret_program);
}

int copy_program_new_unpack(const struct layout *target, const struct layout *source,
                            struct copy_program **ret_program)
{
    return make(target, source, USE_UNPACK, ret_program);
}

uint64_t copy_program_bytes(const struct copy_program *program)
{
    return program ? sizeof(*program) + copy_tree_bytes(&program->both) +
                         copy_tree_bytes(&program->pack) + copy_tree_bytes(&program->unpack)
                   : 0;
}

struct copy_program *copy_program_free(struct copy_program *program)
{
    if (program) {
        copy_tree_deinit(&program->both);
        copy_tree_deinit(&program->pack);
        copy_tree_deinit(&program->unpack);
        free(program);
    }
    return NULL;
}

/* Trees count packed bytes from position 0: the address that position 0 would have. */
static uint8_t *packed_base(const void *buffer, uint64_t position_bytes)
{
    return (uint8_t *)((uintptr_t)buffer - position_bytes);
}

static void run_staged(const struct copy_program *program, const struct copy_kernels *stream,
                       uint8_t *target, const uint8_t *source, uint64_t position, uint64_t length)
{
    uint8_t staging[STAGING_BYTES];
    while (length > 0) {
        uint64_t piece = length < STAGING_BYTES ? length : STAGING_BYTES;
        uint8_t *packed = packed_base(staging, position);
        copy_tree_run(&program->pack, NULL, packed, source, position, piece);
        copy_tree_run(&program->unpack, stream, target, packed, position, piece);
        position += piece;
        length -= piece;
    }
}

static void run(const struct copy_program *program, const struct copy_kernels *stream,
                uint8_t *target, const uint8_t *source, uint64_t position, uint64_t length)
{
    if (program->run)
        copy_tree_run(program->run, stream, target + program->target_offset_bytes,
                      source + program->source_offset_bytes, position, length);
    else
        run_staged(program, stream, target, source, position, length);
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

void copy_program_run_stream(const struct copy_program *program, void *target_base,
                             const void *source_base, uint64_t position_bytes,
                             uint64_t length_bytes)
{
    run(program, program->kernels, target_base, source_base, position_bytes, length_bytes);
    program->kernels->stream_end();
}

void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes)
{
    copy_tree_run(&program->unpack, NULL, target_base, packed_base(buffer, position_bytes),
                  position_bytes, length_bytes);
}
