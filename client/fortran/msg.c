#include <errno.h>
#include <stdlib.h>
#include <tca-msg.h>

#include "client/fortran/array.h"
#include "client/fortran/result.h"

/* A request, and the layout that must live as long. */
struct tca_f_request {
    struct tca_msg_request *request;
    struct tca_layout *layout;
};

void tca_f_msg_new(struct tca *const *session, struct tca_msg **msg, struct tca_group *const *group,
                   int *ierror)
{
    const struct tca_plan_args args = {.group = group ? *group : NULL};
    fortran_done(fortran_from(tca_msg_new(*session, &args, msg)), ierror);
}

void tca_f_msg_free(struct tca_msg **msg)
{
    *msg = tca_msg_free(*msg);
}

static int post(struct tca_msg *msg, const CFI_cdesc_t *array, int rank, int tag, bool sends,
                struct tca_f_request **ret_request)
{
    struct tca_f_request *request = calloc(1, sizeof(*request));
    if (!request)
        return -ENOMEM;
    int result = array_is_contiguous(array) ? 0 : array_layout(array, &request->layout);
    const struct tca_msg_buffer buffer = {
        .address = array->base_addr, .bytes = array_bytes_of(array), .layout = request->layout};
    if (result == 0)
        result = fortran_from((sends ? tca_msg_send : tca_msg_recv)(
            msg, (uint32_t)rank, (uint32_t)tag, &buffer, &request->request));
    if (result < 0) {
        tca_layout_free(request->layout);
        free(request);
        return result;
    }
    *ret_request = request;
    return 0;
}

void tca_f_msg_send(struct tca_msg *const *msg, const CFI_cdesc_t *array, int rank, int tag,
                    struct tca_f_request **request, int *ierror)
{
    fortran_done(post(*msg, array, rank, tag, true, request), ierror);
}

void tca_f_msg_recv(struct tca_msg *const *msg, const CFI_cdesc_t *array, int rank, int tag,
                    struct tca_f_request **request, int *ierror)
{
    fortran_done(post(*msg, array, rank, tag, false, request), ierror);
}

int tca_f_request_test(struct tca_f_request *const *request, int *ierror)
{
    return fortran_tested(*request ? fortran_from(tca_msg_test((*request)->request)) : 1, ierror);
}

void tca_f_request_wait(struct tca_f_request **request, struct tca_msg_status *status,
                        const int64_t *timeout_ns, int *ierror)
{
    int result = *request ? fortran_from(tca_msg_wait((*request)->request,
                                                      fortran_timeout(timeout_ns, TCA_FOREVER)))
                          : fortran_refuse("tca_wait: there is no request");
    if (*request && result != -ETIMEDOUT) {
        if (status)
            tca_msg_status((*request)->request, status);
        tca_msg_release((*request)->request);
        tca_layout_free((*request)->layout);
        free(*request);
        *request = NULL;
    }
    fortran_done(result, ierror);
}
