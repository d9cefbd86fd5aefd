#include "drivers/packed.h"

#include <stdlib.h>
#include <string.h>

static int init(struct packed *packed, uint8_t *memory, const struct layout *layout, bool target)
{
    struct layout_strided strided;
    *packed = (struct packed){.base = memory, .size_bytes = layout->size_bytes};
    if (layout->size_bytes == 0)
        return 0;
    if (layout_as_strided(layout, &strided) && strided.count == 1) {
        packed->base += strided.offset_bytes;
        return 0;
    }
    struct layout *plain;
    int r = layout_contiguous(layout->size_bytes, &plain);
    if (r < 0)
        return r;
    r = copy_program_new(target ? layout : plain, target ? plain : layout, &packed->program);
    free(plain);
    return r;
}

int packed_source_init(struct packed *packed, uint8_t *memory, const struct layout *layout)
{
    return init(packed, memory, layout, false);
}

int packed_target_init(struct packed *packed, uint8_t *memory, const struct layout *layout)
{
    return init(packed, memory, layout, true);
}

void packed_deinit(struct packed *packed)
{
    copy_program_free(packed->program);
    packed->program = NULL;
}

void packed_read(const struct packed *source, void *buffer, uint64_t position_bytes,
                 uint64_t length_bytes)
{
    if (source->program)
        copy_program_pack(source->program, buffer, source->base, position_bytes, length_bytes);
    else
        memcpy(buffer, source->base + position_bytes, length_bytes);
}

void packed_write(const struct packed *target, const void *buffer, uint64_t position_bytes,
                  uint64_t length_bytes)
{
    if (target->program)
        copy_program_unpack(target->program, target->base, buffer, position_bytes, length_bytes);
    else
        memcpy(target->base + position_bytes, buffer, length_bytes);
}

uint64_t packed_memory_bytes(const struct packed *packed)
{
    return copy_program_bytes(packed->program);
}
