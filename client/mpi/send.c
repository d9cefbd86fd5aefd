/* Sends: blocking, nonblocking and made for later. */
#include <errno.h>

#include "client/mpi/request.h"

struct communicator *send_check(const struct call *call)
{
    struct communicator *communicator = communicator_find(call->comm);

    if (!communicator)
        counted[COUNTED_FOREIGN]++;
    else if (call->rank == MPI_PROC_NULL)
        counted[COUNTED_NULL]++;
    else if (call->count < 0 || call->rank < 0 || call->rank >= communicator->size ||
             call->tag < 0 || call->tag > shim.tag_max || call->type == MPI_DATATYPE_NULL)
        counted[COUNTED_ARGUMENTS]++;
    else
        return communicator;
    return NULL;
}

int send_new(const struct call *call, struct communicator *communicator, enum send_mode mode,
             bool persistent, struct request **ret_request)
{
    struct request *request = request_new(REQUEST_SEND, communicator);

    if (!request)
        return -ENOMEM;
    request->mode = mode;
    request->persistent = persistent;
    request->rank = call->rank;
    request->tag = call->tag;
    int r = datatype_use_init(&request->use, call->address, call->count, call->type, DATATYPE_SEND);
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

/* A blocking send. False: the MPI gets the call. */
static bool send_now(const struct call *call, enum send_mode mode, int *ret_class)
{
    struct request *request;
    MPI_Comm comm = call->comm;

    if (!shim.active)
        return false;
    shim_lock();
    struct communicator *communicator = send_check(call);
    int r = communicator ? send_new(call, communicator, mode, false, &request) : -EINVAL;
    if (r == 0) {
        request_wait(request);
        r = request_finish(request, MPI_STATUS_IGNORE, &comm);
    } else if (r == -EINVAL) {
        shim_unlock();
        return false;
    }
    shim_unlock();
    *ret_class = r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
    return true;
}

/* A request for the program. False: the MPI gets the call. */
static bool send_later(const struct call *call, enum send_mode mode, bool persistent,
                       MPI_Request *ret_handle, int *ret_class)
{
    struct request *request;

    if (!shim.active)
        return false;
    shim_lock();
    struct communicator *communicator = send_check(call);
    int r = communicator ? send_new(call, communicator, mode, persistent, &request) : -EINVAL;
    if (r == 0)
        *ret_handle = request_handle(request);
    shim_unlock();
    if (r == -EINVAL)
        return false;
    *ret_class = r < 0 ? error_raise(call->comm, r) : MPI_SUCCESS;
    return true;
}

#define CALL                                                                                       \
    const struct call call = {address, count, type, rank, tag, comm};                              \
    int class

#define BLOCKING(name, number, mode)                                                               \
    int MPI_##name(const void *address, number count, MPI_Datatype type, int rank, int tag,        \
                   MPI_Comm comm)                                                                  \
    {                                                                                              \
        CALL;                                                                                      \
        return send_now(&call, mode, &class) ? class                                               \
                                             : next.name(address, count, type, rank, tag, comm);   \
    }

#define LATER(name, number, mode, persistent)                                                      \
    int MPI_##name(const void *address, number count, MPI_Datatype type, int rank, int tag,        \
                   MPI_Comm comm, MPI_Request *request)                                            \
    {                                                                                              \
        CALL;                                                                                      \
        return send_later(&call, mode, persistent, request, &class)                                \
                   ? class                                                                         \
                   : next.name(address, count, type, rank, tag, comm, request);                    \
    }

BLOCKING(Send, int, SEND_STANDARD)
BLOCKING(Ssend, int, SEND_SYNCHRONOUS)
BLOCKING(Bsend, int, SEND_BUFFERED)
BLOCKING(Rsend, int, SEND_STANDARD)
LATER(Isend, int, SEND_STANDARD, false)
LATER(Issend, int, SEND_SYNCHRONOUS, false)
LATER(Ibsend, int, SEND_BUFFERED, false)
LATER(Irsend, int, SEND_STANDARD, false)
LATER(Send_init, int, SEND_STANDARD, true)
LATER(Ssend_init, int, SEND_SYNCHRONOUS, true)
LATER(Bsend_init, int, SEND_BUFFERED, true)
LATER(Rsend_init, int, SEND_STANDARD, true)
#ifndef OPEN_MPI
BLOCKING(Send_c, MPI_Count, SEND_STANDARD)
BLOCKING(Ssend_c, MPI_Count, SEND_SYNCHRONOUS)
BLOCKING(Bsend_c, MPI_Count, SEND_BUFFERED)
BLOCKING(Rsend_c, MPI_Count, SEND_STANDARD)
LATER(Isend_c, MPI_Count, SEND_STANDARD, false)
LATER(Issend_c, MPI_Count, SEND_SYNCHRONOUS, false)
LATER(Ibsend_c, MPI_Count, SEND_BUFFERED, false)
LATER(Irsend_c, MPI_Count, SEND_STANDARD, false)
LATER(Send_init_c, MPI_Count, SEND_STANDARD, true)
LATER(Ssend_init_c, MPI_Count, SEND_SYNCHRONOUS, true)
LATER(Bsend_init_c, MPI_Count, SEND_BUFFERED, true)
LATER(Rsend_init_c, MPI_Count, SEND_STANDARD, true)
#endif
