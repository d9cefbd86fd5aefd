/* Starts of persistent requests. Each start is a message of its own, which matches what it meets:
 * MPI has no pairs of persistent requests. */
#include <errno.h>

#include "client/mpi/request.h"

int MPI_Start(MPI_Request *handle)
{
    struct request *request = handle ? request_of(*handle) : NULL;

    if (!request)
        return next.Start(handle);
    shim_lock();
    MPI_Comm comm = request->communicator ? request->communicator->handle : MPI_COMM_NULL;
    int r = request->persistent && !request->active ? request_start(request) : -EINVAL;
    shim_unlock();
    return r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
}

int MPI_Startall(int count, MPI_Request handles[])
{
    bool mixed = false;
    int r = MPI_SUCCESS;

    for (int i = 0; handles && i < count; i++)
        mixed |= request_of(handles[i]) != NULL;
    if (!mixed)
        return next.Startall(count, handles);
    for (int i = 0; i < count && r == MPI_SUCCESS; i++)
        r = MPI_Start(&handles[i]);
    return r;
}
