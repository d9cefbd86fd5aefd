#include <tca-halo.h>

#include "client/fortran/array.h"
#include "client/fortran/result.h"

/* Element i of an array of integers, which may be a section. */
static int64_t integer(const CFI_cdesc_t *array, int64_t i)
{
    return *(const int *)((const char *)array->base_addr + i * array->dim[0].sm);
}

static int halo_args(const CFI_cdesc_t *grid, const CFI_cdesc_t *array, const CFI_cdesc_t *low,
                     const CFI_cdesc_t *high, const CFI_cdesc_t *periodic, const CFI_cdesc_t *other,
                     struct tca_halo_args *args, struct tca_halo_array *described)
{
    const int64_t dimensions = grid->dim[0].extent;
    if (dimensions < 1 || dimensions > TCA_HALO_DIMENSIONS)
        return fortran_refuse("tca_halo_new: a grid has 1 to 7 dimensions");
    if (array->rank < dimensions)
        return fortran_refuse("tca_halo_new: the array has fewer dimensions than the grid");
    if (low->dim[0].extent != dimensions || high->dim[0].extent != dimensions ||
        (periodic && periodic->dim[0].extent != dimensions))
        return fortran_refuse(
            "tca_halo_new: `low`, `high` and `periodic` must be as long as `grid`");
    int result = array_contiguous(array);
    if (result == 0 && other)
        result = array_contiguous(other);
    if (result < 0)
        return result;
    if (other && other->rank != array->rank)
        return fortran_refuse("tca_halo_new: `other` must have the shape of `array`");
    args->dimensions = (uint32_t)dimensions;
    described->element_bytes = array->elem_len;
    for (int i = 0; i < array->rank; i++) {
        if (other && other->dim[i].extent != array->dim[i].extent)
            return fortran_refuse("tca_halo_new: `other` must have the shape of `array`");
        const int64_t d = i - (array->rank - dimensions); /* of the grid, in Fortran's order */
        if (d < 0) {
            described->element_bytes *= (uint64_t)array->dim[i].extent;
            continue;
        }
        const int64_t c = dimensions - 1 - d; /* the same in C's order */
        const int64_t own = array->dim[i].extent - integer(low, d) - integer(high, d);
        if (integer(low, d) < 0 || integer(high, d) < 0 || own < 0)
            return fortran_refuse("tca_halo_new: the halo is wider than the array, or negative");
        if (integer(grid, d) < 1)
            return fortran_refuse("tca_halo_new: a size of the grid is less than 1");
        args->grid[c] = (uint32_t)integer(grid, d);
        args->periodic[c] = periodic && integer(periodic, d);
        described->low[c] = (uint64_t)integer(low, d);
        described->high[c] = (uint64_t)integer(high, d);
        described->extents[c] = (uint64_t)own;
    }
    described->memory[0] = array->base_addr;
    described->memory[1] = other ? other->base_addr : NULL;
    return 0;
}

void tca_f_halo_new(struct tca *const *session, struct tca_halo **halo, const CFI_cdesc_t *grid,
                    const CFI_cdesc_t *array, const CFI_cdesc_t *low, const CFI_cdesc_t *high,
                    const CFI_cdesc_t *periodic, const int *diagonals, const CFI_cdesc_t *other,
                    const int *seat, struct tca_group *const *group, int *ierror)
{
    struct tca_halo_array described = {0};
    struct tca_halo_args args = {.diagonals = diagonals ? (uint32_t)*diagonals : 0,
                                 .arrays = &described,
                                 .array_count = 1,
                                 .plan = {.seat = seat ? (enum tca_seat) * seat : TCA_SEAT_ANY,
                                          .group = group ? *group : NULL}};
    int result = halo_args(grid, array, low, high, periodic, other, &args, &described);
    if (result == 0)
        result = fortran_from(tca_halo_new(*session, &args, halo));
    fortran_done(result, ierror);
}

int tca_f_halo_buffer(struct tca_halo *const *halo)
{
    return (int)tca_halo_buffer(*halo) + 1;
}

void tca_f_halo_start(struct tca_halo *const *halo, int *ierror)
{
    fortran_done(fortran_from(tca_halo_start(*halo)), ierror);
}

int tca_f_halo_test(struct tca_halo *const *halo, int *ierror)
{
    return fortran_tested(fortran_from(tca_halo_test(*halo)), ierror);
}

void tca_f_halo_wait(struct tca_halo *const *halo, const int64_t *timeout_ns, int *ierror)
{
    fortran_done(fortran_from(tca_halo_wait(*halo, fortran_timeout(timeout_ns, TCA_FOREVER))),
                 ierror);
}

void tca_f_halo_free(struct tca_halo **halo)
{
    *halo = tca_halo_free(*halo);
}
