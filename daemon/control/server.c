#include "daemon/control/server.h"
#include "daemon/sessions/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/message.h"
#include "daemon/base/remedy.h"
#include "daemon/control/server_socket.h"
#include "daemon/rails/exposure.h"
#include "daemon/sessions/client_request.h"
#include "daemon/sessions/closer.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "proto/frame.h"
#include "proto/list.h"
#include "proto/status.h"
#include "proto/wait.h"

enum {
    OTHERS_MAX = 256, /* connections of one user besides limits.sessions_per_user */
    FIRST_TAG = 1,    /* of the first message on a connection */
};

#define TICK_NS  UINT64_C(1000000000)
#define AGAIN_NS UINT64_C(5000000)

struct server {
    struct tcad *tcad;
    struct listener *listener;
    struct loop_timer *tick; /* checks silent connections; runs while there are any */
    bool ticking;
    struct loop_timer *again;            /* looks at hellos that wait; runs while there are any */
    struct client *parked, **parked_end; /* those, the oldest first */
    struct client *clients;
    uint64_t last_id;
    struct server_socket socket; /* created by this daemon */
};

static bool is_silent(const struct client *client)
{
    return !client->session && !client->admin && !client->parked;
}

/* ---- receiving ---- */

static struct client_request *unpark(struct client *client)
{
    struct server *server = client->server;
    struct client_request *request = client->request;
    struct client **at = &server->parked;
    while (*at != client)
        at = &(*at)->next_parked;
    *at = client->next_parked;
    if (!*at)
        server->parked_end = at;
    client->parked = false;
    client->request = NULL;
    request->client = NULL;
    return request;
}

/* Ends the connection, and with it the session. */
static void client_drop(struct client *client)
{
    struct session *session = client->session;
    LIST_REMOVE(client, next, link);
    shutdown(client->fd, SHUT_RDWR);
    client_end(client);
    if (client->parked)
        client_request_free(unpark(client));
    else if (client->request)
        client->request->client = NULL;
    free(client);
    if (session) {
        session->client = NULL;
        session_end(session, NULL);
    }
}

/* The client's library is of another release: says which of the two must be replaced. */
static void refuse_version(const struct client *client, const struct frame_header *header)
{
    static struct log_limit refused;
    char text[512], which[160];
    frame_compare("this program's libtca", header->version, "tcad " TCAD_VERSION, which,
                  sizeof(which));
    snprintf(text, sizeof(text), "%s of node %s: %s", which, client->tcad->conf->node.name,
             header->version < PROTO_VERSION
                 ? "start the program with the libtca of tcad's release (is an old one in "
                   "LD_LIBRARY_PATH, in its rpath, or linked into it?)"
                 : "install the library's release of tcad on this node, and restart it (systemctl "
                   "restart tcad)");
    log_limited(&refused, LOG_LEVEL_WARNING, client_fields(client).text, "client pid %d uid %u: %s",
                client->pid, client->uid, text);
    frame_refuse(client->fd, header, text); /* tells the client, if it reads */
}

static void log_broken(const struct client *client, int error)
{
    static struct log_limit broken;
    log_limited(&broken, LOG_LEVEL_WARNING, client_fields(client).text,
                "client pid %d uid %u: broken frame: %s", client->pid, client->uid,
                status_text(error));
}

static void serve(struct client *client, struct client_request *request)
{
    const int error = request->error;
    const struct frame_header header = request->header;
    if (error == 0 && !request->failed && !client->dropping) {
        request_serve(client, request);
        return;
    }
    client_request_free(request);
    if (error == 0 || error == -EAGAIN || error == -EINTR)
        return;
    if (error == -EMFILE) { /* for the descriptor in the message, which has not been handled yet */
        client_failf(client, header.tag, error,
                     "tcad could not receive the descriptor of a message: %s", remedy_of(error));
        return;
    }
    if (error == -EBADMSG) {
        client_drop_later(client, "a frame is not a message");
        return;
    }
    if (error == -EPROTONOSUPPORT)
        refuse_version(client, &header);
    else if (error != -ECONNRESET)
        log_broken(client, error);
    client->dropping = true;
}

