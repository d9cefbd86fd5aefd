/* Errors of the library as those of the MPI. */
#include <errno.h>
#include <stdio.h>

#include "client/mpi/shim.h"

int error_class(int error)
{
    switch (error) {
    case 0:
        return MPI_SUCCESS;
    case -EMSGSIZE:
        return MPI_ERR_TRUNCATE;
    case -ENOMEM:
    case -EOVERFLOW:
        return MPI_ERR_NO_MEM;
    case -ENOBUFS:
        return MPI_ERR_BUFFER;
    case -EINVAL:
        return MPI_ERR_ARG;
    default:
        return MPI_ERR_OTHER;
    }
}

int error_raise(MPI_Comm comm, int error)
{
    const int class = error_class(error);

    if (class == MPI_ERR_OTHER)
        fprintf(stderr, "tca-mpi: rank %d: %s\n", shim.rank, tca_error_text());
    next.Comm_call_errhandler(comm == MPI_COMM_NULL ? MPI_COMM_WORLD : comm, class);
    return class;
}
