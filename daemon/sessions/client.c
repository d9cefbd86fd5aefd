/* Sends messages to clients, or queues them, within limits, while the socket is full. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/base/message.h"
#include "daemon/base/remedy.h"
#include "daemon/sessions/client.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/sessions/flight.h"
#include "daemon/tcad.h"
#include "proto/frame.h"
#include "proto/status.h"

enum {
    QUEUE_MAX = 1000,                    /* messages that a client has not read */
    QUEUE_BYTES_MAX = FRAME_PAYLOAD_MAX, /* of all of them; a single one may always be queued */
    QUEUE_FDS_MAX = 256,                 /* of all of them: replies to one request, and events */
    PATIENCE_MS = 1000,                  /* of waits for a client that reads nothing */
};

struct outgoing {
    struct outgoing *next;
    uint32_t tag;
    size_t bytes;
    int fds[FRAME_FDS_MAX];
    size_t fd_count;
    bool in_memfd; /* the payload: in fds[0] */
    uint8_t payload[];
};

static void outgoing_free(struct outgoing *out)
{
    for (size_t i = 0; i < out->fd_count; i++)
        close(out->fds[i]);
    free(out);
}

struct client_fields client_fields(const struct client *client)
{
    struct client_fields fields;
    snprintf(fields.text, sizeof(fields.text), "TCAD_CLIENT_PID=%d TCAD_CLIENT_UID=%u", client->pid,
             client->uid);
    return fields;
}

void client_drop_later(struct client *client, const char *why)
{
    static struct log_limit dropped;
    if (!client->dropping)
        log_limited(&dropped, LOG_LEVEL_WARNING, client_fields(client).text,
                    "client pid %d: %s: dropped", client->pid, why);
    client->dropping = true;
    client_listen(client);
    shutdown(client->fd,
             SHUT_RDWR); /* wakes ready(), which drops it; sent data can still be read */
}

/* A message that fits into the queue. NULL: it does not, and the client is dropped. */
static struct outgoing *outgoing_new(struct client *client, uint32_t tag, size_t bytes,
                                     size_t payload_bytes, size_t fd_count)
{
    if (client->queued >= QUEUE_MAX ||
        (client->queued > 0 && bytes > QUEUE_BYTES_MAX - client->queued_bytes) ||
        client->queued_fds + fd_count > QUEUE_FDS_MAX) {
        client_drop_later(client, "it does not read its replies: more than 1,000, 64 MiB or 256 "
                                  "descriptors of them wait");
        return NULL;
    }
    char text[512];
    if (fd_count > 0 &&
        !session_user_may_have(client->tcad, client->uid, (unsigned)fd_count, text, sizeof(text))) {
        client_drop_later(client, text);
        return NULL;
    }
    if (charge_take(client->tcad, &client->charge, client->uid, USER_MESSAGES,
                    sizeof(struct outgoing) + bytes, "a reply that is not read", text,
                    sizeof(text)) < 0) {
        client_drop_later(client, text);
        return NULL;
    }
    struct outgoing *out = malloc(sizeof(*out) + payload_bytes);
    if (!out) {
        client_drop_later(client, "out of memory for a reply");
        return NULL;
    }
    *out = (struct outgoing){.tag = tag, .bytes = bytes};
    return out;
}

/* With copies of the descriptors. Takes ownership of `out`. */
static void enqueue(struct client *client, struct outgoing *out, const int *fds, size_t fd_count)
{
    for (size_t i = 0; i < fd_count; i++) {
        int fd = fcntl(fds[i], F_DUPFD_CLOEXEC, 3);
        if (fd < 0) {
            int r = -errno;
            outgoing_free(out);
            client_drop_later(client, remedy_text(r));
            return;
        }
        out->fds[out->fd_count++] = fd;
    }
    *client->queue_end = out;
    client->queue_end = &out->next;
    client->queued++;
    client->queued_bytes += out->bytes;
    client->queued_fds += (uint32_t)fd_count;
    charge_descriptors(&client->charge, (uint32_t)fd_count);
    client_listen(client);
}

