/* Receives, and sends with receives. */
#include <errno.h>

#include "client/mpi/request.h"

struct communicator *receive_check(const struct call *call)
{
    struct communicator *communicator = communicator_find(call->comm);

    if (!communicator)
        counted[COUNTED_FOREIGN]++;
    else if (call->rank == MPI_PROC_NULL)
        counted[COUNTED_NULL]++;
    else if (call->count < 0 || call->rank >= communicator->size ||
             (call->rank < 0 && call->rank != MPI_ANY_SOURCE) ||
             (call->tag < 0 && call->tag != MPI_ANY_TAG) || call->tag > shim.tag_max ||
             call->type == MPI_DATATYPE_NULL)
        counted[COUNTED_ARGUMENTS]++;
    else
        return communicator;
    return NULL;
}

int receive_new(const struct call *call, struct communicator *communicator, bool persistent,
                struct request **ret_request)
{
    struct request *request = request_new(REQUEST_RECEIVE, communicator);

    if (!request)
        return -ENOMEM;
    request->persistent = persistent;
    request->rank = call->rank;
    request->tag = call->tag;
    int r =
        datatype_use_init(&request->use, call->address, call->count, call->type, DATATYPE_RECEIVE);
    if (r == 0 && !persistent)
        r = request_start(request);
    if (r < 0) {
        if (r == -EINVAL)
            counted[COUNTED_ARGUMENTS]++;
        request_free(request);
        return r;
    }
    *ret_request = request;
    return 0;
}

static bool receive_now(const struct call *call, MPI_Status *status, int *ret_class)
{
    struct request *request;
    MPI_Comm comm = call->comm;

    if (!shim.active)
        return false;
    shim_lock();
    struct communicator *communicator = receive_check(call);
    int r = communicator ? receive_new(call, communicator, false, &request) : -EINVAL;
    if (r == 0) {
        request_wait(request);
        r = request_finish(request, status, &comm);
    } else if (r == -EINVAL) {
        shim_unlock();
        return false;
    }
    shim_unlock();
    *ret_class = r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
    return true;
}

static bool receive_later(const struct call *call, bool persistent, MPI_Request *ret_handle,
                          int *ret_class)
{
    struct request *request;

    if (!shim.active)
        return false;
    shim_lock();
    struct communicator *communicator = receive_check(call);
    int r = communicator ? receive_new(call, communicator, persistent, &request) : -EINVAL;
    if (r == 0)
        *ret_handle = request_handle(request);
    shim_unlock();
    if (r == -EINVAL)
        return false;
    *ret_class = r < 0 ? error_raise(call->comm, r) : MPI_SUCCESS;
    return true;
}

#define NOW(name, number)                                                                          \
    int MPI_##name(void *address, number count, MPI_Datatype type, int rank, int tag,              \
                   MPI_Comm comm, MPI_Status *status)                                              \
    {                                                                                              \
        const struct call call = {address, count, type, rank, tag, comm};                          \
        int class;                                                                                 \
                                                                                                   \
        return receive_now(&call, status, &class)                                                  \
                   ? class                                                                         \
                   : next.name(address, count, type, rank, tag, comm, status);                     \
    }

#define LATER(name, number, persistent)                                                            \
    int MPI_##name(void *address, number count, MPI_Datatype type, int rank, int tag,              \
                   MPI_Comm comm, MPI_Request *request)                                            \
    {                                                                                              \
        const struct call call = {address, count, type, rank, tag, comm};                          \
        int class;                                                                                 \
                                                                                                   \
        return receive_later(&call, persistent, request, &class)                                   \
                   ? class                                                                         \
                   : next.name(address, count, type, rank, tag, comm, request);                    \
    }

NOW(Recv, int)
LATER(Irecv, int, false)
LATER(Recv_init, int, true)
#ifndef OPEN_MPI
NOW(Recv_c, MPI_Count)
LATER(Irecv_c, MPI_Count, false)
LATER(Recv_init_c, MPI_Count, true)
#endif
