/*
 * Pairs: a process of this node and one of another, with a connection of their own over which each
 * puts into memory of the other. The daemons make it: the one that is first asked to bind puts
 * chooses its number and a secret, and expects the connection at the rail's port; the other dials.
 * If both are asked at once, the pair is opened from both sides: see pair_states[]. Both hand their
 * end to their process, with an event, and are not involved any more, unless the connection breaks:
 * then they make another in the same way. A pair ends with either process, with the
 * other node, or when one of the two gives it up; the next plan makes another one. One over which
 * no plan puts stays, until its process is to have another and has as many as it may.
 *
 * Over rails with devices that processes drive, the processes connect: to dial, the daemon asks its
 * process for an offer, which it carries to the other process, and the answer back.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/table.h"
#include "drivers/driver.h"
#include "drivers/landings.h"
#include "proto/tca.pb-c.h"

struct binding;
struct pairs;
struct session;
struct tcad;

/* What it waits for. */
enum pair_state {
    PAIR_NEW,
    PAIR_EXPECTS, /* the connection, or the other process's offer; the other node does not know */
    PAIR_NAMED,   /* the same, and the other node knows, which then dials */
    PAIR_DIALS,   /* the worker, which connects */
    PAIR_OFFERS,  /* the process's offer */
    PAIR_OFFERED, /* the other process's answer to it */
    PAIR_ANSWERS, /* the process's answer to the other's offer */
    PAIR_UP,      /* nothing: its process has got an end */
    PAIR_STATES
};

/* What becomes of a pair for which the other node names a connection of its own. */
enum pair_cross {
    PAIR_KEEPS,      /* its own connection counts: the other node will see that, too */
    PAIR_YIELDS,     /* the other's counts, and this node dials */
    PAIR_IMPOSSIBLE, /* no node does that */
};

struct pair_state_row {
    const char *name;
    unsigned next; /* states, a bit each */
    /* Opened from both sides: at the node with the lower number, and at the other one. A connection
     * of which the other node was not told does not count: the request for it can still fail. */
    enum pair_cross lower, higher;
};
extern const struct pair_state_row pair_states[PAIR_STATES];

struct pair {
    struct table_entry entry, by_connection, by_processes;
    struct pair *next_of_session, **link_of_session; /* in session->pairs */
    struct tcad *tcad;
    uint64_t id;         /* here */
    uint64_t connection; /* between the daemons: at first the same */
    uint32_t node;       /* of the other process */
    uint64_t session;    /* ours */
    uint64_t other;      /* theirs */
    unsigned rail;
    uint32_t bindings; /* that have not ended: puts over it land here, or will */
    uint64_t used;     /* when somebody asked for it last: the count of pairs.c */
    enum pair_state state;
    bool encrypts;
    bool dials;        /* this node's end is the one that dials */
    uint32_t turn;     /* how many connections its process has got */
    unsigned renewals; /* by new connections, */
    uint64_t renewals_since_ns;
    uint8_t secret[PAIR_SECRET_BYTES];
};

/* What plans know and want to know of pairs: set by daemon/setup.c. */
struct pair_hooks {
    /* Whether a plan of the session puts over the pair, or is being bound and may do so. */
    bool (*put_over)(const struct session *session, const struct pair *pair);
    /* The session has got one, or one less. */
    void (*changed)(struct tcad *tcad, uint64_t session);
};

struct pair *pair_find(struct tcad *tcad, uint64_t id);
/* The other node is about to be told of it. */
void pair_name(struct pair *pair);
int pairs_new(struct tcad *tcad, struct pairs **ret_pairs);
/* NULL is a no-op. Returns NULL. */
struct pairs *pairs_free(struct pairs *pairs);

/* What its connection takes in each of the two processes, at most. */
uint64_t pair_bytes(const struct pair *pair);
/* Whether these two processes have one. */
bool pairs_exist(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other);
/* Whether the session may have another one: it has fewer than it may have, or one that nobody uses,
 * which would be given up. */
bool pairs_have_room(const struct session *session);
/* What those of a session of this node take in its process, at most. */
uint64_t pairs_bytes(const struct session *session);
/* The connections of all processes of this node to processes of another, over one rail. */
struct pairs_to {
    unsigned plain, encrypted;
};
struct pairs_to pairs_to_node(const struct tcad *tcad, uint32_t node, unsigned rail);
/* Whether the rail's driver can make pairs. */
bool pairs_served(const struct tcad *tcad, unsigned rail);
/* The rail over which processes can have connections to that node; 0: none. If the node was not
 * contacted yet, it may turn out that the rail does not lead there. wanted: bit per rail, 0:
 * any. */
