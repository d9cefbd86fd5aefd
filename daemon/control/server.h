/* The UNIX socket: accepts clients and reads their frames. A protocol error ends that
 * connection and nothing else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/tca.pb-c.h"

struct client;         /* sessions/client.h */
struct client_request; /* sessions/client_request.h */
struct server;
struct tcad;

/* fd: a listening socket from socket activation, or -1: one is made where the configuration says.
 * text: why it failed. */
int server_new(struct tcad *tcad, int fd, char *text, size_t text_bytes,
               struct server **ret_server);
/* Drops every client; the sessions end in their own time. Removes the socket it made. */
struct server *server_free(struct server *server);
void server_drop_clients(struct server *server);
/* By its id; NULL: it has gone. */
struct client *server_client(const struct server *server, uint64_t id);

/* requests.c: deals with one request, which it owns. */
void request_serve(struct client *client, struct client_request *request);
