#include "proto/layout_type.h"

#include <errno.h>

/*
 * A signature is a polynomial in SIGNATURE_BASE modulo 2^64. Each element contributes its type
 * number times the base to the power of the number of bytes that follow it. So the signature of a
 * whole follows from those of its parts, however they were constructed. Plain bytes contribute 0.
 */
#define SIGNATURE_BASE 0x9e3779b97f4a7c15ull

/* The base to the power of size. */
static uint64_t signature_shift(uint64_t size)
{
    uint64_t shift = 1;
    for (uint64_t square = SIGNATURE_BASE; size > 0; size >>= 1, square *= square)
        if (size & 1)
            shift *= square;
    return shift;
}

/* Geometric sum by repeated doubling. */
uint64_t signature_repeat(uint64_t signature, uint64_t size, uint64_t count)
{
    if (signature == 0)
        return 0;
    uint64_t shift = signature_shift(size), sum = 0;
    for (; count > 0; count >>= 1) {
        if (count & 1)
            sum = sum * shift + signature;
        signature = signature * shift + signature;
        shift *= shift;
    }
    return sum;
}

uint64_t signature_append(uint64_t signature, uint64_t behind, uint64_t behind_bytes)
{
    return signature == 0 ? behind : signature * signature_shift(behind_bytes) + behind;
}

struct type type_of(const struct layout *layout)
{
    return (struct type){.empty = layout->size_bytes == 0 && !layout->marked,
                         .marked = layout->marked,
                         .lb = layout->lb_bytes,
                         .ub = layout->ub_bytes,
                         .alignment = layout->alignment,
                         .signature = layout->signature};
}

int type_spread(struct type *type, int64_t offset, uint64_t count, int64_t stride)
{
    int64_t way;
    if (type->empty)
        return 0;
    if (__builtin_mul_overflow(stride, count - 1, &way) ||
        __builtin_add_overflow(type->lb, offset, &type->lb) ||
        __builtin_add_overflow(type->ub, offset, &type->ub) ||
        __builtin_add_overflow(way < 0 ? type->lb : type->ub, way, way < 0 ? &type->lb : &type->ub))
        return -EOVERFLOW;
    return 0;
}

void type_join(struct type *sum, const struct type *part)
{
    if (part->alignment > sum->alignment)
        sum->alignment = part->alignment;
    if (part->empty || (sum->marked && !part->marked))
        return;
    bool first = sum->empty || (part->marked && !sum->marked);
    if (first || part->lb < sum->lb)
        sum->lb = part->lb;
    if (first || part->ub > sum->ub)
        sum->ub = part->ub;
    sum->marked = part->marked;
    sum->empty = false;
}
