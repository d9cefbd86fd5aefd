/* Shared by the group*.c files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/deadlines.h"
#include "daemon/base/table.h"
#include "daemon/groups/group.h"
#include "daemon/groups/team.h"
#include "daemon/peers/peer.h"
#include "daemon/sessions/session.h"
#include "proto/costs.h"
#include "proto/handle.h"
#include "proto/limits.h"
#include "proto/wait.h"

enum {
    GROUP_TEXT_MAX = 320,
    GROUP_REQUESTS_MAX = 64, /* open requests of a session. A thread waits for one at a time, and
                                the root keeps each. */
    CHOICES_MAX = 16,
};

/* Nodes that come before another one as the root of a group, or cannot be it. */
struct choices {
    unsigned count;
    uint32_t nodes[CHOICES_MAX];
};

static inline bool choices_have(const struct choices *choices, uint32_t node)
{
    for (unsigned i = 0; i < choices->count; i++)
        if (choices->nodes[i] == node)
            return true;
    return false;
}

/* Unless they are full, or have it. */
static inline void choices_add(struct choices *choices, uint32_t node)
{
    if (choices->count < CHOICES_MAX && !choices_have(choices, node))
        choices->nodes[choices->count++] = node;
}

/* ---- group_root.c, group_root_join.c: groups whose root is this daemon ---- */

struct root;
struct cluster;
int root_new(struct tcad *tcad, struct root **ret_root);
struct root *root_free(struct root *root);
void root_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join);
void root_session_gone(struct root *root, uint32_t node, const Tca__PeerSessionGone *gone);
void root_node_down(struct root *root, uint32_t node);
uint32_t root_count(const struct root *root);

/* ---- group_publish.c: at the root of a group's tree ---- */

struct published {
    struct published *next, **link;
    struct table_entry entry; /* in team->board.names */
    uint32_t rank;
    char name[NAME_MAX_BYTES];
    uint8_t handle[HANDLE_BYTES];
};

struct lookup {
    struct team *team;
    struct lookup *next, **link;
    struct table_entry entry; /* in team->board.sought */
    uint32_t rank, tag;
    uint64_t since_ns;
    struct deadline deadline;
    char name[NAME_MAX_BYTES];
};

/* PeerPublish and PeerLookup. */
void team_publish(struct groups *groups, uint32_t node, uint32_t tag,
                  const Tca__PeerPublish *publish);
void team_lookup(struct groups *groups, uint32_t node, uint32_t tag, const Tca__PeerLookup *lookup);
/* Ranks have ended: drops what they have published, and their lookups. */
void board_ranks_ended(struct team *team);
void board_deinit(struct team *team);

/* A node's request for some of its ranks, which will get one reply. */
struct ask {
    struct ask *next, **link; /* in group->asks */
    uint32_t node, tag;
    struct member *members;
    uint32_t count; /* of them */
};

/* Of a group that is not complete. */
struct member {
    bool joins;                  /* and waits for the others */
    struct ask *ask;             /* NULL: its node has got the reply, and asks again */
    struct member *next, **link; /* in that */
    uint32_t node;
    uint64_t session;
    uint64_t since_ns, deadline_ns;
};

struct group {
    struct root *root;
    struct deadline joins_deadline; /* the earliest of all members */
    struct group *next, **link;
    struct table_entry entry; /* in root->by_name */
    uint32_t user;
    char name[NAME_MAX_BYTES];
    uint32_t size;
    bool complete;
    bool chosen;           /* its root is this node because of its name */
    struct choices before; /* nodes that would be its root if they answered */
    struct choices barred; /* nodes that cannot be its root, as some members say */
    uint32_t joining;
    struct member *members; /* [size]; NULL: it is complete */
    struct ask *asks;
    struct reach_costs costs;
    /* Complete: the name is taken until all ranks have ended. */
    uint64_t team;
    struct roster roster;
    uint64_t *sessions;   /* [size]; 0: it has ended, but not all of its node */
    uint32_t *left;       /* by position: ranks that have not ended */
    uint32_t in;          /* all of them */
    struct charge charge; /* of all its memory, to the user */
};

