/*
 * A minimal HTTP/1.1 responder for scrapers: one GET per connection, limited in size, time and
 * number. A full HTTP server would needlessly increase the attack surface of the daemon.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/loop_internal.h"

enum {
    CONNECTIONS_MAX = 16,
    REQUEST_MAX_BYTES = 8192,
    PATH_MAX_BYTES = 256,
    TIMEOUT_S = 10,
};

struct connection {
    struct http *http;
    struct connection *next;
    struct bufferevent *bev;
    bool answered;
};

struct http {
    struct loop *loop;
    struct listener *listener;
    struct connection *connections;
    unsigned count;
    char *(*answer)(void *context, const char *path, const char **ret_type);
    void *context;
};

static void connection_free(struct connection *connection)
{
    struct http *http = connection->http;
    struct connection **at = &http->connections;

    while (*at != connection)
        at = &(*at)->next;
    *at = connection->next;
    http->count--;
    bufferevent_free(connection->bev);
    free(connection);
}

static void respond(struct connection *connection, const char *status, const char *type,
                    const char *body)
{
    struct evbuffer *output = bufferevent_get_output(connection->bev);

    connection->answered = true;
    bufferevent_disable(connection->bev, EV_READ);
    if (evbuffer_add_printf(
            output,
            "HTTP/1.1 %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nCache-Control: no-store\r\n"
            "X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            status, type, strlen(body)) < 0 ||
        evbuffer_add(output, body, strlen(body)) < 0)
        connection_free(connection);
}

static void respond_error(struct connection *connection, const char *status)
{
    char body[64];
    snprintf(body, sizeof(body), "%s\n", status);
    respond(connection, status, "text/plain; charset=utf-8", body);
}

/* Parses "GET /path?query HTTP/1.1": NULL and the path, or the status of the error response. */
static const char *parse_request(const char *line, char ret_path[static PATH_MAX_BYTES])
{
    const char *at = line;
    if (strncmp(at, "GET ", 4) != 0)
        return "405 Method Not Allowed";
    at += 4;
    size_t target = strcspn(at, " "), path = strcspn(at, " ?");
    if (at[0] != '/' || strncmp(at + target, " HTTP/1.", 8) != 0)
        return "400 Bad Request";
    if (path >= PATH_MAX_BYTES)
        return "414 URI Too Long";
    memcpy(ret_path, at, path);
    ret_path[path] = '\0';
    return NULL;
}

static void on_read(struct bufferevent *bev, void *context)
{
    struct connection *connection = context;
    struct evbuffer *input = bufferevent_get_input(bev);

    loop_awake(connection->http->loop);
    if (connection->answered)
        return;
    if (evbuffer_search(input, "\r\n\r\n", 4, NULL).pos < 0) {
        if (evbuffer_get_length(input) >= REQUEST_MAX_BYTES)
            respond_error(connection, "431 Request Header Fields Too Large");
        return;
    }

    char *line = evbuffer_readln(input, NULL, EVBUFFER_EOL_CRLF_STRICT);
    char path[PATH_MAX_BYTES];
    const char *wrong = line ? parse_request(line, path) : "500 Internal Server Error";
    free(line);
    if (wrong) {
        respond_error(connection, wrong);
        return;
    }
    const char *type = "text/plain; charset=utf-8";
    char *body = connection->http->answer(connection->http->context, path, &type);
    if (body)
        respond(connection, "200 OK", type, body);
    else
        respond_error(connection, "404 Not Found");
    free(body);
}

static void on_written(struct bufferevent *bev, void *context)
{
    struct connection *connection = context;
    if (connection->answered)
        connection_free(connection);
}

/* End of file, an error, or a time-out. */
static void on_event(struct bufferevent *bev, short what, void *context)
{
    connection_free(context);
}

/* Makes room for a new connection. */
static void drop_oldest(struct http *http)
{
    struct connection *connection = http->connections;
    while (connection->next)
        connection = connection->next;
    connection_free(connection);
}

static void on_accepted(void *context, int fd, const char *from)
{
    struct http *http = context;
    if (http->count == CONNECTIONS_MAX)
        drop_oldest(http);
    struct connection *connection = malloc(sizeof(*connection));
    if (!connection) {
        close(fd);
        return;
    }
    *connection = (struct connection){.http = http, .next = http->connections};
    connection->bev = bufferevent_socket_new(loop_base(http->loop), fd, BEV_OPT_CLOSE_ON_FREE);
    if (!connection->bev) {
        close(fd);
        free(connection);
        return;
    }
    http->connections = connection;
    http->count++;

    struct timeval timeout = {.tv_sec = TIMEOUT_S};
    bufferevent_set_timeouts(connection->bev, &timeout, &timeout);
    bufferevent_setwatermark(connection->bev, EV_READ, 0, REQUEST_MAX_BYTES);
    bufferevent_setcb(connection->bev, on_read, on_written, on_event, connection);
    bufferevent_enable(connection->bev, EV_READ | EV_WRITE);
}

int http_new(struct loop *loop, const char *address, uint16_t port,
             char *(*answer)(void *context, const char *path, const char **ret_type), void *context,
             struct http **ret)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    if (!is_v4 && inet_pton(AF_INET6, address, &v6.sin6_addr) != 1)
        return -EINVAL;

    struct http *http = calloc(1, sizeof(*http));
    if (!http)
        return -ENOMEM;
    *http = (struct http){.loop = loop, .answer = answer, .context = context};
    int r = listener_tcp(loop, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6,
                         is_v4 ? sizeof(v4) : sizeof(v6), on_accepted, http, &http->listener);
    if (r < 0) {
        free(http);
        return r;
    }
    *ret = http;
    return 0;
}

int http_port(const struct http *http)
{
    return listener_port(http->listener);
}

struct http *http_free(struct http *http)
{
    if (!http)
        return NULL;
    listener_free(http->listener);
    while (http->connections)
        connection_free(http->connections);
    free(http);
    return NULL;
}