static void enqueue_message(struct client *client, uint32_t tag, const Tca__Message *message,
                            const int *fds, size_t fd_count)
{
    const size_t bytes = tca__message__get_packed_size(message);
    struct outgoing *out = outgoing_new(client, tag, bytes, bytes, fd_count);
    if (!out)
        return;
    tca__message__pack(message, out->payload);
    enqueue(client, out, fds, fd_count);
}

static void enqueue_memfd(struct client *client, uint32_t tag, int memfd, size_t bytes,
                          const int *fds, size_t fd_count)
{
    int all[FRAME_FDS_MAX] = {memfd};
    struct outgoing *out = outgoing_new(client, tag, bytes, 0, fd_count + 1);
    if (!out)
        return;
    out->in_memfd = true;
    memcpy(all + 1, fds, fd_count * sizeof(fds[0]));
    enqueue(client, out, all, fd_count + 1);
}

/* A reply cannot be sent: reports this to the client and drops it, because the two sides no longer
 * agree on what the client holds. */
static void cannot_send(struct client *client, uint32_t tag, int error, const char *why)
{
    char text[512];
    Tca__Failure failure;
    Tca__Message message;
    snprintf(text, sizeof(text), "tcad could not send its reply: %s", why);
    message_failure(&message, &failure, error, text);
    if (tag != 0) /* 0: an event */
        frame_send_message(client->fd, tag, &message.base, NULL, 0);
    client_drop_later(client, text);
}

/* How many descriptors a frame carries: a long one is in a memfd. */
static uint32_t carries(size_t bytes, size_t fd_count)
{
    return (uint32_t)fd_count + (bytes > FRAME_INLINE_MAX);
}

static bool must_queue(int r)
{
    return r == -EAGAIN || r == -ETOOMANYREFS;
}

static void sent(struct client *client, uint32_t tag, uint32_t fds, int r)
{
    client->served |= r == 0;
    if (r == 0)
        flight_sent(client->flight, fds);
    else if (r != -EPIPE && r != -ECONNRESET) /* for these, end of file follows */
        cannot_send(client, tag, r, remedy_text(r));
}

/* A session of a user whose other sessions do not read their replies. One that has been opened
 * waits on, as a reply that did not come would be the end of it. */
static bool is_refused(struct client *client, uint32_t tag)
{
    char text[400];
    if (client->served || !flight_is_late(client->flight, text, sizeof(text)))
        return false;
    cannot_send(client, tag, -EDQUOT, text);
    return true;
}

void client_send(struct client *client, uint32_t tag, const Tca__Message *message, const int *fds,
                 size_t fd_count)
{
    if (client->dropping)
        return;
    const uint32_t carried = carries(tca__message__get_packed_size(message), fd_count);
    int r = client->queue || !flight_may(client->flight, carried)
                ? -EAGAIN
                : frame_send_message(client->fd, tag, &message->base, fds, fd_count);
    if (must_queue(r))
        enqueue_message(client, tag, message, fds, fd_count);
    else
        sent(client, tag, carried, r);
}

void client_send_memfd(struct client *client, uint32_t tag, int memfd, size_t bytes, const int *fds,
                       size_t fd_count)
{
    if (client->dropping)
        return;
    const uint32_t carried = (uint32_t)fd_count + 1;
    int r = client->queue || !flight_may(client->flight, carried)
                ? -EAGAIN
                : frame_send_memfd(client->fd, tag, memfd, bytes, fds, fd_count);
    if (must_queue(r))
        enqueue_memfd(client, tag, memfd, bytes, fds, fd_count);
    else
        sent(client, tag, carried, r);
}

static void end_waits(struct client *client)
{
    if (client->patience)
        loop_timer_stop(client->patience);
    while (client->waits) {
        struct client_wait *wait = client->waits;
        client->waits = wait->next;
        loop_post_own(client->tcad->loop, &wait->post, wait->drained, wait->context);
    }
}

static void watch(struct client *client)
{
    client->sent_before = client->sent;
    loop_timer_set(client->patience, PATIENCE_MS * UINT64_C(1000000), 0);
}

static void lose_patience(void *context)
{
    struct client *client = context;
    client->stuck = client->sent == client->sent_before;
    if (client->stuck)
        end_waits(client);
    else
        watch(client);
}

void client_await_drained(struct client *client, struct client_wait *wait)
{
    const bool first = !client->waits;
    wait->next = client->waits;
    client->waits = wait;
    if (first && (client->patience || loop_timer_new(client->tcad->loop, lose_patience, client,
                                                     &client->patience) == 0))
        watch(client);
}

