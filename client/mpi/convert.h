/* Layouts from the contents of datatypes. */
#pragma once

#include "client/mpi/contents.h"
#include "client/mpi/value.h"

/* The layout of a derived datatype made from these contents; inners: the values of its inner
 * datatypes. Its base is that of the datatype; its extent may differ where the MPI pads structures
 * or obeys MPI_LB and MPI_UB. irregular: a bound as in value_new(). Errors: those of the
 * constructors of tca.h; -E2BIG also: an inner datatype has no layout, or the combiner is not
 * known. */
int convert(const struct contents *contents, struct value *const *inners,
            struct tca_layout **ret_layout, uint64_t *ret_irregular);