unsigned pairs_rail(const struct tcad *tcad, uint32_t node, unsigned wanted);
/* Whether its daemons make the connections; else the processes do, if they have access to the
 * device. */
bool pairs_are_made(const struct tcad *tcad, unsigned rail);
/* Whether the session's process can have connections over it: it has access, if it needs that. */
bool pairs_can(const struct session *session, unsigned rail);
/* Of the secret of a connection over this rail. */
size_t pairs_secret_bytes(const struct tcad *tcad, unsigned rail);

/* For the receiver: the pair with that process, made unless it exists. -EDQUOT, -ENOMEM. */
int pair_from(struct tcad *tcad, uint32_t node, uint64_t other, const struct session *to,
              unsigned rail, struct pair **ret_pair, char *text, size_t text_bytes);
/* A request for it has failed, and has ended its bindings: ends the pair if the other node was not
 * told of it, and no other request needs it. */
void pair_untold(struct tcad *tcad, uint64_t id);
/* The other node has not taken a reply that named it: ends the pair if it is expected for the first
 * time and no other reply names it. */
void pair_untaken(struct tcad *tcad, uint32_t node, uint64_t connection);
/* Whether the kernel encrypts what this node's process sends. */
bool pair_by_kernel(const struct pair *pair);
/* A binding to a pair, or to none, begins (1) or ends (-1). */
void pair_bound(const struct binding *binding, int change);
/* The process that a binding to a pair is for; NULL: it has ended. */
struct session *pair_receiver(const struct binding *binding);
/* Numbers the place where puts over a pair land. -ENETDOWN: the pair has ended; -ENOSPC,
 * -ENOMEM. */
int pair_land(struct binding *binding);
/* Informs the process of those, with one event for the first ones that have the same receiver: at
 * most BIND_PUTS_MAX bindings, of pairs or not. Returns how many these are. */
size_t pairs_tell_landings(struct binding *const *bindings, size_t count);
/* And of the end of a landing. */
void pair_unland(struct binding *binding);
/* The driver's event, on the loop: the connection that was expected. */
void pairs_connected(struct tcad *tcad, uint64_t connection, int fd, bool encrypts);

/* For the sender: the pair with the process that its node has named, made unless it exists.
 * -EPROTO, -EDQUOT, -ENOMEM. */
int pair_to(struct tcad *tcad, const struct session *from, uint32_t node, unsigned rail,
            const Tca__BoundPut *bound, struct pair **ret_pair, char *text, size_t text_bytes);
/* A client's PairLost. */
void pair_lost(struct session *session, const Tca__PairLost *lost);
/* A client's PairOffer. */
void pair_offered(struct session *session, const Tca__PairOffer *offer);
/* A PeerPairOffer. */
void pairs_offered(struct tcad *tcad, uint32_t node, const Tca__PeerPairOffer *offer);
/* A PeerPairAgain. */
void pairs_again(struct tcad *tcad, uint32_t node, const Tca__PeerPairAgain *again);

/* A PeerPairGone. */
void pairs_gone(struct tcad *tcad, uint32_t node, const Tca__PeerPairGone *gone);
void pairs_session_gone(const struct session *session);
void pairs_node_gone(struct tcad *tcad, uint32_t node);

/* ---- for pair_dial.c ---- */

int pair_new(struct tcad *tcad, const struct pair *values, struct pair **ret_pair, char *text,
             size_t text_bytes);
void pair_move(struct pair *pair, enum pair_state state);
static inline bool pair_is_expected(const struct pair *pair)
{
    return pair->state == PAIR_EXPECTS || pair->state == PAIR_NAMED;
}
/* Somebody asks for it. */
void pair_use(struct pair *pair);
/* With that process, or by the number of its connection. NULL: none. */
struct pair *pair_with(const struct tcad *tcad, uint64_t session, uint32_t node, uint64_t other);
struct pair *pair_of_connection(const struct tcad *tcad, uint64_t connection);
/* Its connection gets another number. */
void pair_renumber(struct pair *pair, uint64_t connection);
/* The receiver's side: waits for a connection that opens with pair->secret, which it chooses.
 * state: EXPECTS or NAMED. */
int pair_expect(struct pair *pair, enum pair_state state);
/* It is not to be waited for any more. */
void pair_forget(struct pair *pair);
/* The process gets its end of a connection. */
void pair_hand_over(struct pair *pair, int fd, bool encrypts);
/* To its process; fd -1: without a descriptor; offer: NULL, or of the other process. */
void pair_event(const struct pair *pair, Tca__Event__Kind kind, int status, int fd,
                const ProtobufCBinaryData *offer);
/* Gives it up, for both processes. */
void pair_give_up(struct pair *pair, int status);
/* Informs the other node's daemon that it has ended. */
void pair_tell_other(const struct pair *pair, int status);
