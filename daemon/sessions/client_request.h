/*
 * A client's request: a frame and the message in it. Short ones are received and unpacked at once.
 * Those with descriptors are received where descriptors are closed (closer.h). Long ones can take
 * tens of milliseconds: the worker reads, unpacks and frees them, and their memory is charged to
 * the user. The client is not read meanwhile, so that its requests stay in order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/sessions/user.h"
#include "proto/frame.h"
#include "proto/tca.pb-c.h"

struct client;
struct tcad;

struct client_request {
    struct tcad *tcad;
    struct client
        *client; /* until ready(); NULL: it was dropped while the worker had the request */
    int socket;  /* the client's */
    struct frame_header
        header;          /* also of a frame that was refused; all zero: nothing was received */
    struct frame *frame; /* until it is unpacked */
    uid_t uid;
    bool late;   /* ready() is not called by client_request_new() */
    int fd;      /* the first descriptor that came with a short message, or -1 */
    int error;   /* -EBADMSG: the frame contains no valid message; or of frame_recv_lazy() or
                  * frame_load() */
    bool failed; /* the client has got an error reply */
    Tca__Message *message;
    size_t memory_bytes; /* of a long message */
    struct charge charge;
    void (*ready)(struct client *client, struct client_request *request);
};

/* The client has something to be received: ready(), which owns the request, follows, at once or
 * later; until then, it is client->request. Without memory, dooms the client instead. */
void client_request_new(struct client *client,
                        void (*ready)(struct client *client, struct client_request *request));
void client_request_free(struct client_request *request);
