#include <errno.h>

#include "client/fortran/array.h"
#include "client/fortran/result.h"

void tca_f_alloc(struct tca *const *session, CFI_cdesc_t *array, const int64_t *shape, int *ierror)
{
    uint64_t bytes = array->elem_len;
    int result = 0;
    for (int i = 0; i < array->rank; i++)
        if (shape[i] < 0 || (shape[i] && bytes > (uint64_t)INT64_MAX / (uint64_t)shape[i]))
            result = fortran_refuse("tca_alloc: the shape is negative, or too large");
        else
            bytes *= (uint64_t)shape[i];
    void *memory;
    if (result == 0)
        result = fortran_from(tca_alloc(*session, bytes ? bytes : 1, &memory));
    if (result == 0) {
        array->base_addr = memory;
        CFI_index_t stride = (CFI_index_t)array->elem_len;
        for (int i = 0; i < array->rank; i++) {
            array->dim[i] = (CFI_dim_t){.lower_bound = 1, .extent = shape[i], .sm = stride};
            stride *= shape[i];
        }
    }
    fortran_done(result, ierror);
}

void tca_f_free(struct tca *const *session, const CFI_cdesc_t *array, int *ierror)
{
    fortran_done(fortran_from(tca_free(*session, array->base_addr)), ierror);
}

void tca_f_region_attach(struct tca *const *session, const CFI_cdesc_t *array,
                         struct tca_region **region, int *ierror)
{
    int64_t low, high;
    array_span_of(array, &low, &high);
    fortran_done(fortran_from(tca_region_attach(*session, (char *)array->base_addr + low,
                                                (uint64_t)(high - low), region)),
                 ierror);
}

void tca_f_region_free(struct tca_region **region, int *ierror)
{
    const int result = fortran_from(tca_region_free(*region));
    if (result == 0)
        *region = NULL;
    fortran_done(result, ierror);
}

void tca_f_handle_of(struct tca *const *session, const CFI_cdesc_t *array,
                     struct tca_f_handle *handle, int *ierror)
{
    int64_t low, high;
    array_span_of(array, &low, &high);
    struct tca_f_handle made = {.offset_bytes = -low,
                                .element_bytes = (int64_t)array->elem_len,
                                .dimensions = array->rank,
                                .type = (int32_t)array_type_of(array)};
    int result = array->rank > TCA_F_DIMENSIONS
                     ? fortran_refuse("tca_handle_of: an array of more than 7 dimensions")
                     : 0;
    for (int i = 0; i < array->rank && result == 0; i++) {
        made.extents[i] = array->dim[i].extent;
        made.strides_bytes[i] = array->dim[i].sm;
    }
    if (result == 0)
        result = fortran_from(tca_handle_of(*session, (char *)array->base_addr + low,
                                            high > low ? (uint64_t)(high - low) : 1, &made.handle));
    if (result == 0)
        *handle = made;
    fortran_done(result, ierror);
}

void tca_f_section(const struct tca_f_handle *handle, const int *first, const int *last,
                   struct tca_f_handle *section, const int *step, int *ierror)
{
    struct tca_f_handle made = *handle;
    int result = array_handle_is_valid(handle)
                     ? 0
                     : fortran_refuse("tca_section: the handle names no array");
    for (int i = 0; result == 0 && i < made.dimensions; i++) {
        const int64_t by = step ? step[i] : 1;
        if (by == 0) {
            result = fortran_refuse("tca_section: a step is 0");
            break;
        }
        const int64_t count = (last[i] - first[i] + by) / by;
        made.extents[i] = count > 0 ? count : 0;
        if (made.extents[i] &&
            (first[i] < 1 || first[i] > handle->extents[i] || first[i] + (count - 1) * by < 1 ||
             first[i] + (count - 1) * by > handle->extents[i]))
            result =
                fortran_refuse("tca_section: an index is outside the array (they count from 1)");
        made.offset_bytes += made.extents[i] ? (first[i] - 1) * handle->strides_bytes[i] : 0;
        made.strides_bytes[i] *= by;
    }
    if (result == 0)
        *section = made;
    fortran_done(result, ierror);
}
