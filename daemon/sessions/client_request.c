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
    if (frame->fd_count == 0) /* else closed on the loop */
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
    frame_free(request->frame);
    if (request->fd >= 0)
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
                        request->memory_bytes, "a long request", text, sizeof text);
    if (r == 0)
        return;
    client_failf(request->client, request->tag, r, "%s", text);
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

int client_request_new(struct client *client, struct frame *frame,
                       void (*ready)(struct client *client, struct client_request *request))
{
    struct client_request *request = malloc(sizeof *request);
    if (!request) {
        frame_free(frame);
        return -ENOMEM;
    }
    *request = (struct client_request){.tcad = client->tcad,
                                       .client = client,
                                       .frame = frame,
                                       .tag = frame->header.tag,
                                       .uid = client->uid,
                                       .fd = -1,
                                       .ready = ready};
    if (frame->payload) {
        request->fd = frame_take_fd(frame);
        unpack(request);
        request->memory_bytes = 0;
        hand_over(request);
        return 0;
    }
    frame_close_fds(frame, 1); /* the payload's: the others are not requested */
    int r = worker_submit(client->tcad->worker, client->uid, unpack, unpacked, destroy, request);
    if (r < 0) {
        destroy(request);
        return r;
    }
    client->request = request;
    client_listen(client);
    return 0;
}

void client_request_free(struct client_request *request)
{
    if (request->memory_bytes > 0)
        discard_message(request);
    destroy(request);
}
