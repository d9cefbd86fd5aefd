/* Waits and tests, of one request and of several, ours and the MPI's among them. */
#include <errno.h>
#include <stdlib.h>

#include "client/mpi/request.h"
#include "client/mpi/status.h"

static struct request *ours(const MPI_Request *handle)
{
    return handle ? request_of(*handle) : NULL;
}

/* Ends one that is complete. */
static int finish(MPI_Request *handle, MPI_Status *status, MPI_Comm *ret_comm)
{
    struct request *request = request_of(*handle);

    *ret_comm = MPI_COMM_NULL;
    if (!request->persistent)
        *handle = MPI_REQUEST_NULL;
    return request_finish(request, status, ret_comm);
}

static int result_of(int r, MPI_Comm comm)
{
    return r < 0 ? error_raise(comm, r) : MPI_SUCCESS;
}

int MPI_Wait(MPI_Request *handle, MPI_Status *status)
{
    struct request *request = ours(handle);
    MPI_Comm comm;

    if (!request)
        return next.Wait(handle, status);
    shim_lock();
    request_wait(request);
    int r = finish(handle, status, &comm);
    shim_unlock();
    return result_of(r, comm);
}

int MPI_Test(MPI_Request *handle, int *flag, MPI_Status *status)
{
    struct request *request = ours(handle);
    MPI_Comm comm = MPI_COMM_NULL;
    int r = 0;

    if (!request)
        return next.Test(handle, flag, status);
    shim_lock();
    *flag = request_test(request);
    if (*flag)
        r = finish(handle, status, &comm);
    shim_unlock();
    if (!*flag)
        progress_poll();
    return result_of(r, comm);
}

int MPI_Request_get_status(MPI_Request handle, int *flag, MPI_Status *status)
{
    struct request *request = request_of(handle);

    if (!request)
        return next.Request_get_status(handle, flag, status);
    shim_lock();
    *flag = request_test(request);
    if (*flag)
        request_peek(request, status);
    shim_unlock();
    if (!*flag)
        progress_poll();
    return MPI_SUCCESS;
}

/* ---- several */

struct several {
    int count;
    MPI_Request *handles;
    MPI_Status *statuses; /* MPI_STATUSES_IGNORE: none */
    int ours;             /* how many are */
    MPI_Request *others;  /* a copy of the handles, without ours; NULL: there are none */
};

static MPI_Status *status_at(const struct several *several, int i)
{
    return several->statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &several->statuses[i];
}

/* False: none is ours, or it is for the MPI to say what is wrong. */
static bool several_begin(struct several *several, int count, MPI_Request *handles,
                          MPI_Status *statuses)
{
    int others = 0;

    *several = (struct several){.count = count, .handles = handles, .statuses = statuses};
    for (int i = 0; requests && handles && i < count; i++) {
        bool is_ours = request_of(handles[i]);
        several->ours += is_ours;
        others += !is_ours && handles[i] != MPI_REQUEST_NULL;
    }
    if (several->ours == 0)
        return false;
    if (others > 0) {
        several->others = malloc(count * sizeof(MPI_Request));
        for (int i = 0; several->others && i < count; i++)
            several->others[i] = request_of(handles[i]) ? MPI_REQUEST_NULL : handles[i];
    }
    return others == 0 || several->others;
}

static void several_end(struct several *several)
{
    for (int i = 0; several->others && i < several->count; i++)
        if (!request_of(several->handles[i]))
            several->handles[i] = several->others[i];
    free(several->others);
}

/* From `first` on: the first of ours that is not complete, or the count. The lock is held. */
static int first_open(const struct several *several, int first)
{
    for (; first < several->count; first++) {
        struct request *request = request_of(several->handles[first]);
        if (request && !request_is_done(request))
            break;
    }
    return first;
}

static void set_error(const struct several *several, int i, int class)
{
    if (several->statuses != MPI_STATUSES_IGNORE)
        several->statuses[i].MPI_ERROR = class;
}

