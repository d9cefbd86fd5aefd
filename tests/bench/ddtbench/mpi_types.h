/* mpi_types: a form as an MPI datatype, made with the constructor of the same name. */
#pragma once

#include <mpi.h>

#include "tests/bench/ddtbench/form.h"

/* Not committed; the caller frees it. */
MPI_Datatype mpi_type(const struct form *form);
