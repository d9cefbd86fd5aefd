/*
 * Closes descriptors that users have made, and sockets in whose queues such descriptors may be, in
 * threads: close() of a file of a hostile file system, or of a socket that lingers, can block for
 * ever. One user's descriptors are closed one after the other, in a thread for that user; messages
 * with such descriptors are received there, too (client_request.h). Loop's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct tcad;

/* fd negative: no effect. */
void closer_close(struct tcad *tcad, uid_t uid, int fd);
/* A client's connection. The client can still read what was sent. */
void closer_end(struct tcad *tcad, uid_t uid, int fd);
/* How many of the user's descriptors wait to be closed, besides limits.sessions_per_user: as many
 * sockets are closed at once when a job ends, and must not be in the way of the next one. */
unsigned closer_waiting(const struct tcad *tcad, uid_t uid);
/* Whether so many of the user's descriptors wait to be closed that nothing more is received from
 * this user. */
bool closer_is_stuck(const struct tcad *tcad, uid_t uid, char *text, size_t text_bytes);
