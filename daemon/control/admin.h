/* Requests of administrators (tcactl): verbs, answered with JSON documents. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "proto/tca.pb-c.h"

struct client;
struct cluster_node;
struct tcad;

void admin_request(struct client *client, uint32_t tag, const Tca__Admin *admin);

/* A reply that is sent later; remembers the client, which may go meanwhile. */
struct admin_reply;
/* Consumes document (NULL: out of memory) and reply. */
void admin_reply_document(struct admin_reply *reply, json_t *document, bool degraded);
/* The same for a long document, not NULL, which the worker serialises. */
void admin_reply_packed(struct tcad *tcad, struct admin_reply *reply, json_t *document);
void admin_reply_fail(struct admin_reply *reply, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The node with this name or id, or NULL. */
const struct cluster_node *admin_node(const struct tcad *tcad, const char *text);

/* ask_all.c, reload.c, calibration.c, ping.c, topology.c, why.c */
void admin_ask_all(struct tcad *tcad, struct admin_reply *reply);
void admin_reload(struct tcad *tcad, struct admin_reply *reply);
void admin_calibrate(struct tcad *tcad, struct admin_reply *reply);
void admin_topology(struct tcad *tcad, struct admin_reply *reply);
void admin_ping(struct tcad *tcad, struct admin_reply *reply, const char *argument);
void admin_why(struct tcad *tcad, struct admin_reply *reply, const char *argument);
