#include "client/core/control.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/error.h"
#include "client/core/wait.h"

struct early_message {
    struct early_message *next;
    struct reply reply;
};

static bool take_early(struct control *control, struct reply *ret_reply)
{
    struct early_message *early = control->early;
    if (!early)
        return false;
    *ret_reply = early->reply;
    control->early = early->next;
    control->early_count--;
    control->early_fds -= (unsigned)early->reply.frame->fd_count;
    if (!control->early)
        control->early_end = &control->early;
    free(early);
    return true;
}

enum { POSTED_MAX = 32 }; /* so that their replies fit into the socket's buffer */

#define TAG_POSTED (UINT32_C(1) << 31)

int control_open(struct control *control, const char *socket, uint64_t end_ns,
                 const struct control_ops *ops, void *context)
{
    *control = (struct control){.fd = -1, .pid = getpid(), .ops = ops, .context = context};
    control->early_end = &control->early;
    control->held_end = &control->held;
    return socket_connect(socket, end_ns, &control->fd, control->path);
}

/* The events that were held are the next messages. */
static void release_held(struct control *control)
{
    if (!control->held)
        return;
    for (const struct early_message *it = control->held; it; it = it->next) {
        control->early_count++;
        control->early_fds += (unsigned)it->reply.frame->fd_count;
    }
    *control->held_end = control->early;
    if (!control->early)
        control->early_end = control->held_end;
    control->early = control->held;
    control->held = NULL;
    control->held_end = &control->held;
}

void control_close(struct control *control)
{
    struct reply reply;
    release_held(control);
    while (take_early(control, &reply))
        reply_free(&reply);
    if (control->fd >= 0)
        close(control->fd);
    control->fd = -1;
}

void reply_free(struct reply *reply)
{
    if (reply->message)
        tca__message__free_unpacked(reply->message, NULL);
    frame_free(reply->frame);
    *reply = (struct reply){0};
}

static int set_lost_error(const struct control *control)
{
    char which[160];
    switch (control->lost) {
    case -EHOSTDOWN:
        if (!control->heard)
            return error_set(control->lost,
                             "the tcad at %s closed the connection without a reply: it was just "
                             "stopped, or is of another release than this libtca (%s); compare "
                             "tcad --version",
                             control->path, tca_version());
        return error_set(
            control->lost,
            control_is_session(control)
                ? "the tcad at %s has ended: close the session and open another once it is back"
                : "the tcad at %s ended during the request: systemctl status tcad, or tca-cluster "
                  "status, shows its status",
            control->path);
    case -EPROTONOSUPPORT:
        frame_compare("it", control->version, "this libtca", which, sizeof(which));
        return error_set(control->lost,
                         "the tcad at %s speaks another version than libtca %s: %s; install the "
                         "same release of both, and restart what you replaced",
                         control->path, tca_version(), which);
    case -EMFILE:
    case -ENOMEM:
        return error_set(control->lost, "a message of the tcad at %s could not be received: %s%s%s",
                         control->path, tca_strerror(control->lost),
                         control->lost == -EMFILE ? " (ulimit -n)" : "",
                         control_is_session(control) ? "; close the session" : "");
    default:
        return error_set(
            control->lost,
            "the tcad at %s sent an invalid message (version mismatch?); compare tcad --version",
            control->path);
    }
}

int control_lose(struct control *control, int error)
{
    if (control->lost == 0) {
        switch (error) {
        case -EPROTONOSUPPORT:
        case -EPROTO:
        case -EMFILE: /* the frame is discarded, and its contents with it */
        case -ENOMEM:
            control->lost = error;
            break;
        case -EMSGSIZE:
            control->lost = -EPROTO;
            break;
        default:
            control->lost = -EHOSTDOWN;
        }
        if (control->ops && control->ops->lost)
            control->ops->lost(control->context, control->lost);
    }
    return set_lost_error(control);
}

/* 0 and a message; -EAGAIN: none received; else why nothing can be received any more. */
static int receive_frame(struct control *control, struct reply *ret_reply)
{
    struct reply reply = {0};
    struct frame_header header;
    int r = frame_recv_any(control->fd, &header, &reply.frame);
    if (r == -EPROTONOSUPPORT)
        control->version = header.version;
    if (r < 0)
        return r;
    control->heard = true;
    reply.message =
        tca__message__unpack(NULL, reply.frame->header.length_bytes, reply.frame->payload);
    if (!reply.message) {
        frame_free(reply.frame);
        return -EPROTO;
    }
    *ret_reply = reply;
    return 0;
}

/* The next message, whoever has received it. Results as those of receive_frame(), but the
 * connection is then lost. */
