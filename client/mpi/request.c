/* Requests: their memory, and their way from start to end. */
#include "client/mpi/request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client/mpi/status.h"

struct request *requests;
uint32_t requests_active;
static uint32_t used = 1; /* 0 is MPI_REQUEST_NULL */
static struct request *unused, *detached;

int requests_init(void)
{
    void *memory = mmap(NULL, REQUESTS_MAX * sizeof(struct request), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return -ENOMEM;
    requests = memory;
    return 0;
}

void requests_deinit(void)
{
    if (requests)
        munmap(requests, REQUESTS_MAX * sizeof(struct request));
    requests = unused = detached = NULL;
}

struct request *request_new(enum request_kind kind, struct communicator *communicator)
{
    struct request *request = unused;

    if (request)
        unused = request->next;
    else if (used < REQUESTS_MAX)
        request = &requests[used++];
    else
        return NULL;
    *request = (struct request){.kind = kind, .communicator = communicator};
#ifdef OPEN_MPI
    request->number = INT32_MIN + (MPI_Fint)(request - requests); /* below all of the MPI's */
#endif
    if (communicator)
        communicator->uses++;
    return request;
}

void request_free(struct request *request)
{
    if (request->behind)
        request_free(request->behind);
    datatype_use_deinit(&request->use);
    free(request->copy);
    if (request->communicator)
        communicator_release(request->communicator);
    request->next = unused;
    unused = request;
}

/* ---- start */

static uint32_t world_rank(const struct request *request)
{
    return request->rank == MPI_ANY_SOURCE
               ? TCA_MSG_ANY
               : communicator_world_rank(request->communicator, request->rank);
}

static void count_send(const struct request *request)
{
    counted[request->use.bytes > TCA_MSG_EAGER_BYTES ? COUNTED_LONG : COUNTED_SHORT]++;
    counted[COUNTED_LAYOUT] += request->use.buffer.layout != NULL;
    counted[COUNTED_PACKED] += request->use.packed != NULL;
    counted[COUNTED_BYTES] += request->use.bytes;
}

void *request_copy(const struct datatype_use *use)
{
    uint64_t position = 0;
    void *copy = malloc(use->bytes + 1);

    if (!copy)
        return NULL;
    if (use->buffer.layout)
        tca_pack(use->buffer.layout, use->buffer.address, copy, use->bytes, &position);
    else if (use->bytes > 0)
        memcpy(copy, use->buffer.address, use->bytes);
    return copy;
}

/* A buffered send: another request, which nobody waits for, sends a copy. */
static int start_copy(struct request *request, const struct tca_msg_envelope *envelope)
{
    int r = buffer_take(request->use.bytes);

    if (r < 0)
        return r;
    struct request *sender = request_new(REQUEST_SEND, request->communicator);
    struct tca_msg_buffer buffer = {.bytes = request->use.bytes};
    r = -ENOMEM;
    if (sender && (buffer.address = sender->copy = request_copy(&request->use)))
        r = tca_msg_send_to(shim.msg, envelope, &buffer, &sender->carried);
    if (r < 0) {
        buffer_give(request->use.bytes);
        if (sender)
            request_free(sender);
        return r;
    }
    sender->mode = SEND_BUFFERED;
    sender->use.bytes = request->use.bytes;
    sender->active = true;
    requests_active++;
    request_detach(sender);
    return 0;
}

static int start_send(struct request *request)
{
    const struct tca_msg_envelope envelope = {
        .rank = world_rank(request),
        .tag = (uint32_t)request->tag,
        .context = request->communicator->context,
        .flags = request->mode == SEND_SYNCHRONOUS ? TCA_MSG_SYNCHRONOUS : 0,
    };

    count_send(request);
    return request->mode == SEND_BUFFERED
               ? start_copy(request, &envelope)
               : tca_msg_send_to(shim.msg, &envelope, &request->use.buffer, &request->carried);
}

static int start_receive(struct request *request)
{
    const struct tca_msg_envelope envelope = {
        .rank = world_rank(request),
        .tag = request->tag == MPI_ANY_TAG ? TCA_MSG_ANY : (uint32_t)request->tag,
        .context = request->communicator->context,
    };

    return tca_msg_recv_from(shim.msg, &envelope, &request->use.buffer, &request->carried);
}

int request_start(struct request *request)
{
    int r = datatype_use_start(&request->use);

    if (r == 0)
        r = request->kind == REQUEST_SEND ? start_send(request) : start_receive(request);
    request->active = r == 0;
    requests_active += request->active;
    return r;
}

/* ---- end */

static bool is_duplicated(struct request *request)
{
    struct request_idup *idup = &request->idup;
    int flag = idup->done;

    if (!flag)
        next.Testall(2, idup->parts, &flag, MPI_STATUSES_IGNORE);
    idup->done = flag;
    return flag;
}

bool request_is_done(struct request *request)
{
    if (request->kind == REQUEST_IDUP)
        return is_duplicated(request);
    return (!request->carried || tca_msg_is_done(request->carried) != 0) &&
           (!request->behind || request_is_done(request->behind));
}

bool request_test(struct request *request)
{
    if (request->carried && !request->behind)
        return tca_msg_test(request->carried) != 0;
    tca_msg_progress(shim.msg);
    return request_is_done(request);
}

void request_wait(struct request *request)
{
    uint64_t round = 0;

    while (!request_test(request)) {
        shim_unlock();
        progress_pause(&round);
        shim_lock();
    }
}

void request_cancel(struct request *request)
{
    if (request->carried && request->kind == REQUEST_RECEIVE)
        tca_msg_cancel(request->carried);
}

/* What a receive has got. */
static void set_status(const struct request *request, int result, MPI_Status *status)
{
    struct tca_msg_status got;

    if (result == -ECANCELED) {
        status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, true);
        return;
    }
    tca_msg_status(request->carried, &got);
    status_set(status,
               got.rank == TCA_MSG_ANY ? MPI_ANY_SOURCE
                                       : communicator_rank(request->communicator, got.rank),
               got.tag == TCA_MSG_ANY ? MPI_ANY_TAG : (int)got.tag, got.bytes, false);
}

