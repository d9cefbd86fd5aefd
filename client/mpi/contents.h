/* How a datatype was made, read from the MPI. */
#pragma once

#include <mpi.h>
#include <stddef.h>
#include <stdint.h>

enum { CONTENTS_VALUES = 96, CONTENTS_INNERS = 32 };

/*
 * The arguments of the constructor in its order, however the MPI stores them. Of the combiners that
 * differ only by the types of their arguments, it is the one of today's C.
 */
struct contents {
    int combiner;
    size_t value_count, inner_count;
    int64_t *values;
    MPI_Datatype *inners; /* references that the caller frees unless they are predefined */
    /* Where they are if they are few. */
    int64_t few_values[CONTENTS_VALUES];
    MPI_Datatype few_inners[CONTENTS_INNERS];
};

/* -EINVAL: the MPI does not know the datatype; -ENOMEM. */
int contents_init(struct contents *contents, MPI_Datatype type);
/* Does not free the inner datatypes. */
void contents_deinit(struct contents *contents);
