/* tca_pack() and tca_unpack(). */
#include <errno.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/core/layouts.h"
#include "client/layout/layout.h"
#include "drivers/copy/copy.h"

enum direction {
    PACK,
    UNPACK,
};

static int check_room(const struct layout *layout, uint64_t buffer_bytes, uint64_t position,
                      enum direction direction)
{
    if (position <= buffer_bytes && layout->size_bytes <= buffer_bytes - position)
        return 0;
    return error_set(-ENOSPC, "%s: %llu bytes from position %llu exceed the buffer's %llu bytes",
                     direction == PACK ? "pack" : "unpack", (unsigned long long)layout->size_bytes,
                     (unsigned long long)position, (unsigned long long)buffer_bytes);
}

static struct copy_program *compile(const struct layout *layout, enum direction direction)
{
    struct copy_program *program = NULL;
    struct layout *packed;
    if (layout_contiguous(layout->size_bytes, &packed) < 0)
        return NULL;
    if (direction == PACK)
        copy_program_new(packed, layout, &program);
    else
        copy_program_new(layout, packed, &program);
    free(packed);
    return program;
}

/*
 * The compiled program. NULL: at the first call, as compiling costs more than a single copy, and
 * when out of memory. Several threads may compile it; the first to store it wins.
 */
static const struct copy_program *compiled(const struct tca_layout *layout,
                                           enum direction direction)
{
    struct tca_layout *mutable = (struct tca_layout *)layout;
    _Atomic(struct copy_program *) *place =
        direction == PACK ? &mutable->packer : &mutable->unpacker;
    atomic_bool *again = direction == PACK ? &mutable->packed : &mutable->unpacked;
    /* acquire: pairs with the release in the exchange below */
    struct copy_program *program = atomic_load_explicit(place, memory_order_acquire);
    if (program)
        return program;
    if (!atomic_exchange_explicit(again, true, memory_order_relaxed))
        return NULL;
    struct copy_program *mine = compile(layout->program, direction);
    if (!mine || atomic_compare_exchange_strong_explicit(
                     place, &program, mine, memory_order_acq_rel, memory_order_acquire))
        return mine;
    copy_program_free(mine);
    return program;
}

void layout_pack_part(const struct tca_layout *layout, const void *base, void *packed,
                      uint64_t position, uint64_t bytes)
{
    const struct copy_program *packer = compiled(layout, PACK);

    if (packer)
        copy_program_pack(packer, packed, base, position, bytes);
    else
        copy_pack(packed, base, layout->program, position, bytes);
}

void layout_unpack_part(const struct tca_layout *layout, void *base, const void *packed,
                        uint64_t position, uint64_t bytes)
{
    const struct copy_program *unpacker = compiled(layout, UNPACK);

    if (unpacker)
        copy_program_unpack(unpacker, base, packed, position, bytes);
    else
        copy_unpack(base, layout->program, position, packed, bytes);
}

int tca_pack(const struct tca_layout *layout, const void *base, void *buffer, uint64_t buffer_bytes,
             uint64_t *position)
{
    const uint64_t bytes = layout->program->size_bytes;
    int r = check_room(layout->program, buffer_bytes, *position, PACK);

    if (r < 0)
        return r;
    layout_pack_part(layout, base, (uint8_t *)buffer + *position, 0, bytes);
    *position += bytes;
    return 0;
}

int tca_unpack(const struct tca_layout *layout, void *base, const void *buffer,
               uint64_t buffer_bytes, uint64_t *position)
{
    const uint64_t bytes = layout->program->size_bytes;
    int r = check_room(layout->program, buffer_bytes, *position, UNPACK);

    if (r < 0)
        return r;
    layout_unpack_part(layout, base, (const uint8_t *)buffer + *position, 0, bytes);
    *position += bytes;
    return 0;
}
