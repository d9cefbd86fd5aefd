/* Reductions of the MPI that tca-coll.h has, too. */
#pragma once

#include <stdbool.h>

#include "client/include/tca-coll.h"

#include "client/mpi/next.h"

/* What a predefined operator does with a predefined datatype. False: tca-coll.h does not do that,
 * or one of the two is of the program. */
bool operator_of(MPI_Op op, MPI_Datatype type, struct tca_coll_operator *ret_operator);
