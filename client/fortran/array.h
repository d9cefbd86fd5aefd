/* Arrays of Fortran: what their C descriptors say, as layouts; in Fortran's order, the first index
 * varies fastest. */
#pragma once

#include <ISO_Fortran_binding.h>
#include <stdbool.h>
#include <stdint.h>
#include <tca.h>

enum { TCA_F_DIMENSIONS = 7 };

/* The Fortran type tca_handle. */
struct tca_f_handle {
    struct tca_handle handle;
    int64_t offset_bytes; /* of the first element, in what the handle covers */
    int64_t extents[TCA_F_DIMENSIONS], strides_bytes[TCA_F_DIMENSIONS];
    int64_t element_bytes;
    int32_t dimensions;
    int32_t type; /* enum tca_type; TCA_TYPE_BYTE: of other elements */
};

int64_t array_count_of(const CFI_cdesc_t *array);
uint64_t array_bytes_of(const CFI_cdesc_t *array);
bool array_is_contiguous(const CFI_cdesc_t *array);
/* 0, or an error that says so. */
int array_contiguous(const CFI_cdesc_t *array);
/* Type of the elements; TCA_TYPE_BYTE: none that tca.h has. */
enum tca_type array_type_of(const CFI_cdesc_t *array);
/* Of elements at strides. */
int array_layout_of(enum tca_type type, uint64_t element_bytes, uint32_t dimensions,
                    const int64_t *extents, const int64_t *strides, struct tca_layout **ret_layout);
int array_layout(const CFI_cdesc_t *array, struct tca_layout **ret_layout);
/* The bytes that an array touches, from its first element on: from, up to. */
void array_span_of(const CFI_cdesc_t *array, int64_t *ret_low, int64_t *ret_high);
bool array_handle_is_valid(const struct tca_f_handle *handle);