/* Whether hellos of the client's user wait already. */
static bool others_wait(const struct client *client)
{
    const struct client *other = client->server->parked;
    while (other && other->uid != client->uid)
        other = other->next_parked;
    return other;
}

/* Ranks of a job that open sessions again and again must not be faster than those can end: until
 * then their hellos wait, for no longer than a request may take. */
static bool must_wait(const struct client *client)
{
    const struct tcad *tcad = client->tcad;
    return clock_now_ns() - client->since_ns <= tcad->conf->control.request_timeout_ns &&
           session_opens_soon(tcad, client->uid) &&
           loop_timer_set(client->server->again, AGAIN_NS, 0) == 0;
}

static bool park(struct client *client, struct client_request *request)
{
    struct server *server = client->server;
    if (request->error != 0 || request->failed || client->dropping || client->session ||
        request->message->body_case != TCA__MESSAGE__BODY_HELLO || request->message->hello->admin ||
        !(others_wait(client) || must_wait(client)))
        return false;
    client->parked = true;
    client->next_parked = NULL;
    *server->parked_end = client;
    server->parked_end = &client->next_parked;
    request->late = true;
    request->client = client;
    client->request = request;
    client_listen(client);
    return true;
}

static void requested(struct client *client, struct client_request *request)
{
    if (park(client, request))
        return;
    const bool late = request->late; /* else ready() looks at the client */
    serve(client, request);
    if (late && client->dropping)
        client_drop(client);
    else if (late)
        client_listen(client);
}

static void again(void *context)
{
    const struct server *server = context;
    const struct client *waits = NULL; /* so do others of its user */
    for (struct client *client = server->parked, *next; client; client = next) {
        next = client->next_parked;
        if (waits && waits->uid == client->uid)
            continue;
        if (must_wait(client)) {
            waits = client;
            continue;
        }
        struct client_request *request = unpark(client);
        serve(client, request);
        if (client->dropping)
            client_drop(client);
        else
            client_listen(client);
    }
}

static void receive(struct client *client)
{
    char text[256];
    if (closer_is_stuck(client->tcad, client->uid, text, sizeof(text)))
        client_drop_later(client, text);
    else
        client_request_new(client, requested);
}

static void ready(void *context, unsigned events)
{
    struct client *client = context;
    if (!client->dropping && (events & LOOP_WRITE))
        client_flush(client);
    if (!client->dropping && (events & LOOP_READ))
        receive(client);
    if (client->dropping)
        client_drop(client);
}

/* ---- silent connections, and too many of them ---- */

static void tick(void *context)
{
    struct server *server = context;
    uint64_t now = clock_now_ns(), patience_ns = server->tcad->conf->control.request_timeout_ns;
    bool more = server->parked != NULL; /* it is silent if its hello is refused */
    for (struct client *client = server->clients, *next; client; client = next) {
        next = client->next;
        if (!is_silent(client))
            continue;
        if (now - client->since_ns > patience_ns) {
            client_drop_later(
                client,
                "it has no session and did not say hello in time (control.request_timeout)");
            client_drop(client);
        } else {
            more = true;
        }
    }
    server->ticking = more;
    if (more)
        loop_timer_set(server->tick, TICK_NS, 0);
}

/* Tells the client why, without having read its hello, and closes the connection. */
static void turn_away(struct server *server, int fd, const struct ucred *who, int error,
                      const char *text)
{
    static struct log_limit refused;
    Tca__Failure failure;
    Tca__Message message;
    log_limited(&refused, LOG_LEVEL_WARNING, NULL, "client pid %d uid %u: refused: %s", who->pid,
                who->uid, text);
    message_failure(&message, &failure, error, (char *)text);
    frame_send_message(fd, FIRST_TAG, &message.base, NULL, 0);
    closer_end(server->tcad, who->uid, fd);
}

/* A connection that has not said hello counts, too: it is not dropped for a younger one, as in a
 * moment it may be a session. */