void request_peek(const struct request *request, MPI_Status *status)
{
    if (request->carried && request->kind != REQUEST_SEND)
        set_status(request, tca_msg_is_done(request->carried), status);
    else if (request->kind == REQUEST_BOTH && request->rank == MPI_PROC_NULL)
        status_set(status, MPI_PROC_NULL, MPI_ANY_TAG, 0, false);
    else
        status_empty(status);
}

/* Of one that is no longer active. */
static void end(struct request *request)
{
    if (request->mode == SEND_BUFFERED && request->copy)
        buffer_give(request->use.bytes);
    if (!request->persistent)
        request_free(request);
}

static int finish_idup(struct request *request, MPI_Status *status)
{
    const struct request_idup idup = request->idup;

    status_empty(status);
    request_free(request);
    shim_unlock();
    communicator_adopt_with(*idup.made, idup.context);
    shim_lock();
    return 0;
}

/* Ends what the library does for it. 0, or a negative errno. */
static int release(struct request *request)
{
    int r = request->carried ? tca_msg_is_done(request->carried) : 0;

    if (r > 0 && request->kind != REQUEST_SEND) {
        counted[COUNTED_RECEIVED]++;
        r = datatype_use_finish(&request->use);
    }
    request->carried = tca_msg_release(request->carried);
    return r == -ECANCELED || r > 0 ? 0 : r;
}

int request_finish(struct request *request, MPI_Status *status, MPI_Comm *ret_comm)
{
    int r = 0;

    if (request->kind == REQUEST_IDUP)
        return finish_idup(request, status);
    *ret_comm = request->communicator->handle;
    request_peek(request, status);
    if (request->behind)
        r = release(request->behind);
    int own = release(request);
    requests_active -= request->active;
    request->active = false;
    end(request);
    return own < 0 ? own : r;
}

/* ---- without the program */

void request_detach(struct request *request)
{
    request->persistent = false;
    request->next = detached;
    detached = request;
}

bool requests_reap(void)
{
    struct request **link = &detached;
    MPI_Comm comm;

    while (*link) {
        struct request *request = *link;
        if (request_is_done(request)) {
            *link = request->next;
            request_finish(request, MPI_STATUS_IGNORE, &comm);
        } else {
            link = &request->next;
        }
    }
    return detached != NULL;
}

/* ---- communicators that are made in the background */

int request_duplicate(MPI_Comm comm, MPI_Info info, MPI_Comm *made, MPI_Request *ret_handle)
{
    int rank = 1, r;

    shim_lock();
    struct communicator *communicator = communicator_find(comm);
    struct request *request = communicator ? request_new(REQUEST_IDUP, NULL) : NULL;
    if (request) {
        next.Comm_rank(comm, &rank);
        if (rank == 0)
            request->idup.context = communicator_context_new();
    }
    shim_unlock();
#ifdef OPEN_MPI
    r = next.Comm_idup(comm, made, request ? &request->idup.parts[0] : ret_handle);
#else
    r = info == MPI_INFO_NULL
            ? next.Comm_idup(comm, made, request ? &request->idup.parts[0] : ret_handle)
            : next.Comm_idup_with_info(comm, info, made,
                                       request ? &request->idup.parts[0] : ret_handle);
#endif
    if (!request || r != MPI_SUCCESS)
        return r;
    request->idup.made = made;
    r = next.Ibcast(&request->idup.context, 1, MPI_UINT32_T, 0, comm, &request->idup.parts[1]);
    request->active = true;
    *ret_handle = request_handle(request);
    return r;
}