static int receive(struct control *control, struct reply *ret_reply)
{
    const bool early = take_early(control, ret_reply);
    int r = early                  ? 0
            : control->early_error ? control->early_error
                                   : receive_frame(control, ret_reply);
    control->received += r == 0;
    return r == 0 || r == -EAGAIN ? r : control_lose(control, r);
}

/* ---- what another thread has received ---- */

static void keep_early(struct control *control, struct reply *reply)
{
    struct early_message *early = malloc(sizeof(*early));
    if (!early) {
        control->early_error = -ENOMEM;
        reply_free(reply);
        return;
    }
    *early = (struct early_message){.reply = *reply};
    *control->early_end = early;
    control->early_end = &early->next;
    control->early_count++;
    control->early_fds += (unsigned)reply->frame->fd_count;
}

bool control_hear(struct control *control,
                  bool (*handle)(void *context, const Tca__Event *event, struct frame *frame))
{
    bool any = false;
    while (!control->lost && !control_is_full(control)) {
        struct reply reply;
        int r = receive_frame(control, &reply);
        if (r == -EAGAIN)
            return any;
        any = true;
        if (r < 0)
            control->early_error = r;
        else if (reply.frame->header.tag == 0 &&
                 reply.message->body_case == TCA__MESSAGE__BODY_EVENT &&
                 handle(control->context, reply.message->event, reply.frame))
            reply_free(&reply);
        else
            keep_early(control, &reply);
    }
    return any;
}

/* ---- messages ---- */

/* Returns the request that waits for this reply, and no longer does; NULL: none. */
static struct control_asked *take_asked(struct control *control, uint32_t tag)
{
    struct control_asked **link = &control->asked, *asked;
    while (*link && (*link)->tag != tag)
        link = &(*link)->next;
    asked = *link;
    if (!asked)
        return NULL;
    *link = asked->next;
    asked->tag = 0;
    return asked;
}

/* An event may be about an object that a reply before it has made, which the program does not know
 * until it takes that reply. False: out of memory. */
static bool hold(struct control *control, const struct reply *reply)
{
    struct early_message *held = malloc(sizeof(*held));
    if (!held)
        return false;
    *held = (struct early_message){.reply = *reply};
    *control->held_end = held;
    control->held_end = &held->next;
    return true;
}

/* Handles an event, a late reply, or the reply to control_post(); keeps a reply that is awaited. */
static void dispatch(struct control *control, struct reply *reply)
{
    const struct control_ops *ops = control->ops;
    struct control_asked *asked = take_asked(control, reply->frame->header.tag);
    if (asked) {
        asked->reply = *reply;
        control->arrived++;
        return;
    }
    if (reply->frame->header.tag == 0 && control->arrived > 0 && hold(control, reply))
        return;
    if (reply->frame->header.tag & TAG_POSTED) {
        const uint32_t done =
            reply->message->body_case == TCA__MESSAGE__BODY_DONE ? reply->message->done->also : 0;
        control->posted -= done < control->posted ? done + 1 : control->posted;
    } else if (reply->frame->header.tag == 0) {
        if (reply->message->body_case == TCA__MESSAGE__BODY_EVENT && ops && ops->event)
            ops->event(control->context, reply->message->event, reply->frame);
    } else {
        if (control->owed > 0)
            control->owed--;
        if (ops && ops->late)
            ops->late(control->context, reply->message, reply->frame);
    }
    reply_free(reply);
}

int control_drain(struct control *control)
{
    struct reply reply;
    int r;
    if (control->lost)
        return set_lost_error(control);
    while ((r = receive(control, &reply)) == 0)
        dispatch(control, &reply);
    if (control->lost) /* a callback may have lost it */
        return set_lost_error(control);
    return r == -EAGAIN ? 0 : r;
}

/* Without time, it only looks: it may be called while something is moved on. */
static bool await(struct control *control, short events, uint64_t end_ns)
{
    return control->ops && control->ops->await && end_ns > 0
               ? control->ops->await(control->context, events, end_ns)
               : clock_poll(control->fd, events, end_ns);
}

static int send_request(struct control *control, uint32_t tag, const Tca__Message *request, int fd,
                        uint64_t end_ns)
{
    int r;
    while ((r = frame_send_message(control->fd, tag, &request->base, &fd, fd >= 0)) == -EAGAIN ||
           r == -EINTR)
        if (!await(control, POLLOUT, end_ns))
            break;
    if (r == -EAGAIN || r == -EINTR)
        return control_overdue(control, request);
    if (r == -EMSGSIZE)
        return error_set(-E2BIG,
                         "a message of %zu bytes to tcad exceeds %d bytes: make smaller plans",
                         tca__message__get_packed_size(request), FRAME_PAYLOAD_MAX);
    if (r == -EMFILE || r == -ENFILE || r == -ENOMEM || r == -ENOBUFS) /* nothing was sent */
        return error_set(r, "cannot send %zu bytes to tcad: %s",
                         tca__message__get_packed_size(request), tca_strerror(r));
    if (r == -EPIPE) /* receive() reads what the daemon sent before it closed */
        return 0;
    return r < 0 ? control_lose(control, r) : 0;
}