static bool may_connect(const struct server *server, uid_t uid, char *text, size_t text_bytes)
{
    const struct tcad_conf *conf = server->tcad->conf;
    const struct user *user = user_find(server->tcad, uid);
    const uint32_t count = user ? user->count[USER_CONNECTIONS] : 0,
                   most = conf->limits.sessions_per_user + OTHERS_MAX;
    if (closer_is_stuck(server->tcad, uid, text, text_bytes))
        return false;
    if (count < most)
        return session_user_may_connect(server->tcad, uid, text, text_bytes);
    snprintf(text, text_bytes,
             "user %u has %" PRIu32 " connections to node %s, %" PRIu32
             " more than limits.sessions_per_user: close some, or have the limit raised",
             uid, count, conf->node.name, (uint32_t)OTHERS_MAX);
    return false;
}

static int begin(struct server *server, int fd, const struct ucred *who)
{
    char text[512];
    struct client *client = calloc(1, sizeof(*client));
    if (!client)
        return -ENOMEM;
    *client = (struct client){.server = server,
                              .id = ++server->last_id,
                              .tcad = server->tcad,
                              .fd = fd,
                              .pid = who->pid,
                              .uid = who->uid,
                              .gid = who->gid,
                              .since_ns = clock_now_ns()};
    int r = client_begin(client, ready, text, sizeof(text));
    if (r < 0) {
        free(client);
        return r;
    }
    LIST_ADD(&server->clients, client, next, link);
    if (!server->ticking)
        server->ticking = loop_timer_set(server->tick, TICK_NS, 0) == 0;
    return 0;
}

static void accepted(void *context, int fd, const char *from)
{
    static struct log_limit refused;
    struct server *server = context;
    struct ucred who;
    socklen_t length = sizeof(who);
    char text[512];
    int r = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length) < 0 ? -errno : 0;
    if (r == 0 && !may_connect(server, who.uid, text, sizeof(text))) {
        turn_away(server, fd, &who, -EDQUOT, text);
        return;
    }
    if (r == 0)
        r = begin(server, fd, &who);
    if (r < 0) {
        log_limited(&refused, LOG_LEVEL_ERROR, NULL, "a client could not be accepted: %s",
                    remedy_text(r));
        close(fd);
    }
}

static bool give_some_up(void *context)
{
    const struct server *server = context;
    return exposure_give_up(server->tcad);
}

/* No descriptor is left except a reserved one, used here to tell the client why it is refused. */
static void refuse(void *context, int fd, int error)
{
    struct server *server = context;
    struct ucred who = {.uid = (uid_t)-1};
    socklen_t length = sizeof(who);
    char text[256];
    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &length);
    snprintf(text, sizeof(text), "node %s cannot accept the connection: %s",
             server->tcad->conf->node.name, remedy_text(error));
    turn_away(server, fd, &who, error, text);
}

/* ---- lifetime ---- */

int server_new(struct tcad *tcad, int fd, char *text, size_t text_bytes, struct server **ret_server)
{
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return -ENOMEM;
    server->tcad = tcad;
    server->parked_end = &server->parked;
    int r = loop_timer_new(tcad->loop, tick, server, &server->tick);
    if (r == 0)
        r = loop_timer_new(tcad->loop, again, server, &server->again);
    if (r == 0)
        r = fd >= 0 ? fd : server_socket_make(tcad->conf, &server->socket, text, text_bytes);
    if (r >= 0) {
        fd = r;
        r = listener_fd(tcad->loop, fd, accepted, server, &server->listener);
        if (r < 0) {
            snprintf(text, text_bytes, "cannot listen: %s", strerror(-r));
            close(fd);
        }
    }
    if (r < 0) {
        loop_timer_free(server->tick);
        loop_timer_free(server->again);
        free(server);
        return r;
    }
    listener_when_full(server->listener, give_some_up, refuse);
    *ret_server = server;
    return 0;
}

void server_drop_clients(struct server *server)
{
    while (server->clients)
        client_drop(server->clients);
}

struct server *server_free(struct server *server)
{
    if (!server)
        return NULL;
    server_drop_clients(server);
    listener_free(server->listener);
    loop_timer_free(server->tick);
    loop_timer_free(server->again);
    server_socket_remove(&server->socket);
    free(server);
    return NULL;
}

struct client *server_client(const struct server *server, uint64_t id)
{
    struct client *client = server->clients;
    while (client && client->id != id)
        client = client->next;
    return client && !client->dropping ? client : NULL;
}
