/* What pairs.c, pair_dial.c and pair_again.c know of each other. */
#pragma once

#include "daemon/plans/pairs.h"

struct pairs {
    struct table ids, connections, processes; /* of the pairs: by three of their fields */
    struct landings places;                   /* of bindings, by the number of their landing */
};

int pair_new(struct tcad *tcad, const struct pair *values, struct pair **ret_pair, char *text,
             size_t text_bytes);
void pair_drop(struct pair *pair);
void pairs_each(const struct tcad *tcad, void (*call)(void *context, void *pair), void *context);
void pair_move(struct pair *pair, enum pair_state state);
static inline bool pair_is_expected(const struct pair *pair)
{
    return pair->state == PAIR_EXPECTS || pair->state == PAIR_NAMED;
}
/* With that process; NULL: none. */
struct pair *pair_with(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other);
/* By the number of its connection. NULL: none. */
struct pair *pair_of_connection(const struct tcad *tcad, uint64_t connection);
/* Its connection gets another number. */
void pair_renumber(struct pair *pair, uint64_t connection);
/* The receiver's side: waits for a connection that opens with pair->secret, which it chooses.
 * state: EXPECTS or NAMED. */
int pair_expect(struct pair *pair, enum pair_state state);
/* The process is asked for its offer. */
void pair_ask_offer(struct pair *pair);
/* The process gets its end of a connection. */
void pair_hand_over(struct pair *pair, int fd, bool encrypts);
/* Makes the connection, whose end it hands over, in the worker, or has the process make it. If that
 * fails, the pair ends. -ENETDOWN, -ENOMEM. */
int pair_dial(struct pair *pair);
/* It is not to be waited for any more. */
void pair_forget(struct pair *pair);
/* To its process; fd -1: without a descriptor; offer: NULL, or of the other process. */
void pair_event(const struct pair *pair, Tca__Event__Kind kind, int status, int fd,
                const ProtobufCBinaryData *offer);
/* Gives it up, for both processes. */
void pair_give_up(struct pair *pair, int status);
/* Informs the other node's daemon that it has ended. */
void pair_tell_other(const struct pair *pair, int status);
/* Informs its process that it has ended. */
void pair_end(struct pair *pair, int status);
