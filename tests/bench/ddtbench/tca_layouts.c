#include "tests/bench/ddtbench/tca_layouts.h"

#include <errno.h>
#include <stdlib.h>

static int element(const struct form *form, struct tca_layout **ret_layout)
{
    enum tca_type type = form->element_bytes == 4   ? TCA_TYPE_FLOAT
                         : form->element_bytes == 8 ? TCA_TYPE_DOUBLE
                                                    : TCA_TYPE_COMPLEX_DOUBLE;

    return tca_layout_element(type, ret_layout);
}

/* One of the layouts made of elements. */
static int of_elements(const struct form *form, const struct tca_layout *one,
                       struct tca_layout **ret_layout)
{
    uint64_t sizes[FORM_DIMENSIONS], part[FORM_DIMENSIONS], first[FORM_DIMENSIONS];
    int64_t *places;
    int r;

    if (form->kind == FORM_RUN)
        return tca_layout_array(one, form->count, ret_layout);
    if (form->kind == FORM_SUBARRAY) {
        for (int i = 0; i < FORM_DIMENSIONS; i++) {
            sizes[i] = (uint64_t)form->sizes[i];
            part[i] = (uint64_t)form->part[i];
            first[i] = (uint64_t)form->first[i];
        }
        return tca_layout_subarray(one, (uint32_t)form->count, sizes, part, first,
                                   TCA_ORDER_FORTRAN, ret_layout);
    }
    places = malloc(form->count * sizeof(*places));
    if (!places)
        return -ENOMEM;
    for (uint64_t i = 0; i < form->count; i++)
        places[i] = form->places[i];
    r = tca_layout_indexed_block(one, form->count, form->block, places, ret_layout);
    free(places);
    return r;
}

static int vector(const struct form *form, struct tca_layout **ret_layout)
{
    struct tca_layout *inner;
    int r = tca_layout_of(form->inner[0], &inner);

    if (r < 0)
        return r;
    r = tca_layout_repeat(inner, form->count, form->stride_bytes, ret_layout);
    tca_layout_free(inner);
    return r;
}

static int structure(const struct form *form, struct tca_layout **ret_layout)
{
    struct tca_layout **inners = calloc(form->count, sizeof(struct tca_layout *));
    uint64_t *ones = calloc(form->count, sizeof(*ones));
    int r = inners && ones ? 0 : -ENOMEM;

    for (uint64_t i = 0; i < form->count && r >= 0; i++) {
        ones[i] = 1;
        r = tca_layout_of(form->inner[i], &inners[i]);
    }
    if (r >= 0)
        r = tca_layout_struct(form->count, (const struct tca_layout *const *)inners, ones,
                              form->offsets_bytes, ret_layout);
    for (uint64_t i = 0; i < form->count && inners; i++)
        tca_layout_free(inners[i]);
    free(inners);
    free(ones);
    return r;
}

int tca_layout_of(const struct form *form, struct tca_layout **ret_layout)
{
    struct tca_layout *one;
    int r;

    if (form->kind == FORM_VECTOR)
        return vector(form, ret_layout);
    if (form->kind == FORM_STRUCT)
        return structure(form, ret_layout);
    r = element(form, &one);
    if (r < 0)
        return r;
    r = of_elements(form, one, ret_layout);
    tca_layout_free(one);
    return r;
}
