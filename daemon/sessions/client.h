/* A connected client. Messages to it are sent at once, or queued, within limits, while its socket
 * is full. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/loop.h"
#include "daemon/sessions/user.h"
#include "proto/message.h"

struct flight;
struct server;
struct session;
struct tcad;

/* A sender that has more to send than may be queued; see client_await_drained(). */
struct client_wait {
    struct client_wait *next;
    void (*drained)(void *context);
    void *context;
    struct loop_post post;
};

struct client {
    struct client *next, **link;
    struct server *server;
    uint64_t id;
    struct tcad *tcad;
    int fd;
    struct loop_io *io;
    pid_t pid;
    uid_t uid;
    gid_t gid;
    bool admin;
    bool dropping;           /* to be dropped after the current frame is processed */
    struct session *session; /* after its hello */
    uint64_t since_ns;
    struct outgoing *queue, **queue_end; /* frames that did not fit into the socket */
    uint32_t queued, queued_fds;
    size_t queued_bytes;
    struct charge connection; /* its descriptor */
    struct charge charge;     /* of the queued frames */
    struct flight *flight;    /* its sent descriptors */
    struct client_wait *waits;
    struct loop_timer *patience; /* of these; NULL: there were none yet */
    uint64_t sent, sent_before;  /* queued frames; at the last look */
    bool stuck;                  /* it read none from one look to the next */
    bool served;                 /* a message was sent to it */
    uint32_t later;              /* pending replies of an admin_reply */
    struct client_request
        *request; /* a long one that is being unpacked; nothing is read meanwhile */
    bool parked;  /* the request is its hello, which waits until others' sessions have ended */
    struct client *next_parked;
};

/* With fd, uid and pid set: calls ready() when there is something to receive or to send. -EDQUOT or
 * -ENOMEM */
int client_begin(struct client *client, void (*ready)(void *context, unsigned events), char *text,
                 size_t text_bytes);
/* Closes its socket, at once or when it has received the descriptors that were sent. */
void client_end(struct client *client);
/* Sends a message, or queues it while the socket is full, or it has too many descriptors in flight.
 * Drops a client whose queue exceeds the limits. */
void client_send(struct client *client, uint32_t tag, const Tca__Message *message, const int *fds,
                 size_t fd_count);
/* The same of a message that was packed by frame_pack(); the caller keeps the memfd. */
void client_send_memfd(struct client *client, uint32_t tag, int memfd, size_t bytes, const int *fds,
                       size_t fd_count);
void client_fail(struct client *client, uint32_t tag, int error, const char *format,
                 va_list arguments);
void client_failf(struct client *client, uint32_t tag, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Fields for the log: log_info(client_fields(client).text, ...). */
struct client_fields {
    char text[96];
};
struct client_fields client_fields(const struct client *client);
/* Logs the reason and drops the client after the current frame: may be called anywhere in a
 * request.
 */
void client_drop_later(struct client *client, const char *why);
/* The socket is writable again: sends queued frames. */
void client_flush(struct client *client);
/* Waits for what it may do next: for requests unless one is being unpacked or descriptors are
 * queued, for room in its socket while frames are queued. */
void client_listen(struct client *client);
/* Once no frame is queued any more, or the client has read nothing for a second (client->stuck), or
 * the connection has ended, runs drained(context) in a later turn of the loop. */
void client_await_drained(struct client *client, struct client_wait *wait);
