#include "client/core/control.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/error.h"

int control_open(struct control *control, const char *socket, uint64_t end_ns,
                 const struct control_ops *ops, void *context)
{
    *control = (struct control){.fd = -1, .pid = getpid(), .ops = ops, .context = context};
    return socket_connect(socket, end_ns, &control->fd, control->path);
}

void control_close(struct control *control)
{
    if (control->fd >= 0)
        close(control->fd);
    control->fd = -1;
}

void answer_free(struct answer *answer)
{
    if (answer->message)
        tca__message__free_unpacked(answer->message, NULL);
    frame_free(answer->frame);
    *answer = (struct answer){0};
}

static int say_lost(const struct control *control)
{
    char which[160];
    switch (control->lost) {
    case -EHOSTDOWN:
        if (!control->heard)
            return error_set(control->lost,
                             "the tcad at %s closed the connection without an answer: it was just "
                             "ended, or is of another release than this libtca (%s); compare tcad "
                             "--version",
                             control->path, tca_version());
        return error_set(
            control->lost,
            control_is_session(control)
                ? "the tcad at %s has gone: close the session and open another once it is back"
                : "the tcad at %s has gone while it was asked: systemctl status tcad, or "
                  "tca-cluster "
                  "status, says how it is",
            control->path);
    case -EPROTONOSUPPORT:
        frame_compare("it", control->version, "this libtca", which, sizeof(which));
        return error_set(control->lost,
                         "the tcad at %s speaks another version than libtca %s: %s; install the "
                         "same release of both, and restart what was replaced",
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
            "the tcad at %s sent something that is no valid message: is it of another version?",
            control->path);
    }
}

int control_lose(struct control *control, int error)
{
    if (control->lost == 0) {
        switch (error) {
        case -EPROTONOSUPPORT:
        case -EPROTO:
        case -EMFILE: /* the frame is gone, and with it what we have to know */
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
    return say_lost(control);
}

/* 0 and a message, -EAGAIN: none there, or why the connection is lost. */
static int receive(struct control *control, struct answer *ret_answer)
{
    struct answer answer = {0};
    struct frame_header header;
    int r = frame_recv_any(control->fd, &header, &answer.frame);
    if (r == -EAGAIN)
        return r;
    if (r == -EPROTONOSUPPORT)
        control->version = header.version;
    if (r < 0)
        return control_lose(control, r);
    control->heard = true;
    answer.message =
        tca__message__unpack(NULL, answer.frame->header.length_bytes, answer.frame->payload);
    if (!answer.message) {
        frame_free(answer.frame);
        return control_lose(control, -EPROTO);
    }
    *ret_answer = answer;
    return 0;
}

/* For what was not asked, or was asked too long ago. */
static void dispatch(struct control *control, struct answer *answer)
{
    const struct control_ops *ops = control->ops;
    if (answer->frame->header.tag == 0) {
        if (answer->message->body_case == TCA__MESSAGE__BODY_EVENT && ops && ops->event)
            ops->event(control->context, answer->message->event, answer->frame);
    } else {
        if (control->owed > 0)
            control->owed--;
        if (ops && ops->late)
            ops->late(control->context, answer->message, answer->frame);
    }
    answer_free(answer);
}

int control_drain(struct control *control)
{
    struct answer answer;
    int r;
    if (control->lost)
        return say_lost(control);
    while ((r = receive(control, &answer)) == 0)
        dispatch(control, &answer);
    if (control->lost) /* by what came, perhaps */
        return say_lost(control);
    return r == -EAGAIN ? 0 : r;
}

static int send_question(struct control *control, uint32_t tag, const Tca__Message *question,
                         uint64_t end_ns)
{
    int r;
    while ((r = frame_send_message(control->fd, tag, &question->base, NULL, 0)) == -EAGAIN ||
           r == -EINTR)
        if (!clock_poll(control->fd, POLLOUT, end_ns))
            break;
    if (r == -EAGAIN || r == -EINTR)
        return control_overdue(control, question);
    if (r == -EMSGSIZE)
        return error_set(-E2BIG,
                         "a message of %zu bytes to tcad: at most %d go in one; make smaller plans",
                         tca__message__get_packed_size(question), FRAME_PAYLOAD_MAX);
    if (r == -EMFILE || r == -ENFILE || r == -ENOMEM ||
        r == -ENOBUFS) /* of ours; the daemon heard nothing */
        return error_set(r, "cannot send %zu bytes to tcad: %s",
                         tca__message__get_packed_size(question), tca_strerror(r));
    if (r == -EPIPE) /* what it said before it closed is still to be heard: receive() tells */
        return 0;
    return r < 0 ? control_lose(control, r) : 0;
}

static int receive_answer(struct control *control, uint32_t tag, const Tca__Message *question,
                          uint64_t end_ns, struct answer *ret_answer)
{
    struct answer answer;
    for (;;) {
        int r = receive(control, &answer);
        if (r == -EAGAIN) {
            if (clock_poll(control->fd, POLLIN, end_ns))
                continue;
            control->owed++;
            return control_overdue(control, question);
        }
        if (r < 0)
            return r;
        if (answer.frame->header.tag == tag) {
            *ret_answer = answer;
            return 0;
        }
        dispatch(control, &answer);
    }
}

static uint32_t next_tag(struct control *control)
{
    if (++control->tag == 0)
        control->tag = 1; /* 0 is for events */
    return control->tag;
}

int control_ask(struct control *control, const Tca__Message *question,
                Tca__Message__BodyCase expected, uint64_t end_ns, struct answer *ret_answer)
{
    struct answer answer;
    if (getpid() != control->pid)
        return error_set(
            -EINVAL, "this session belongs to process %d, which forked this one: open another here",
            (int)control->pid);
    if (control->lost)
        return say_lost(control);
    uint32_t tag = next_tag(control);
    int r = send_question(control, tag, question, end_ns);
    if (r == 0)
        r = receive_answer(control, tag, question, end_ns, &answer);
    if (r < 0)
        return r;
    if (answer.message->body_case == TCA__MESSAGE__BODY_FAILURE)
        r = error_wire(answer.message->failure);
    else if (answer.message->body_case != expected)
        r = control_lose(control, -EPROTO);
    if (r < 0 || !ret_answer)
        answer_free(&answer);
    else
        *ret_answer = answer;
    return r;
}

void control_tell(struct control *control, const Tca__Message *message)
{
    if (!control->lost)
        send_question(control, next_tag(control), message, 0);
}
