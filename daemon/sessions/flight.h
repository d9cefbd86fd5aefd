/*
 * Descriptors in flight: sent to a client, and not received yet. Linux counts them per sending
 * user, over all of its processes, and lets that user send none while there are more than
 * RLIMIT_NOFILE: clients that do not read their replies could keep tcad from serving anybody. So
 * each connection and each user may have only some in flight, and the messages of those who have
 * too many wait.
 *
 * What a client has not received lies in its socket's queue, which only the client or its end can
 * empty. tcad therefore keeps its own end of such a connection until then.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct flight; /* of one connection */
struct flights;
struct tcad;

int flights_new(struct tcad *tcad, struct flights **ret_flights);
/* Also closes the connections that were kept. NULL is a no-op. Returns NULL. */
struct flights *flights_free(struct flights *flights);

/* Brings the counts up to date (user.in_flight), which otherwise happens when somebody waits. */
void flights_look(struct flights *flights);

/* again(context) is called some time after flight_wait(). NULL: out of memory. */
struct flight *flight_new(struct tcad *tcad, int fd, uid_t uid, pid_t pid,
                          void (*again)(void *context), void *context);
/* The connection has ended: closes its descriptor, now or once the client has received what was
 * sent. */
struct flight *flight_end(struct flight *flight);

/* Whether so many more may be sent on this connection now. */
bool flight_may(struct flight *flight, uint32_t count);
/* So many were sent. */
void flight_sent(struct flight *flight, uint32_t count);
/* Calls again() later, unless the connection ends before. error: why nothing was sent,
 * -ETOOMANYREFS or 0 (flight_may() has said no). */
void flight_wait(struct flight *flight, int error);
bool flight_waits(const struct flight *flight);
/* Whether it has waited for so long that whoever waits for the reply is to be told why: then writes
 * this to text. */
bool flight_is_late(const struct flight *flight, char *text, size_t text_bytes);