/* Ends all of ours, which are complete, after the MPI has ended its own with the given result. */
static int finish_all(struct several *several, int result)
{
    MPI_Comm comm, failed_comm = MPI_COMM_NULL;
    bool failed = false;

    shim_lock();
    for (int i = 0; i < several->count; i++) {
        if (request_of(several->handles[i])) {
            int r = finish(&several->handles[i], status_at(several, i), &comm);
            set_error(several, i, error_class(r));
            if (r < 0 && !failed)
                failed_comm = comm;
            failed |= r < 0;
        } else if (result != MPI_ERR_IN_STATUS) {
            set_error(several, i, MPI_SUCCESS);
        }
    }
    shim_unlock();
    if (!failed)
        return result;
    next.Comm_call_errhandler(failed_comm == MPI_COMM_NULL ? MPI_COMM_WORLD : failed_comm,
                              MPI_ERR_IN_STATUS);
    return MPI_ERR_IN_STATUS;
}

int MPI_Waitall(int count, MPI_Request handles[], MPI_Status statuses[])
{
    struct several several;
    uint64_t round = 0;
    int i = 0, r = MPI_SUCCESS;

    if (!several_begin(&several, count, handles, statuses))
        return next.Waitall(count, handles, statuses);
    for (;;) {
        shim_lock();
        i = first_open(&several, i);
        if (i < count) {
            tca_msg_progress(shim.msg);
            i = first_open(&several, i);
        }
        shim_unlock();
        if (i == count)
            break;
        progress_pause(&round);
    }
    if (several.others)
        r = next.Waitall(count, several.others, statuses);
    else
        for (i = 0; i < count; i++)
            status_empty(status_at(&several, i)); /* also of MPI_REQUEST_NULL */
    r = finish_all(&several, r);
    several_end(&several);
    return r;
}

int MPI_Testall(int count, MPI_Request handles[], int *flag, MPI_Status statuses[])
{
    struct several several;
    int r = MPI_SUCCESS;

    if (!several_begin(&several, count, handles, statuses))
        return next.Testall(count, handles, flag, statuses);
    shim_lock();
    tca_msg_progress(shim.msg);
    *flag = first_open(&several, 0) == count;
    shim_unlock();
    if (*flag && several.others)
        r = next.Testall(count, several.others, flag, statuses);
    else if (*flag)
        for (int i = 0; i < count; i++)
            status_empty(status_at(&several, i));
    if (*flag)
        r = finish_all(&several, r);
    else
        progress_poll();
    several_end(&several);
    return r;
}

/* Ends the first of ours that is active and complete, and returns its index; -1: none is. *active:
 * whether one is active. The lock is held. */
static int finish_any(const struct several *several, MPI_Status *status, bool *active, int *r,
                      MPI_Comm *comm)
{
    for (int i = 0; i < several->count; i++) {
        struct request *request = request_of(several->handles[i]);
        if (!request || !request->active)
            continue;
        *active = true;
        if (request_is_done(request)) {
            *r = finish(&several->handles[i], status, comm);
            return i;
        }
    }
    return -1;
}

/* One look at all. True: *index is complete, or MPI_UNDEFINED, if none is active. */
static bool test_any(struct several *several, int *index, MPI_Status *status, int *ret_class)
{
    MPI_Comm comm = MPI_COMM_NULL;
    bool active = false;
    int r = 0, flag = 1;

    shim_lock();
    tca_msg_progress(shim.msg);
    int found = finish_any(several, status, &active, &r, &comm);
    shim_unlock();
    if (found >= 0) {
        *index = found;
        *ret_class = result_of(r, comm);
        return true;
    }
    *index = MPI_UNDEFINED;
    *ret_class = MPI_SUCCESS;
    if (several->others)
        *ret_class = next.Testany(several->count, several->others, index, &flag, status);
    if (!flag || (active && *index == MPI_UNDEFINED))
        return false;
    if (*index == MPI_UNDEFINED)
        status_empty(status);
    return true;
}

int MPI_Waitany(int count, MPI_Request handles[], int *index, MPI_Status *status)
{
    struct several several;
    uint64_t round = 0;
    int class;

    if (!several_begin(&several, count, handles, MPI_STATUSES_IGNORE))
        return next.Waitany(count, handles, index, status);
    while (!test_any(&several, index, status, &class))
        progress_pause(&round);
    several_end(&several);
    return class;
}

