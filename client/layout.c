/* The public face of proto/layout.h: a struct tca_layout is a struct layout. */
#include <errno.h>
#include <stdlib.h>

#include "client/error.h"
#include "client/layout.h"

static int explain(int code)
{
    switch (code) {
    case -ENOMEM:
        return error_static(code, "layout: out of memory");
    case -EOVERFLOW:
        return error_static(code, "layout: the bytes it touches do not fit 63-bit offsets");
    case -E2BIG:
        return error_static(code, "layout: more than 16 nested loops, or too many operations");
    default:
        return error_static(code, "layout: zero count, or blocks that make no sense");
    }
}

int tca_layout_contiguous(uint64_t bytes, struct tca_layout **ret_layout)
{
    struct layout *layout;
    int r = layout_contiguous(bytes, &layout);
    if (r < 0)
        return explain(r);
    *ret_layout = (struct tca_layout *)layout;
    return 0;
}

int tca_layout_repeat(const struct tca_layout *inner, uint64_t count, int64_t stride_bytes,
                      struct tca_layout **ret_layout)
{
    struct layout *layout;
    int r = layout_repeat(layout_of(inner), count, stride_bytes, &layout);
    if (r < 0)
        return explain(r);
    *ret_layout = (struct tca_layout *)layout;
    return 0;
}

int tca_layout_strided(uint64_t count, uint64_t block_bytes, int64_t stride_bytes,
                       struct tca_layout **ret_layout)
{
    struct tca_layout *block;
    int r = tca_layout_contiguous(block_bytes, &block);
    if (r < 0)
        return r;
    r = tca_layout_repeat(block, count, stride_bytes, ret_layout);
    tca_layout_free(block);
    return r;
}

int tca_layout_shift(const struct tca_layout *inner, int64_t offset_bytes,
                     struct tca_layout **ret_layout)
{
    struct layout *layout;
    int r = layout_shift(layout_of(inner), offset_bytes, &layout);
    if (r < 0)
        return explain(r);
    *ret_layout = (struct tca_layout *)layout;
    return 0;
}

struct tca_layout *tca_layout_free(struct tca_layout *layout)
{
    free(layout);
    return NULL;
}

uint64_t tca_layout_size(const struct tca_layout *layout)
{
    return layout_of(layout)->size_bytes;
}

void tca_layout_bounds(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                       int64_t *ret_upper_bytes)
{
    *ret_lower_bytes = layout_of(layout)->lower_bytes;
    *ret_upper_bytes = layout_of(layout)->upper_bytes;
}
