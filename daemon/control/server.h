/* The UNIX socket: accepts clients and reads their frames. A protocol error ends only that
 * connection. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/tca.pb-c.h"

struct client;         /* sessions/client.h */
struct client_request; /* sessions/client_request.h */
struct server;
struct tcad;

/* fd: a listening socket from socket activation, or -1 to create the configured one. text: the
 * error. */
int server_new(struct tcad *tcad, int fd, char *text, size_t text_bytes,
               struct server **ret_server);
/* Drops all clients; their sessions end later. Removes the socket if it was created here. */
struct server *server_free(struct server *server);
void server_drop_clients(struct server *server);
/* Finds a client by its id; NULL: it has gone. */
struct client *server_client(const struct server *server, uint64_t id);

/* requests.c. Takes over the request. */
void request_serve(struct client *client, struct client_request *request);