static uint32_t next_tag(struct control *control)
{
    if (++control->tag == TAG_POSTED)
        control->tag = 1; /* 0 marks events */
    return control->tag;
}

int control_usable(const struct control *control)
{
    if (control_is_inherited(control))
        return error_set(
            -EINVAL,
            "the session belongs to process %d, which forked this one: open another session",
            (int)control->pid);
    return control->lost ? set_lost_error(control) : 0;
}

int control_request(struct control *control, const Tca__Message *request,
                    Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply)
{
    return control_request_fd(control, request, -1, expected, end_ns, ret_reply);
}

int control_request_fd(struct control *control, const Tca__Message *request, int fd,
                       Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply)
{
    struct control_asked asked;
    int r = control_ask(control, request, fd, end_ns, &asked);
    return r < 0 ? r : control_take(control, &asked, request, expected, end_ns, ret_reply);
}

int control_ask(struct control *control, const Tca__Message *request, int fd, uint64_t end_ns,
                struct control_asked *asked)
{
    int r = control_usable(control);
    if (r < 0)
        return r;
    *asked = (struct control_asked){.tag = next_tag(control)};
    r = send_request(control, asked->tag, request, fd, end_ns);
    if (r < 0)
        return r;
    asked->next = control->asked;
    control->asked = asked;
    return 0;
}

struct overdue_request {
    const struct control *control;
    const Tca__Message *request;
};

static int request_overdue(const void *context, int64_t waited_ns)
{
    const struct overdue_request *overdue = context;
    control_overdue(overdue->control, overdue->request);
    return error_suffix(-ETIMEDOUT, ", so far %.3g s", (double)waited_ns / 1e9);
}

/* As await(), until the reply has been waited for so long that it is told, once. */
static bool await_or_tell(struct control *control, const Tca__Message *request, uint64_t end_ns,
                          struct session_hang *hang)
{
    const struct overdue_request overdue = {control, request};
    if (hang->due_ns >= end_ns)
        return await(control, POLLIN, end_ns);
    if (!await(control, POLLIN, hang->due_ns))
        session_hang_look(control_is_session(control) ? control->context : NULL, hang,
                          request_overdue, &overdue);
    return true;
}

static int await_reply(struct control *control, const struct control_asked *asked,
                       const Tca__Message *request, uint64_t end_ns)
{
    struct session_hang hang = session_hang_begin();
    struct reply reply;
    int r = control->lost ? set_lost_error(control) : 0;
    while (r == 0 && asked->tag) {
        r = receive(control, &reply);
        if (r == 0)
            dispatch(control, &reply);
        else if (r == -EAGAIN && await_or_tell(control, request, end_ns, &hang))
            r = 0;
    }
    return asked->tag ? r : 0;
}

int control_take(struct control *control, struct control_asked *asked, const Tca__Message *request,
                 Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply)
{
    int r = await_reply(control, asked, request, end_ns);
    if (r < 0) {
        take_asked(control, asked->tag);
        control->owed += r == -EAGAIN;
        return r == -EAGAIN ? control_overdue(control, request) : r;
    }
    if (--control->arrived == 0)
        release_held(control);
    if (asked->reply.message->body_case == TCA__MESSAGE__BODY_FAILURE)
        r = error_wire(asked->reply.message->failure);
    else if (asked->reply.message->body_case != expected)
        r = control_lose(control, -EPROTO);
    if (r < 0 || !ret_reply)
        reply_free(&asked->reply);
    else
        *ret_reply = asked->reply;
    return r;
}

void control_send(struct control *control, const Tca__Message *message)
{
    if (!control->lost)
        send_request(control, next_tag(control), message, -1, 0);
}

bool control_tell(const struct control *control, const Tca__Message *message)
{
    return frame_send_message(control->fd, TAG_POSTED - 1, &message->base, NULL, 0) == 0;
}

bool control_await_replies(struct control *control, uint32_t most, uint64_t end_ns)
{
    struct reply reply;
    while (control->posted > most && !control->lost) {
        const int r = receive(control, &reply);
        if (r == 0)
            dispatch(control, &reply);
        else if (r != -EAGAIN || !await(control, POLLIN, end_ns))
            return false;
    }
    return control->lost == 0;
}

void control_post(struct control *control, const Tca__Message *message, uint64_t end_ns)
{
    if (!control_is_inherited(control) && control_await_replies(control, POSTED_MAX - 1, end_ns) &&
        send_request(control, next_tag(control) | TAG_POSTED, message, -1, end_ns) == 0)
        control->posted++;
}