struct root {
    struct tcad *tcad;
    struct group *groups;
    struct table by_name; /* by user and name */
    uint32_t count;
    uint64_t members; /* of all groups together, including those that have not joined yet */
    struct deadlines deadlines;
    struct early *early; /* joins that wait for an older group of the same name to end */
    uint32_t early_count;
};

/* ---- group_choice.c: whether this node is to be the root ---- */

/* A join creates a group whose root was chosen. Returns true if the join was sent to another node;
 * else group->before is to be this. */
bool choice_moves(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join,
                  struct choices *ret_before);
/* A member cannot go to some nodes. */
void choice_bar(struct group *group, const Tca__PeerGroupJoin *join);
/* A group was created: asks the nodes on which it depends whether they answer, and know this
 * node. */
void choice_ask(struct root *root, const struct group *group);
void choice_node_up(struct root *root, uint32_t node);

/* group_early.c. Returns false if the join cannot wait and must be refused now. */
bool early_keep(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join);
/* The group ends: retries the joins that wait for this. */
void early_retry(struct root *root, const struct group *group);
/* session 0: all sessions of the node. */
void early_session_gone(struct root *root, uint32_t node, uint64_t session);
void early_drop_all(struct root *root);
/* Charges memory to the group's user. Returns 0, or a negative errno and its text. */
int group_charge(struct root *root, struct group *group, uint64_t bytes, const char *what,
                 char *text, size_t text_bytes);
/* A join that no longer waits: it is admitted or refused. */
void root_try_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join);

struct group *root_find(const struct root *root, uint32_t user, const char *name);
/* A group without members. NULL: out of memory. */
struct group *group_new(struct root *root, const Tca__PeerGroupJoin *join);
/* Ends a group that has no members and no pending joins. */
void group_end(struct root *root, struct group *group);
/* Takes a request back, with the joins of its ranks. The last one ends all joins. False: there is
 * none. */
bool group_take_ask(struct group *group, uint32_t *ret_node, uint32_t *ret_tag);
/* Fails all pending joins. */
void group_fail_joins(struct root *root, struct group *group, int error, const char *text);
/* Text such as "ranks 2,5-7", of the ranks for which is() returns true. */
void group_ranks(const struct group *group, bool (*is)(const struct group *group, uint32_t rank),
                 char *ret_text, size_t text_bytes);
/* Text such as "rank 3 (session 5 of node n1)", of a rank that joins. */
void group_who(const struct root *root, const struct group *group, uint32_t rank, char *ret_text,
               size_t text_bytes);
/* Ends the group if it has no members and no pending joins. */
void group_end_deserted(struct root *root, struct group *group);

/* ---- group_name.c ---- */

/* Whether a name is valid: not empty, shorter than NAME_MAX_BYTES, no control characters. */
bool group_name_valid(const char *name);
/* Splits "name@node". Without a node, *ret_root is the first of group_choose(), and *ret_chosen
 * true. text: the error. */
int group_place(const struct tcad *tcad, uint32_t user, const char *full,
                char ret_name[static NAME_MAX_BYTES], uint32_t *ret_root, bool *ret_chosen,
                char *text, size_t text_bytes);
/* The node that is to coordinate the group if none of the others does. All nodes with the same
 * cluster file choose the same. False: there are no more nodes, or `others` is full. */
bool group_choose(const struct cluster *cluster, uint32_t user, const char *name,
                  const struct choices *others, uint32_t *ret_node);
const char *group_node_name(const struct tcad *tcad, uint32_t node);
uint64_t group_deadline(uint64_t now_ns, uint64_t timeout_ns);

/* ---- group.c: the member's side ---- */

/* A handle that a session has published. */
struct own {
    struct own *next, **link;
    struct table_entry entry; /* in place->names */
    char name[NAME_MAX_BYTES];
    uint8_t handle[HANDLE_BYTES];
};

enum place_state {
    PLACE_ASKS,  /* its request to join has no reply */
    PLACE_WAITS, /* the group is complete: the list of members comes along the tree */
    PLACE_MEETS, /* it has come; at its first call all ranks meet, so that all of their nodes know
                    the group */
    PLACE_IN,    /* the session may make collective calls */
};

