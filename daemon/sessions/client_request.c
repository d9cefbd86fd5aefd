#include "daemon/sessions/client_request.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/message.h"
#include "daemon/base/worker.h"
#include "daemon/sessions/client.h"
#include "daemon/sessions/closer.h"
#include "daemon/tcad.h"
#include "proto/frame.h"

/* Any thread. */
static void unpack(void *context)
{
    struct client_request *request = context;
    struct frame *frame = request->frame;
    request->error = frame_load(frame);
    if (request->error == 0) {
        request->message =
            message_unpack(frame->payload, frame->header.length_bytes, &request->memory_bytes);
        if (!request->message || request->message->body_case == TCA__MESSAGE__BODY__NOT_SET)
            request->error = -EBADMSG;
    }
    if (frame->fd_count == 0) /* else closed by destroy() */
        request->frame = frame_free(frame);
}

/* Any thread. */
static void free_message(void *message)
{
    tca__message__free_unpacked(message, NULL);
}

static void ignore(void *message)
{
}

static void destroy(void *context)
{
    struct client_request *request = context;
    if (request->client && request->client->request == request)
        request->client->request = NULL;
    if (request->message)
        free_message(request->message);
    if (request->frame)
        closer_close(request->tcad, request->uid, frame_take_fd(request->frame));
    frame_free(request->frame);
    closer_close(request->tcad, request->uid, request->fd);
    free(request);
}

/* The message is freed by the worker. */
static void discard_message(struct client_request *request)
{
    charge_drop(&request->charge);
    if (request->message && worker_submit(request->tcad->worker, request->uid, free_message, ignore,
                                          free_message, request->message) == 0)
        request->message = NULL;
}

static void charge(struct client_request *request)
{
    char text[512];
    int r = charge_take(request->tcad, &request->charge, request->client->uid, USER_MESSAGES,
                        request->memory_bytes, "a long request", text, sizeof(text));
    if (r == 0)
        return;
    client_failf(request->client, request->header.tag, r, "%s", text);
    discard_message(request);
    request->failed = true;
}

static void hand_over(struct client_request *request)
{
    struct client *client = request->client;
    request->client = NULL;
    request->ready(client, request);
}

static void unpacked(void *context)
{
    struct client_request *request = context;
    if (!request->client) {
        client_request_free(request);
        return;
    }
    request->client->request = NULL;
    if (request->error == 0)
        charge(request);
    hand_over(request);
}

/* False: out of memory. */
static bool submit(struct client_request *request, struct worker *worker,
                   void (*work)(void *context), void (*done)(void *context),
                   void (*dropped)(void *context))
{
    struct client *client = request->client;
    if (worker_submit(worker, request->uid, work, done, dropped, request) < 0)
        return false;
    request->late = true;
    client->request = request;
    client_listen(client);
    return true;
}

/* Received, or not. */
static void go_on(struct client_request *request)
{
    struct frame *frame = request->frame;
    if (request->error < 0) {
        hand_over(request);
    } else if (frame->payload) {
        request->fd = frame_take_fd(frame);
        unpack(request);
        request->memory_bytes = 0;
        hand_over(request);
    } else if (!submit(request, request->tcad->worker, unpack, unpacked, destroy)) {
        client_failf(request->client, request->header.tag, -ENOMEM, "out of memory for a request");
        request->failed = true;
        hand_over(request);
    }
}

/* ---- messages with descriptors ---- */

/* In the user's lane of the closer: Linux closes the descriptors for which there is no room. Only
 * the first one is ever requested. */
static void receive(void *context)
{
    struct client_request *request = context;
    request->error = frame_recv_lazy(request->socket, true, &request->header, &request->frame);
    if (request->error == 0)
        frame_close_fds(request->frame, 1);
}

static void received(void *context)
{
    struct client_request *request = context;
    if (!request->client) {
        client_request_free(request);
        return;
    }
    request->client->request = NULL;
    go_on(request);
}

/* Any thread: tcad ends. */
static void abandoned(void *context)
{
    struct client_request *request = context;
    frame_free(request->frame);
    free(request);
}

void client_request_new(struct client *client,
                        void (*ready)(struct client *client, struct client_request *request))
{
    struct client_request *request = malloc(sizeof(*request));
    if (!request) {
        client_drop_later(client, "out of memory for a request");
        return;
    }
    *request = (struct client_request){.tcad = client->tcad,
                                       .client = client,
                                       .socket = client->fd,
                                       .uid = client->uid,
                                       .fd = -1,
                                       .ready = ready};
    int r = frame_recv_lazy(client->fd, false, &request->header, &request->frame);
    if (r == FRAME_HAS_FDS) {
        if (submit(request, client->tcad->closer, receive, received, abandoned))
            return;
        client_drop_later(client, "out of memory for a request");
        destroy(request);
        return;
    }
    request->error = r;
    go_on(request);
}

void client_request_free(struct client_request *request)
{
    if (request->memory_bytes > 0)
        discard_message(request);
    destroy(request);
}
