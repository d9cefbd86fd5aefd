/* A connected client: what it is sent, at once or queued while its socket is full, within limits. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/sessions/user.h"
#include "proto/tca.pb-c.h"

struct server;
struct session;
struct tcad;

struct client {
    struct client *next, **link;
    struct server *server;
    struct visitor *visitor; /* its user */
    struct client *younger,
        **silent_link; /* among its user's that have not said hello; NULL: it has */
    uint64_t id;
    struct tcad *tcad;
    int fd;
    struct loop_io *io;
    pid_t pid;
    uid_t uid;
    gid_t gid;
    bool admin;
    bool doomed;             /* to be dropped when the present frame has been dealt with */
    struct session *session; /* after its hello */
    uint64_t since_ns;
    struct outgoing *queue, **queue_end; /* frames that the socket had no room for */
    uint32_t queued, queued_fds;
    size_t queued_bytes;
    struct charge charge; /* of these */
    uint32_t later;       /* answers of an admin_reply that it waits for */
};

/* Sends a message; queues it while the socket is full. A client that lets too much pile up is
 * dropped. */
void client_send(struct client *client, uint32_t tag, const Tca__Message *message, const int *fds,
                 size_t fd_count);
void client_fail(struct client *client, uint32_t tag, int error, const char *format,
                 va_list arguments);
void client_failf(struct client *client, uint32_t tag, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Who it is, for the log: log_info(client_fields(client).text, ...). */
struct client_fields {
    char text[96];
};
struct client_fields client_fields(const struct client *client);
/* Says why in the log, and drops the client in a moment: may be called from anywhere in a request.
 */
void client_doom(struct client *client, const char *why);
/* The socket has room again: sends what waits. */
void client_flush(struct client *client);
void client_queue_free(struct client *client);