/* A session's place in its group, from its request to join. */
struct place {
    struct groups *groups;
    struct place *next, **link;
    struct table_entry entry; /* in groups->by_session */
    uint64_t session;
    uint32_t user, root, rank, size;
    enum place_state state;
    uint32_t tag; /* of the session's join */
    uint64_t join_deadline_ns;
    struct deadline deadline;                   /* PLACE_WAITS: the same */
    struct party *party;                        /* PLACE_ASKS: with which it asks */
    struct place *next_joining, **link_joining; /* in that */
    struct caller caller;       /* has a team from PLACE_MEETS on, unless it is alone */
    struct caller *parts;       /* those of its group's parts */
    char group[NAME_MAX_BYTES]; /* "": a group of one, without a root */
    bool left;                  /* freed when the list is no longer being walked */
    struct own *published;
    struct table names;   /* of published handles, by table_text() */
    struct charge charge; /* of these; the rest is charged to the session */
};

struct groups {
    struct tcad *tcad;
    struct root *root;
    struct request *requests;
    struct place *places;
    struct party *parties;
    struct table parties_by_name; /* by user and name */
    unsigned looking;             /* walks of the list in progress: no place is removed meanwhile */
    struct table by_session;
    struct table teams; /* by id */
    struct deadlines deadlines;
};

/* Any walk over all places during which sessions can end is enclosed by these two. */
void groups_begin_look(struct groups *groups);
void groups_end_look(struct groups *groups);
struct place *place_find(const struct groups *groups, uint64_t session);
struct place *place_new(struct session *session, const char *group, uint32_t root, uint32_t rank,
                        uint32_t size);
/* The session leaves its group: informs the others and frees the place. Accepts NULL. */
void place_leave(struct groups *groups, struct place *place);
/* Whether the session is in a group of one. */
bool group_alone(const struct session *session);
/* The place of a session that may make group calls: one that has joined. Otherwise fails the
 * request and returns NULL. A session without a group gets its place with its first call. */
struct place *place_of_caller(struct session *session, uint32_t tag);

/* ---- group_request.c: requests to the root of the group's tree ---- */

enum request_kind {
    REQUEST_PUBLISH,
    REQUEST_WITHDRAW,
    REQUEST_LOOKUP,
};

struct request {
    struct request *next, **link;
    struct groups *groups;
    enum request_kind kind;
    uint64_t session;
    uint32_t tag;
    uint32_t root;
    char group[NAME_MAX_BYTES];
    uint64_t deadline_ns;
    char name[NAME_MAX_BYTES]; /* published */
    uint8_t handle[HANDLE_BYTES];
};

/* A root applies the time-outs of requests. The asking daemon waits so much longer. */
#define ROOT_GRACE_NS UINT64_C(500000000)

/* NULL: the session's request was failed. */
struct request *request_new(struct session *session, const struct place *place,
                            enum request_kind kind, uint32_t tag, uint64_t timeout_ns);
struct request *request_free(struct request *request);
/* Sends the request, which is freed with its reply. */
void request_send(struct request *request, const Tca__Message *message);

/* ---- group_party.c: joins of this node's ranks, until their root has answered ---- */

struct party;
/* The memory of one. There are no more than places, but for those that wait for a last answer. */
size_t party_bytes(void);
/* The session asks to join. local_size: how many ranks of this node will, as the session says;
 * 0: unknown. -ENOMEM. Can fail the join. */
int party_join(struct session *session, struct place *place, bool chosen, uint32_t local_size);
/* It asks no longer. Does nothing if it does not. */
void party_leave(struct place *place);
/* The session ends. Returns true if that is told to the root, with its join. */
bool party_ended(struct place *place);
void parties_free(struct groups *groups);

/* ---- group_join.c ---- */

/* The numbers of clients' collective calls count up from 0. */
#define GROUP_JOIN_SEQUENCE UINT64_MAX
/* The group is complete: waits for the list of members, unless that has come. */
void join_complete(struct place *place);
/* It has come, and place->team is set; NULL: an error with its text. Can end the session. */
void join_members(struct place *place, struct team *team, int error, const char *text);
/* All members' daemons know the group. */
void join_done(struct session *session, struct place *place, int *memfd);
void join_failed(struct session *session, struct place *place);

/* ---- group_share.c ---- */

/* The root has published or withdrawn the handle. */
void share_published(struct request *request, struct session *session, struct place *place);
void place_drop_published(struct place *place);
