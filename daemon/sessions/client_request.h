/*
 * A client's request: a frame and the message in it. Short ones are unpacked at once. Long ones can
 * take tens of milliseconds: the worker reads, unpacks and frees them, and the client is not read
 * meanwhile, so that its requests stay in order. Their memory is charged to the user.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/sessions/user.h"
#include "proto/tca.pb-c.h"

struct client;
struct frame;
struct tcad;

struct client_request {
    struct tcad *tcad;
    struct client
        *client;         /* until ready(); NULL: it was dropped while the worker had the request */
    struct frame *frame; /* until it is unpacked */
    uint32_t tag;
    uid_t uid;
    int fd;      /* the first descriptor that came with a short message, or -1 */
    int error;   /* -EBADMSG: the frame contains no valid message; otherwise of frame_load() */
    bool failed; /* the client has got an error reply: its user's limit forbids the message */
    Tca__Message *message;
    size_t memory_bytes; /* of a long message */
    struct charge charge;
    void (*ready)(struct client *client, struct client_request *request);
};

/* Takes ownership of the frame, and unpacks it; ready(), which owns the request, follows: at once,
 * or later for a long one, which is client->request until then. -ENOMEM: it does not follow. */
int client_request_new(struct client *client, struct frame *frame,
                       void (*ready)(struct client *client, struct client_request *request));
void client_request_free(struct client_request *request);
