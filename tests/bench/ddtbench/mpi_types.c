#include "tests/bench/ddtbench/mpi_types.h"

#include <stdlib.h>

static MPI_Datatype element(const struct form *form)
{
    return form->element_bytes == 4   ? MPI_FLOAT
           : form->element_bytes == 8 ? MPI_DOUBLE
                                      : MPI_C_DOUBLE_COMPLEX;
}

static MPI_Datatype vector(const struct form *form)
{
    const struct form *inner = form->inner[0];
    MPI_Datatype type;
    MPI_Datatype inner_type;

    if (inner->kind == FORM_RUN && form->stride_bytes % form->element_bytes == 0) {
        MPI_Type_vector((int)form->count, (int)inner->count,
                        (int)(form->stride_bytes / form->element_bytes), element(form), &type);
        return type;
    }
    inner_type = mpi_type(inner);
    MPI_Type_create_hvector((int)form->count, 1, form->stride_bytes, inner_type, &type);
    MPI_Type_free(&inner_type);
    return type;
}

static MPI_Datatype structure(const struct form *form)
{
    int count = (int)form->count;
    int *ones = malloc(form->count * sizeof(*ones));
    MPI_Aint *offsets = malloc(form->count * sizeof(*offsets));
    MPI_Datatype *types = malloc(form->count * sizeof(MPI_Datatype));
    MPI_Datatype type;

    if (!ones || !offsets || !types)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < count; i++) {
        ones[i] = 1;
        offsets[i] = form->offsets_bytes[i];
        types[i] = mpi_type(form->inner[i]);
    }
    MPI_Type_create_struct(count, ones, offsets, types, &type);
    for (int i = 0; i < count; i++)
        MPI_Type_free(&types[i]);
    free(ones);
    free(offsets);
    free(types);
    return type;
}

MPI_Datatype mpi_type(const struct form *form)
{
    MPI_Datatype type = MPI_DATATYPE_NULL;

    switch (form->kind) {
    case FORM_RUN:
        MPI_Type_contiguous((int)form->count, element(form), &type);
        break;
    case FORM_VECTOR:
        return vector(form);
    case FORM_INDEXED:
        MPI_Type_create_indexed_block((int)form->count, (int)form->block, form->places,
                                      element(form), &type);
        break;
    case FORM_SUBARRAY:
        MPI_Type_create_subarray((int)form->count, form->sizes, form->part, form->first,
                                 MPI_ORDER_FORTRAN, element(form), &type);
        break;
    case FORM_STRUCT:
        return structure(form);
    }
    return type;
}
