/*
 * The connection to the daemon: requests, their replies, and unsolicited events.
 *
 * States: open, then lost (lost != 0) once the daemon has ended or broken the protocol; every later
 * call then fails with this error. When a request times out the connection stays open, and the late
 * reply is recognized by its tag.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#include "client/core/socket.h"
#include "proto/frame.h"
#include "proto/message.h"

struct control;

/* A session's callbacks for messages other than the awaited reply; each may be NULL. event and late
 * may take descriptors from the frame (and set them to -1). */
struct control_ops {
    void (*event)(void *context, const Tca__Event *event, struct frame *frame);
    /* The reply to a request that timed out: gives back what it grants. */
    void (*late)(void *context, const Tca__Message *message, struct frame *frame);
    /* Moves on what the program has started, until the socket is ready for `events` (poll()) or a
     * message has been received meanwhile, or false: until end_ns. NULL: clock_poll(). */
    bool (*await)(void *context, short events, uint64_t end_ns);
    /* Called once, when the connection is lost. Every later call fails with this error. */
    void (*lost)(void *context, int error);
};

/* A reply: the message, and the frame with its descriptors. */
struct reply {
    Tca__Message *message;
    struct frame *frame;
};
void reply_free(struct reply *reply);

/* A request that was sent. */
struct control_asked {
    struct control_asked *next; /* in control->asked, until its reply has come */
    uint32_t tag;               /* 0: it has come: */
    struct reply reply;
};

enum { EARLY_MAX = 64 }; /* messages, and descriptors that they may hold */

struct control {
    int lost; /* 0, -EHOSTDOWN (daemon ended), -EPROTO (invalid message), -EPROTONOSUPPORT, -EMFILE,
                 -ENOMEM */
    int fd;
    uint32_t tag;                           /* of the last request */
    struct control_asked *asked;            /* the program waits for their replies */
    unsigned arrived;                       /* replies that control_take() has yet to take */
    struct early_message *held, **held_end; /* events that came meanwhile, for afterwards */
    uint64_t received;                      /* messages */
    bool heard;                             /* a reply or event was received */
    uint16_t version;                       /* of the daemon, for -EPROTONOSUPPORT */
    uint32_t owed; /* late replies still to come: their requests timed out */
    struct early_message *early, **early_end; /* received by control_hear(), for the program */
    unsigned early_count, early_fds;
    int early_error; /* 0, or why nothing comes after them */
    uint32_t posted; /* replies to control_post() still to come */
    pid_t pid;       /* process that opened it */
    const struct control_ops *ops;
    void *context;
    char path[SOCKET_PATH_BYTES];
};

/* False for an administrative connection (tca-admin.h). */
static inline bool control_is_session(const struct control *control)
{
    return control->ops != NULL;
}

/* Connects. `control` must not move afterwards: the callbacks may refer to it. */
int control_open(struct control *control, const char *socket, uint64_t end_ns,
                 const struct control_ops *ops, void *context);
void control_close(struct control *control);

/* Whether this process was forked from the one that opened it, which goes on using it. */
static inline bool control_is_inherited(const struct control *control)
{
    return control->pid != getpid();
}

/* The initializer of a request. */
#define REQUEST(CASE, member, pointer) MESSAGE_OF(CASE, member, pointer)

/* 0; -EINVAL: this process was forked by the session's; or the error with which it was lost. */
int control_usable(const struct control *control);

/* Sends a request and waits for its reply until end_ns. A reply other than `expected` is -EPROTO; a
 * Failure returns its status and sets its text. ret_reply may be NULL. */
int control_request(struct control *control, const Tca__Message *request,
                    Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply);
/* The same with a descriptor, which must be open; -1: none. */
int control_request_fd(struct control *control, const Tca__Message *request, int fd,
                       Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply);

/* The same in two halves, so that several requests are under way at once. After control_ask() has
 * returned 0, the caller keeps *asked where it is and calls control_take(), whatever happens
 * meanwhile; its `request` says only which kind it was. */
int control_ask(struct control *control, const Tca__Message *request, int fd, uint64_t end_ns,
                struct control_asked *asked);
int control_take(struct control *control, struct control_asked *asked, const Tca__Message *request,
                 Tca__Message__BodyCase expected, uint64_t end_ns, struct reply *ret_reply);

/* request.c: -ETIMEDOUT, with a text that says what was asked for. */
int control_overdue(const struct control *control, const Tca__Message *request)
    __attribute__((cold));

/* Sends a request whose reply is ignored. Best effort: errors are not reported. */
void control_send(struct control *control, const Tca__Message *message);

/* Sends a message that has no reply. Any thread. False: not now, or the connection is lost. */
bool control_tell(const struct control *control, const Tca__Message *message);
/* Sends a request without waiting for its reply, which says only that it is done; waits until
 * end_ns while there is no room for it. Best effort, too. */
void control_post(struct control *control, const Tca__Message *message, uint64_t end_ns);
/* Waits until end_ns for the replies to all but `most` of these requests. False: they have not
 * come. */
bool control_await_replies(struct control *control, uint32_t most, uint64_t end_ns);

/* Marks the connection lost. Returns the error of every later call and sets its text. */
int control_lose(struct control *control, int error);

/* Processes all received messages without waiting. 0, or the error with which the connection was
 * lost. */
int control_drain(struct control *control);

/* For another thread than the program's, while the program is not in any of these functions:
 * receives messages and keeps them for the program, except for events that `handle` takes. Whether
 * there was one. Nothing is received while control_is_full(). */
bool control_hear(struct control *control,
                  bool (*handle)(void *context, const Tca__Event *event, struct frame *frame));
static inline bool control_is_full(const struct control *control)
{
    return control->early_error < 0 || control->early_count >= EARLY_MAX ||
           control->early_fds >= EARLY_MAX;
}
