/*
 * The connection to the daemon: one question at a time, its answer, and the events that come of
 * their own accord.
 *
 * States: open, then lost (lost != 0): the daemon is gone or talks nonsense, and every later call
 * says so. A daemon that does not answer in time leaves it open; the answer that comes too late is
 * recognised by its tag.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "client/core/socket.h"
#include "proto/frame.h"
#include "proto/tca.pb-c.h"

struct control;

/* What a session makes of messages that are no answer to its question. NULL: nothing. */
struct control_ops {
    /* The frame's descriptors may be taken. */
    void (*event)(void *context, const Tca__Event *event, struct frame *frame);
    /* An answer that came too late, to give back what it grants. The frame's descriptors may be
     * taken. */
    void (*late)(void *context, const Tca__Message *message, struct frame *frame);
    /* Once, when the connection is lost: error is what every call fails with from now on. */
    void (*lost)(void *context, int error);
};

struct control {
    int lost; /* 0, -EHOSTDOWN (gone), -EPROTO (nonsense), -EPROTONOSUPPORT (another version),
                 -EMFILE, -ENOMEM */
    int fd;
    uint32_t tag;     /* of the last question */
    bool heard;       /* at least one answer or event has come */
    uint16_t version; /* that the daemon speaks instead (-EPROTONOSUPPORT) */
    uint32_t owed;    /* answers that were given up: they are still to come */
    pid_t pid;        /* who opened it: a child must not use it */
    const struct control_ops *ops;
    void *context;
    char path[SOCKET_PATH_BYTES];
};

/* Else an operator's tool asks, who has no session to close. */
static inline bool control_is_session(const struct control *control)
{
    return control->ops != NULL;
}

/* Connects; `control` stays where it is. */
int control_open(struct control *control, const char *socket, uint64_t end_ns,
                 const struct control_ops *ops, void *context);
void control_close(struct control *control);

/* An answer: the message points into itself, the descriptors are in the frame. */
struct answer {
    Tca__Message *message;
    struct frame *frame;
};
void answer_free(struct answer *answer);

/*
 * Asks and waits for the answer until end_ns. An answer of another kind than `expected` is -EPROTO;
 * a Failure is its status and text. ret_answer NULL: nobody wants to know more than whether it
 * worked.
 */
int control_ask(struct control *control, const Tca__Message *question,
                Tca__Message__BodyCase expected, uint64_t end_ns, struct answer *ret_answer);

/* question.c: -ETIMEDOUT, with a text that says what was asked for. */
int control_overdue(const struct control *control, const Tca__Message *question)
    __attribute__((cold));

/* Says something whose answer does not matter. Best effort. */
void control_tell(struct control *control, const Tca__Message *message);

/* Gives the connection up: returns what every later call fails with, and says why. */
int control_lose(struct control *control, int error);

/* Handles what has come without waiting: 0, or why the connection is lost. */
int control_drain(struct control *control);
