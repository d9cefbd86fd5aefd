/* Compiles layouts to as few descriptors as the hardware's block-stride allows. */
#include <errno.h>

#include "drivers/peach2/put.h"

static bool fits_gap(int64_t gap)
{
    return gap >= INT32_MIN && gap <= INT32_MAX && gap % PEACH2_ALIGN == 0;
}

/* Extends the last descriptor by a piece: one that is adjacent to its only block, or one more block
 * of its stride. */
static bool extend(struct builder *builder, uint64_t source, uint64_t destination, uint32_t bytes)
{
    struct peach2_descriptor *last = &builder->descriptors[builder->count - 1];
    if (last->length + bytes > PEACH2_LENGTH_MAX)
        return false;
    if (builder->blocks == 1 && source == last->source + last->length &&
        destination == last->destination + last->length) {
        last->length += bytes;
        last->block = last->length;
        return true;
    }
    if (bytes != last->block)
        return false;
    int64_t source_stride = (int64_t)(source - last->source),
            destination_stride = (int64_t)(destination - last->destination);
    if (builder->blocks == 1) {
        if (!fits_gap(source_stride - bytes) || !fits_gap(destination_stride - bytes))
            return false;
        builder->source_stride = source_stride;
        builder->destination_stride = destination_stride;
        last->source_gap = (int32_t)(source_stride - bytes);
        last->destination_gap = (int32_t)(destination_stride - bytes);
    } else if (source_stride != builder->source_stride * builder->blocks ||
               destination_stride != builder->destination_stride * builder->blocks) {
        return false;
    }
    builder->blocks++;
    last->length += bytes;
    return true;
}

bool peach2_builder_add(struct builder *builder, uint64_t source, uint64_t destination,
                        uint32_t bytes)
{
    if (builder->count > 0 && extend(builder, source, destination, bytes))
        return true;
    if (builder->count == builder->max)
        return false;
    builder->descriptors[builder->count++] = (struct peach2_descriptor){
        .source = source, .destination = destination, .length = bytes, .block = bytes};
    builder->blocks = 1;
    return true;
}

bool peach2_movable(uint64_t source, uint64_t destination, uint64_t bytes)
{
    return bytes % PEACH2_ALIGN == 0 && source % PEACH2_ALIGN == 0 &&
           (source - destination) % PEACH2_PHASE == 0;
}

int peach2_compile(const struct layout *source, uint64_t source_bus, const struct layout *target,
                   uint64_t target_global, struct peach2_descriptor *ret_descriptors, uint32_t max,
                   uint32_t *ret_count)
{
    struct builder builder = {.descriptors = ret_descriptors, .max = max};
    struct layout_cursor from, to;
    uint64_t from_bytes = 0, to_bytes = 0;
    int64_t from_offset = 0, to_offset = 0;
    layout_cursor_init(&from, source, 0);
    layout_cursor_init(&to, target, 0);
    for (uint64_t done = 0; done < source->size_bytes;) {
        if (from_bytes == 0 &&
            !layout_cursor_next(&from, PEACH2_LENGTH_MAX, &from_offset, &from_bytes))
            return -EMSGSIZE;
        if (to_bytes == 0 && !layout_cursor_next(&to, PEACH2_LENGTH_MAX, &to_offset, &to_bytes))
            return -EMSGSIZE;
        uint64_t bytes = from_bytes < to_bytes ? from_bytes : to_bytes;
        uint64_t at = source_bus + (uint64_t)from_offset,
                 goes_to = target_global + (uint64_t)to_offset;
        if (!peach2_movable(at, goes_to, bytes))
            return -EOPNOTSUPP;
        if (!peach2_builder_add(&builder, at, goes_to, (uint32_t)bytes))
            return -E2BIG;
        from_bytes -= bytes;
        from_offset += (int64_t)bytes;
        to_bytes -= bytes;
        to_offset += (int64_t)bytes;
        done += bytes;
    }
    *ret_count = builder.count;
    return 0;
}