int MPI_Testany(int count, MPI_Request handles[], int *index, int *flag, MPI_Status *status)
{
    struct several several;
    int class = MPI_SUCCESS;

    if (!several_begin(&several, count, handles, MPI_STATUSES_IGNORE))
        return next.Testany(count, handles, index, flag, status);
    *flag = test_any(&several, index, status, &class);
    if (!*flag) {
        *index = MPI_UNDEFINED;
        progress_poll();
    }
    several_end(&several);
    return class;
}

/* One look at all: ends those that are complete. *out_count: how many, or MPI_UNDEFINED. */
static int test_some(struct several *several, int *out_count, int indices[])
{
    MPI_Comm comm, failed_comm = MPI_COMM_NULL;
    bool active = false, failed = false;
    int found = 0, others = MPI_UNDEFINED, result = MPI_SUCCESS;

    if (several->others)
        result =
            next.Testsome(several->count, several->others, &others, indices, several->statuses);
    found = others == MPI_UNDEFINED ? 0 : others;
    active = others != MPI_UNDEFINED;
    failed = result == MPI_ERR_IN_STATUS;
    for (int i = 0; i < found && !failed; i++)
        set_error(several, i, MPI_SUCCESS);
    if (result != MPI_SUCCESS && !failed)
        return result;
    shim_lock();
    tca_msg_progress(shim.msg);
    for (int i = 0; i < several->count; i++) {
        struct request *request = request_of(several->handles[i]);
        active |= request && request->active;
        if (!request || !request->active || !request_is_done(request))
            continue;
        int r = finish(&several->handles[i], status_at(several, found), &comm);
        set_error(several, found, error_class(r));
        if (r < 0 && failed_comm == MPI_COMM_NULL)
            failed_comm = comm;
        failed |= r < 0;
        indices[found++] = i;
    }
    shim_unlock();
    *out_count = active ? found : MPI_UNDEFINED;
    if (failed_comm != MPI_COMM_NULL)
        next.Comm_call_errhandler(failed_comm, MPI_ERR_IN_STATUS);
    return failed ? MPI_ERR_IN_STATUS : MPI_SUCCESS;
}

int MPI_Waitsome(int count, MPI_Request handles[], int *out_count, int indices[],
                 MPI_Status statuses[])
{
    struct several several;
    uint64_t round = 0;
    int r;

    if (!several_begin(&several, count, handles, statuses))
        return next.Waitsome(count, handles, out_count, indices, statuses);
    while ((r = test_some(&several, out_count, indices)) == MPI_SUCCESS && *out_count == 0)
        progress_pause(&round);
    several_end(&several);
    return r;
}

int MPI_Testsome(int count, MPI_Request handles[], int *out_count, int indices[],
                 MPI_Status statuses[])
{
    struct several several;

    if (!several_begin(&several, count, handles, statuses))
        return next.Testsome(count, handles, out_count, indices, statuses);
    int r = test_some(&several, out_count, indices);
    if (*out_count == 0)
        progress_poll();
    several_end(&several);
    return r;
}

/* ---- other calls with requests */

int MPI_Request_free(MPI_Request *handle)
{
    struct request *request = ours(handle);

    if (!request)
        return next.Request_free(handle);
    *handle = MPI_REQUEST_NULL;
    shim_lock();
    if (request->active)
        request_detach(request);
    else
        request_free(request);
    shim_unlock();
    return MPI_SUCCESS;
}

int MPI_Cancel(MPI_Request *handle)
{
    struct request *request = ours(handle);

    if (!request)
        return next.Cancel(handle);
    shim_lock();
    request_cancel(request);
    shim_unlock();
    return MPI_SUCCESS;
}

#ifdef OPEN_MPI
MPI_Fint MPI_Request_c2f(MPI_Request handle)
{
    struct request *request = request_of(handle);

    return request ? request->number : next.Request_c2f(handle);
}

MPI_Request MPI_Request_f2c(MPI_Fint number)
{
    return requests && number < INT32_MIN + REQUESTS_MAX
               ? request_handle(&requests[number - INT32_MIN])
               : next.Request_f2c(number);
}
#endif
