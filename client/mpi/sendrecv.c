/* A send and a receive in one call. */
#include <errno.h>

#include "client/mpi/request.h"

/* The sends of MPI_Sendrecv_replace() go from a copy. */
static int send_copy(const struct call *call, struct communicator *communicator,
                     struct request **ret_request)
{
    struct request *request;
    int r = send_new(call, communicator, SEND_STANDARD, true, &request);

    if (r < 0)
        return r;
    r = datatype_use_start(&request->use);
    if (r == 0 && !(request->copy = request_copy(&request->use)))
        r = -ENOMEM;
    if (r == 0) {
        const struct datatype_use copy = {
            .buffer = {.address = request->copy, .bytes = request->use.bytes},
            .bytes = request->use.bytes};
        datatype_use_deinit(&request->use);
        request->use = copy;
        r = request_start(request);
    }
    if (r < 0)
        request_free(request);
    else
        *ret_request = request;
    return r;
}

static int send_part(const struct call *call, struct communicator *communicator, bool replace,
                     struct request **ret_request)
{
    return replace ? send_copy(call, communicator, ret_request)
                   : send_new(call, communicator, SEND_STANDARD, false, ret_request);
}

/* The receive with the send behind it. -EINVAL: the MPI gets the call. */
static int both_new(const struct call *send, const struct call *receive, bool replace,
                    struct request **ret_request)
{
    const bool sends = send->rank != MPI_PROC_NULL, receives = receive->rank != MPI_PROC_NULL;
    struct communicator *communicator = sends ? send_check(send) : receive_check(receive);
    struct request *request, *sent = NULL;
    int r;

    if (!communicator || (sends && receives && !receive_check(receive)))
        return -EINVAL;
    if (replace && sends && (r = send_part(send, communicator, true, &sent)) < 0)
        return r; /* first: the receive may overwrite it */
    if (receives)
        r = receive_new(receive, communicator, false, &request);
    else
        r = (request = request_new(REQUEST_BOTH, communicator)) ? 0 : -ENOMEM;
    if (r == 0 && !replace && sends) {
        r = send_part(send, communicator, false, &sent);
        if (r < 0) {
            request->carried = tca_msg_release(request->carried);
            requests_active -= request->active;
            request_free(request);
        }
    }
    if (r < 0 && sent)
        request_detach(sent);
    if (r < 0)
        return r;
    requests_active += !request->active;
    request->active = true;
    request->kind = REQUEST_BOTH;
    request->rank = receive->rank;
    if (sent) {
        requests_active -= sent->active; /* one of the two is counted */
        sent->active = false;
        request->behind = sent;
    }
    *ret_request = request;
    return 0;
}

/* False: the MPI gets the call. */
static bool both(const struct call *send, const struct call *receive, bool replace,
                 MPI_Status *status, MPI_Request *ret_handle, int *ret_class)
{
    struct request *request;
    MPI_Comm comm = send->comm;

    if (!shim.active)
        return false;
    shim_lock();
    int r = both_new(send, receive, replace, &request);
    if (r == 0 && ret_handle) {
        *ret_handle = request_handle(request);
    } else if (r == 0) {
        request_wait(request);
        r = request_finish(request, status, &comm);
        r = r == -EINVAL ? -EIO : r;
    }
    shim_unlock();
    if (r == -EINVAL)
        return false;
    *ret_class = r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
    return true;
}

#define SENDRECV(name, number, last, given, now, later)                                            \
    int MPI_##name(const void *out, number out_count, MPI_Datatype out_type, int to, int out_tag,  \
                   void *in, number in_count, MPI_Datatype in_type, int from, int in_tag,          \
                   MPI_Comm comm, last given)                                                      \
    {                                                                                              \
        const struct call send = {out, out_count, out_type, to, out_tag, comm};                    \
        const struct call receive = {in, in_count, in_type, from, in_tag, comm};                   \
        int class;                                                                                 \
                                                                                                   \
        return both(&send, &receive, false, now, later, &class)                                    \
                   ? class                                                                         \
                   : next.name(out, out_count, out_type, to, out_tag, in, in_count, in_type, from, \
                               in_tag, comm, given);                                               \
    }

#define REPLACE(name, number, last, given, now, later)                                             \
    int MPI_##name(void *data, number count, MPI_Datatype type, int to, int out_tag, int from,     \
                   int in_tag, MPI_Comm comm, last given)                                          \
    {                                                                                              \
        const struct call send = {data, count, type, to, out_tag, comm};                           \
        const struct call receive = {data, count, type, from, in_tag, comm};                       \
        int class;                                                                                 \
                                                                                                   \
        return both(&send, &receive, true, now, later, &class)                                     \
                   ? class                                                                         \
                   : next.name(data, count, type, to, out_tag, from, in_tag, comm, given);         \
    }

SENDRECV(Sendrecv, int, MPI_Status *, status, status, NULL)
REPLACE(Sendrecv_replace, int, MPI_Status *, status, status, NULL)
#ifndef OPEN_MPI
SENDRECV(Sendrecv_c, MPI_Count, MPI_Status *, status, status, NULL)
REPLACE(Sendrecv_replace_c, MPI_Count, MPI_Status *, status, status, NULL)
SENDRECV(Isendrecv, int, MPI_Request *, request, MPI_STATUS_IGNORE, request)
REPLACE(Isendrecv_replace, int, MPI_Request *, request, MPI_STATUS_IGNORE, request)
SENDRECV(Isendrecv_c, MPI_Count, MPI_Request *, request, MPI_STATUS_IGNORE, request)
REPLACE(Isendrecv_replace_c, MPI_Count, MPI_Request *, request, MPI_STATUS_IGNORE, request)
#endif
