/* A pair of layouts, compiled: once from one to the other, and each side from and to packed bytes.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "drivers/copy/copy.h"
#include "drivers/copy/tree.h"

/* Where two layouts have no loops in common, bytes go through so much memory that stays in the
 * first cache. */
enum { BOUNCE_BYTES = 8 << 10 };

struct copy_program {
    bool bounce;
    struct copy_tree run;    /* unless bounce */
    struct copy_tree pack;   /* source to packed */
    struct copy_tree unpack; /* packed to target */
};

static int compile(struct copy_program *program, const struct layout *target,
                   const struct layout *source)
{
    int r = copy_tree_init(&program->run, target, source);
    program->bounce = r == -ENOTSUP;
    if (r == 0 || r == -ENOTSUP)
        r = copy_tree_init(&program->pack, NULL, source);
    if (r == 0)
        r = copy_tree_init(&program->unpack, target, NULL);
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

void copy_program_run(const struct copy_program *program, void *target_base,
                      const void *source_base, uint64_t position_bytes, uint64_t length_bytes)
{
    if (!program->bounce) {
        copy_tree_run(&program->run, target_base, source_base, position_bytes, length_bytes);
        return;
    }
    uint8_t bounce[BOUNCE_BYTES];
    while (length_bytes > 0) {
        uint64_t piece = length_bytes < BOUNCE_BYTES ? length_bytes : BOUNCE_BYTES;
        copy_program_pack(program, bounce, source_base, position_bytes, piece);
        copy_program_unpack(program, target_base, bounce, position_bytes, piece);
        position_bytes += piece;
        length_bytes -= piece;
    }
}

/* The tree counts packed bytes from position 0: where the buffer would begin then. */
static uintptr_t packed_base(const void *buffer, uint64_t position_bytes)
{
    return (uintptr_t)buffer - position_bytes;
}

void copy_program_pack(const struct copy_program *program, void *buffer, const void *source_base,
                       uint64_t position_bytes, uint64_t length_bytes)
{
    copy_tree_run(&program->pack, (uint8_t *)packed_base(buffer, position_bytes), source_base,
                  position_bytes, length_bytes);
}

void copy_program_unpack(const struct copy_program *program, void *target_base, const void *buffer,
                         uint64_t position_bytes, uint64_t length_bytes)
{
    copy_tree_run(&program->unpack, target_base,
                  (const uint8_t *)packed_base(buffer, position_bytes), position_bytes,
                  length_bytes);
}
