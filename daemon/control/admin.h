/* Questions and orders of administrators (tcactl): verbs, and the JSON documents that answer them.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "proto/tca.pb-c.h"

struct client;
struct tcad;

void admin_request(struct client *client, uint32_t tag, const Tca__Admin *admin);

/* For verbs whose answer comes later: the client is found again by this, or has gone. */
struct admin_reply;
/* Consumes document (NULL: no memory) and reply. */
void admin_reply_document(struct admin_reply *reply, json_t *document, bool degraded);
/* The same of a long one, not NULL: the worker packs it. */
void admin_reply_packed(struct tcad *tcad, struct admin_reply *reply, json_t *document);
void admin_reply_fail(struct admin_reply *reply, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Orders: reload.c, calibration.c, ping.c */
void admin_reload(struct tcad *tcad, struct admin_reply *reply);
void admin_calibrate(struct tcad *tcad, struct admin_reply *reply);
void admin_ping(struct tcad *tcad, struct admin_reply *reply, const char *argument);
