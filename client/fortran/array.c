#include "client/fortran/array.h"
#include "client/fortran/result.h"

int64_t array_count_of(const CFI_cdesc_t *array)
{
    int64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= array->dim[i].extent;
    return count;
}

bool array_is_contiguous(const CFI_cdesc_t *array)
{
    return array_count_of(array) == 0 || CFI_is_contiguous(array) || array->rank == 0;
}

int array_contiguous(const CFI_cdesc_t *array)
{
    return array_is_contiguous(array)
               ? 0
               : fortran_refuse(
                     "this call needs a contiguous array: copy the section, or put it with a plan");
}

/* Type of the elements; TCA_TYPE_BYTE: none that tca.h has. */
enum tca_type array_type_of(const CFI_cdesc_t *array)
{
    const uint32_t bytes = array->type >> CFI_type_kind_shift;
    switch (array->type & CFI_type_mask) {
    case CFI_type_Integer:
        return bytes == 1   ? TCA_TYPE_INT8
               : bytes == 2 ? TCA_TYPE_INT16
               : bytes == 4 ? TCA_TYPE_INT32
               : bytes == 8 ? TCA_TYPE_INT64
                            : TCA_TYPE_BYTE;
    case CFI_type_Real:
        return bytes == 4 ? TCA_TYPE_FLOAT : bytes == 8 ? TCA_TYPE_DOUBLE : TCA_TYPE_BYTE;
    case CFI_type_Complex:
        return bytes == 4   ? TCA_TYPE_COMPLEX_FLOAT
               : bytes == 8 ? TCA_TYPE_COMPLEX_DOUBLE
                            : TCA_TYPE_BYTE;
    default:
        return TCA_TYPE_BYTE;
    }
}

/* Of elements at strides, in Fortran's order. */
int array_layout_of(enum tca_type type, uint64_t element_bytes, uint32_t dimensions,
                    const int64_t *extents, const int64_t *strides, struct tca_layout **ret_layout)
{
    struct tca_layout *layout;
    int result = type == TCA_TYPE_BYTE ? tca_layout_contiguous(element_bytes, &layout)
                                       : tca_layout_element(type, &layout);
    for (uint32_t i = 0; i < dimensions && result == 0; i++) {
        struct tca_layout *inner = layout;
        result = tca_layout_repeat(inner, (uint64_t)extents[i], strides[i], &layout);
        tca_layout_free(inner);
    }
    if (result == 0)
        *ret_layout = layout;
    return fortran_from(result);
}

int array_layout(const CFI_cdesc_t *array, struct tca_layout **ret_layout)
{
    int64_t extents[CFI_MAX_RANK], strides[CFI_MAX_RANK];
    for (int i = 0; i < array->rank; i++) {
        extents[i] = array->dim[i].extent;
        strides[i] = array->dim[i].sm;
    }
    return array_layout_of(array_type_of(array), array->elem_len, (uint32_t)array->rank, extents,
                           strides, ret_layout);
}

/* The bytes that an array touches, from its first element on: from, up to. */
void array_span_of(const CFI_cdesc_t *array, int64_t *ret_low, int64_t *ret_high)
{
    *ret_low = *ret_high = 0;
    if (array_count_of(array) == 0)
        return;
    *ret_high = (int64_t)array->elem_len;
    for (int i = 0; i < array->rank; i++) {
        const int64_t end = (array->dim[i].extent - 1) * array->dim[i].sm;
        *(end < 0 ? ret_low : ret_high) += end;
    }
}

void tca_f_sync(CFI_cdesc_t *array)
{
    (void)array;
}

uint64_t array_bytes_of(const CFI_cdesc_t *array)
{
    return (uint64_t)array_count_of(array) * array->elem_len;
}

bool array_handle_is_valid(const struct tca_f_handle *handle)
{
    return handle->dimensions >= 0 && handle->dimensions <= TCA_F_DIMENSIONS &&
           handle->element_bytes > 0;
}