static void send_again(void *context)
{
    client_flush(context);
}

int client_begin(struct client *client, void (*ready)(void *context, unsigned events), char *text,
                 size_t text_bytes)
{
    client->queue_end = &client->queue;
    int r = charge_take(client->tcad, &client->connection, client->uid, USER_CONNECTIONS, 0,
                        "a connection", text, text_bytes);
    if (r < 0)
        return r;
    charge_descriptors(&client->connection, 1);
    r = loop_io_new(client->tcad->loop, client->fd, LOOP_READ, ready, client, &client->io);
    if (r == 0) {
        client->flight =
            flight_new(client->tcad, client->fd, client->uid, client->pid, send_again, client);
        r = client->flight ? 0 : -ENOMEM;
    }
    if (r < 0) {
        client->io = loop_io_free(client->io);
        charge_drop(&client->connection);
    }
    return r;
}

/* Whether nobody can read what is sent. */
static bool has_hung_up(const struct client *client)
{
    struct pollfd one = {.fd = client->fd};
    return poll(&one, 1, 0) > 0;
}

static void dequeue(struct client *client)
{
    struct outgoing *out = client->queue;
    client->sent++;
    client->stuck = false;
    client->queue = out->next;
    client->queued--;
    client->queued_bytes -= out->bytes;
    charge_lower(&client->charge, sizeof(*out) + out->bytes);
    charge_descriptors_lower(&client->charge, (uint32_t)out->fd_count);
    client->queued_fds -= (uint32_t)out->fd_count;
    outgoing_free(out);
}

void client_flush(struct client *client)
{
    while (client->queue && !client->dropping) {
        struct outgoing *out = client->queue;
        const uint32_t carried = carries(out->in_memfd ? 0 : out->bytes, out->fd_count);
        const bool may = flight_may(client->flight, carried) || has_hung_up(client);
        int r = !may            ? -ETOOMANYREFS
                : out->in_memfd ? frame_send_memfd(client->fd, out->tag, out->fds[0], out->bytes,
                                                   out->fds + 1, out->fd_count - 1)
                                : frame_send(client->fd, out->tag, out->payload, out->bytes,
                                             out->fds, out->fd_count);
        if (r == -ETOOMANYREFS && is_refused(client, out->tag))
            break;
        if (r == -ETOOMANYREFS)
            flight_wait(client->flight, may ? r : 0);
        if (must_queue(r)) {
            client_listen(client);
            return;
        }
        sent(client, out->tag, carried, r);
        dequeue(client);
    }
    if (client->dropping)
        return;
    client->queue_end = &client->queue;
    charge_drop(&client->charge);
    client_listen(client);
    end_waits(client);
}

/* A client that does not read its replies is not read either, if they carry descriptors: every one
 * of those that wait is one of tcad's own. */
void client_listen(struct client *client)
{
    const bool reads = !client->request && client->queued_fds == 0,
               writes = client->queue && !flight_waits(client->flight);
    loop_io_set(client->io, client->dropping
                                ? LOOP_READ
                                : (reads ? LOOP_READ : 0u) | (writes ? LOOP_WRITE : 0u));
}

void client_fail(struct client *client, uint32_t tag, int error, const char *format,
                 va_list arguments)
{
    char text[1024];
    Tca__Failure failure;
    Tca__Message message;
    vsnprintf(text, sizeof(text), format, arguments);
    message_failure(&message, &failure, error, text);
    log_debug(client_fields(client).text, "client pid %d: request failed: %s: %s", client->pid,
              status_text(error), text);
    client_send(client, tag, &message, NULL, 0);
}

void client_failf(struct client *client, uint32_t tag, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    client_fail(client, tag, error, format, arguments);
    va_end(arguments);
}

void client_end(struct client *client)
{
    while (client->queue) {
        struct outgoing *out = client->queue;
        client->queue = out->next;
        outgoing_free(out);
    }
    charge_drop(&client->charge);
    end_waits(client);
    client->patience = loop_timer_free(client->patience);
    client->io = loop_io_free(client->io);
    client->flight = flight_end(client->flight);
    charge_drop(&client->connection);
}
