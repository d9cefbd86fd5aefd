/* Probes, and receives of messages that a probe has matched. */
#include <errno.h>

#include "client/mpi/request.h"
#include "client/mpi/status.h"

/* The communicator of a probe; NULL: the MPI gets the call. The lock is held. */
static struct communicator *check(int rank, int tag, MPI_Comm comm)
{
    const struct call call = {.rank = rank, .tag = tag, .comm = comm, .type = MPI_BYTE};

    return receive_check(&call);
}

/* Looks once: 0, and the message if it is to be taken; -ETIMEDOUT: none is here. */
static int look(struct communicator *communicator, int rank, int tag, MPI_Status *status,
                struct tca_msg_message **ret_message)
{
    struct tca_msg_status got;
    const struct tca_msg_envelope envelope = {
        .rank = rank == MPI_ANY_SOURCE ? TCA_MSG_ANY : communicator_world_rank(communicator, rank),
        .tag = tag == MPI_ANY_TAG ? TCA_MSG_ANY : (uint32_t)tag,
        .context = communicator->context,
    };
    int r = ret_message ? tca_msg_take(shim.msg, &envelope, 0, ret_message, &got)
                        : tca_msg_probe_from(shim.msg, &envelope, 0, &got);

    if (r == 0)
        status_set(status, communicator_rank(communicator, got.rank), (int)got.tag, got.bytes,
                   false);
    return r;
}

/* The handle of a message that was taken. */
static int keep(struct communicator *communicator, struct tca_msg_message *message,
                MPI_Message *ret_handle)
{
    struct request *request = request_new(REQUEST_MESSAGE, communicator);

    if (!request)
        return -ENOMEM;
    request->message = message;
    *ret_handle = (MPI_Message)request_handle(request);
    return 0;
}

/* A probe of all kinds: flag NULL: waits; handle NULL: leaves the message. False: the MPI gets the
 * call. */
static bool probe(int rank, int tag, MPI_Comm comm, int *flag, MPI_Message *handle,
                  MPI_Status *status, int *ret_class)
{
    struct tca_msg_message *message;
    uint64_t round = 0;

    if (!shim.active)
        return false;
    shim_lock();
    struct communicator *communicator = check(rank, tag, comm);
    int r = communicator ? -ETIMEDOUT : -EINVAL;
    while (r == -ETIMEDOUT) {
        r = look(communicator, rank, tag, status, handle ? &message : NULL);
        if (r != -ETIMEDOUT || flag)
            break;
        shim_unlock();
        progress_pause(&round);
        shim_lock();
    }
    if (r == 0 && handle)
        r = keep(communicator, message, handle);
    shim_unlock();
    if (r == -EINVAL)
        return false;
    if (flag)
        *flag = r == 0;
    if (r == -ETIMEDOUT) {
        progress_poll();
        r = 0;
    }
    *ret_class = r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
    return true;
}

int MPI_Probe(int rank, int tag, MPI_Comm comm, MPI_Status *status)
{
    int class;

    return probe(rank, tag, comm, NULL, NULL, status, &class) ? class
                                                              : next.Probe(rank, tag, comm, status);
}

int MPI_Iprobe(int rank, int tag, MPI_Comm comm, int *flag, MPI_Status *status)
{
    int class;

    return probe(rank, tag, comm, flag, NULL, status, &class)
               ? class
               : next.Iprobe(rank, tag, comm, flag, status);
}

int MPI_Mprobe(int rank, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status)
{
    int class;

    return probe(rank, tag, comm, NULL, message, status, &class)
               ? class
               : next.Mprobe(rank, tag, comm, message, status);
}

int MPI_Improbe(int rank, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status)
{
    int class;

    return probe(rank, tag, comm, flag, message, status, &class)
               ? class
               : next.Improbe(rank, tag, comm, flag, message, status);
}

/* ---- receives */

static struct request *ours(const MPI_Message *handle)
{
    struct request *request = handle ? request_of((MPI_Request)*handle) : NULL;

    return request && request->kind == REQUEST_MESSAGE ? request : NULL;
}

/* Makes the receive of a message. The lock is held. */
static int begin(struct request *request, void *address, MPI_Count count, MPI_Datatype type)
{
    int r = count < 0 || type == MPI_DATATYPE_NULL
                ? -EINVAL
                : datatype_use_init(&request->use, address, count, type, DATATYPE_RECEIVE);

    if (r == 0)
        r = datatype_use_start(&request->use);
    if (r == 0) {
        r = tca_msg_recv_message(request->message, &request->use.buffer, &request->carried);
        if (r != -EINVAL && r != -ENOMEM)
            request->message = NULL; /* released */
    }
    if (r < 0)
        return r;
    request->kind = REQUEST_RECEIVE;
    request->active = true;
    requests_active++;
    return 0;
}

static int receive_message(void *address, MPI_Count count, MPI_Datatype type, MPI_Message *handle,
                           MPI_Status *status, MPI_Request *ret_handle)
{
    struct request *request = ours(handle);

    shim_lock();
    MPI_Comm comm = request->communicator->handle;
    int r = begin(request, address, count, type);
    if (r == 0)
        *handle = MPI_MESSAGE_NULL;
    if (r == 0 && ret_handle) {
        *ret_handle = request_handle(request);
    } else if (r == 0) {
        request_wait(request);
        r = request_finish(request, status, &comm);
    }
    shim_unlock();
    return r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
}

#define MRECV(suffix, number)                                                                      \
    int MPI_Mrecv##suffix(void *address, number count, MPI_Datatype type, MPI_Message *message,    \
                          MPI_Status *status)                                                      \
    {                                                                                              \
        return ours(message) ? receive_message(address, count, type, message, status, NULL)        \
                             : next.Mrecv##suffix(address, count, type, message, status);          \
    }                                                                                              \
    int MPI_Imrecv##suffix(void *address, number count, MPI_Datatype type, MPI_Message *message,   \
                           MPI_Request *request)                                                   \
    {                                                                                              \
        return ours(message)                                                                       \
                   ? receive_message(address, count, type, message, MPI_STATUS_IGNORE, request)    \
                   : next.Imrecv##suffix(address, count, type, message, request);                  \
    }

MRECV(, int)
#ifdef OPEN_MPI
MPI_Fint MPI_Message_c2f(MPI_Message message)
{
    return ours(&message) ? MPI_Request_c2f((MPI_Request)message) : next.Message_c2f(message);
}

MPI_Message MPI_Message_f2c(MPI_Fint number)
{
    return number < INT32_MIN + REQUESTS_MAX ? (MPI_Message)MPI_Request_f2c(number)
                                             : next.Message_f2c(number);
}
#else
MRECV(_c, MPI_Count)
#endif
