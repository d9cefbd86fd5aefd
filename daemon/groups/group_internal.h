/* Between the group*.c files. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/deadlines.h"
#include "daemon/base/table.h"
#include "daemon/groups/group.h"
#include "daemon/peers/peer.h"
#include "daemon/sessions/session.h"
#include "proto/handle.h"
#include "proto/limits.h"
#include "proto/wait.h"

enum {
    GROUP_TEXT_MAX = 320,
    GROUP_REQUESTS_MAX = 64, /* that one session may wait for: a thread waits for one, and the root
                                keeps each */
};

/*
 * PeerSessionGone on its way: the node of a session that ends tells the other nodes of its group,
 * and the root, which tells them again (two members' nodes need not have a connection). When a node
 * goes down, the root tells each node once of all sessions that it had in the group.
 */

/* ---- group_root.c, group_root_join.c: the groups that meet here ---- */

struct root;
int root_new(struct tcad *tcad, struct root **ret_root);
struct root *root_free(struct root *root);
void root_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join);
void root_session_gone(struct root *root, uint32_t node, const Tca__PeerSessionGone *gone);
void root_node_down(struct root *root, uint32_t node);
uint32_t root_count(const struct root *root);

/* ---- group_gather.c, group_publish.c: what a group does once it is complete ---- */

void root_gather(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGather *gather);
void root_publish(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerPublish *publish);
void root_lookup(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerLookup *lookup);

enum member_state {
    MEMBER_ABSENT,
    MEMBER_JOINING, /* waits for the others: tag */
    MEMBER_IN,
    MEMBER_GONE,
};

struct member {
    enum member_state state;
    int gone; /* -EOWNERDEAD, -EHOSTDOWN */
    uint32_t node;
    uint32_t tag; /* of its open join or gather */
    uint64_t session;
    uint64_t since_ns, deadline_ns; /* of that */
    bool gathering;
    uint8_t *blob; /* of its gather */
    struct published *published;
};

struct published {
    struct published *next, **link;
    struct table_entry entry; /* in group->names */
    uint32_t rank;
    char name[NAME_MAX_BYTES];
    uint8_t handle[HANDLE_BYTES];
};

struct lookup {
    struct group *group;
    struct lookup *next, **link;
    struct table_entry entry; /* in group->sought */
    uint32_t rank, tag;
    uint64_t since_ns;
    struct deadline deadline;
    char name[NAME_MAX_BYTES];
};

struct group {
    struct root *root;
    struct deadline joins_deadline, gather_deadline; /* the earliest of its members */
    struct group *next, **link;
    struct table_entry entry; /* in root->by_name */
    uint32_t user;
    char name[NAME_MAX_BYTES];
    uint32_t size;
    bool complete;
    uint32_t most_of_a_node; /* members; once it is complete */
    uint32_t joining, in;    /* members in that state */
    struct member *members;  /* [size] */

    uint32_t gathering; /* members whose gather is open */
    uint32_t first;     /* the rank that began the gather */
    uint64_t sequence;
    size_t blob_bytes;

    struct table names; /* published, by table_text() */
    struct lookup *lookups;
    struct table sought;  /* by these, likewise */
    struct charge charge; /* of all this, to the user */
};

struct root {
    struct tcad *tcad;
    struct group *groups;
    struct table by_name; /* by user and name */
    uint32_t count;
    uint64_t members; /* of all groups together, also those who have not come */
    struct deadlines deadlines;
    struct early *early; /* joins that wait for a group of that name to end */
};

/* group_early.c: false: it cannot be kept, it is to be refused now. */
bool early_keep(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join);
/* The group ends: those that wait for that try again. */
void early_retry(struct root *root, const struct group *group);
/* session 0: all of the node. */
void early_session_gone(struct root *root, uint32_t node, uint64_t session);
/* So much more is charged to the group's user: 0, or a negative errno and a text. */
int group_charge(struct root *root, struct group *group, uint64_t bytes, const char *what,
                 char *text, size_t text_bytes);
/* A join that does not wait any more: it is in, or refused. */
void root_try_join(struct root *root, uint32_t node, uint32_t tag, const Tca__PeerGroupJoin *join);

struct group *root_find(const struct root *root, uint32_t user, const char *name);
/* Without members yet. NULL: no memory. */
struct group *group_new(struct root *root, const Tca__PeerGroupJoin *join);
/* Nobody is in it, or waits to be, any more. */
void group_end(struct root *root, struct group *group);
/* Answers the open join or gather of every member. */
void group_answer_all(const struct root *root, const struct group *group,
                      const Tca__Message *answer);
/* Fails everybody who waits for the others to join. */
void group_fail_joins(struct root *root, struct group *group, int error, const char *text);
/* "ranks 2,5-7": those for which is() holds. */
void group_ranks(const struct group *group, bool (*is)(const struct member *member), char *ret_text,
                 size_t text_bytes);
/* "rank 3 (session 5 of node n1)" */
void group_who(const struct root *root, const struct group *group, uint32_t rank, char *ret_text,
               size_t text_bytes);
/* Fails everybody who waits in the gather. */
void group_fail_gather(struct root *root, struct group *group, int error, const char *text);
/* Ends the group if nobody is in it, or waits to be. */
void group_end_deserted(struct root *root, struct group *group);
/* What a rank has published and waits for. */
void group_drop_rank(struct group *group, uint32_t rank);
void group_drop_all(struct group *group);

/* ---- group_name.c ---- */

/* A name that may be shown and stored: not empty, below NAME_MAX_BYTES, without control characters.
 */
bool group_name_valid(const char *name);
/* Splits "name@node"; without a node, chooses one of the cluster that is the same on all nodes.
 * text: what is wrong. */
int group_place(const struct tcad *tcad, uint32_t user, const char *full,
                char ret_name[static NAME_MAX_BYTES], uint32_t *ret_root, char *text,
                size_t text_bytes);
const char *group_node_name(const struct tcad *tcad, uint32_t node);
uint64_t group_deadline(uint64_t now_ns, uint64_t timeout_ns);

/* ---- group.c: the member's side ---- */

/* What a session has published. */
struct own {
    struct own *next, **link;
    struct table_entry entry; /* in place->names */
    char name[NAME_MAX_BYTES];
    uint8_t handle[HANDLE_BYTES];
};

/* Who has gone as a rank, maybe before we knew who is in. */
struct gone {
    uint64_t session; /* 0: nobody */
    uint32_t node;
    enum source_state state;
};

/* A session's place in its group, from the moment it asks for it. */
struct place {
    struct place *next, **link;
    struct table_entry entry; /* in groups->by_session */
    uint64_t session;
    uint32_t user, root, rank, size;
    bool joined;                /* the members are known */
    bool entered;               /* and all of them know: it may call */
    char group[NAME_MAX_BYTES]; /* "": the session is alone, without a root */
    struct gone *gone;          /* [size] */
    bool left;                  /* it is forgotten once nobody looks at all of them any more */
    struct own *published;
    struct table names;   /* of these, by table_text() */
    struct charge charge; /* of these; the rest is its session's */
};

struct groups {
    struct tcad *tcad;
    struct root *root;
    struct request *requests;
    struct place *places;
    unsigned looking; /* at all of them: none is taken out of the list meanwhile */
    struct table by_session;
};

struct place *place_find(const struct groups *groups, uint64_t session);
struct place *place_new(struct session *session, const char *group, uint32_t root, uint32_t rank,
                        uint32_t size);
/* The session is no longer in its group: tells the others and forgets the place. NULL is fine. */
void place_leave(struct groups *groups, struct place *place);
/* For a session without a group: it is the only one in its own. */
bool group_alone(const struct session *session);
/* The place of a session that may call: one that has been told that it is in. Else the call is
 * failed. A session alone gets one with the first call. */
struct place *place_of_caller(struct session *session, uint32_t tag);

/* ---- group_request.c: questions to the root ---- */

enum request_kind {
    REQUEST_JOIN,
    REQUEST_BARRIER, /* the other half of a join */
    REQUEST_GATHER,
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
    uint32_t user, root;
    char group[NAME_MAX_BYTES];
    uint64_t deadline_ns;
    char name[NAME_MAX_BYTES]; /* published */
    uint8_t handle[HANDLE_BYTES];
};

/* NULL: the call was failed. */
struct request *request_new(struct session *session, const struct place *place,
                            enum request_kind kind, uint32_t tag, uint64_t timeout_ns);
struct request *request_free(struct request *request);
/* Sends the question; the request is freed with its answer. */
void request_send(struct request *request, const Tca__Message *question);
void request_gather(struct request *request, uint32_t rank, uint64_t sequence,
                    ProtobufCBinaryData blob);

/* ---- group_join.c ---- */

/* Collective calls of clients count up from 0. */
#define GROUP_JOIN_SEQUENCE UINT64_MAX
/* The root has said who the members are. Takes the request over. */
void join_members(struct request *request, struct session *session, struct place *place,
                  const Tca__GroupMembers *list);
/* All daemons know the group. */
void join_done(struct request *request, struct session *session, struct place *place);
void join_failed(struct request *request, struct session *session, struct place *place);

/* ---- group_share.c ---- */

/* The root has taken, or let go, what was published. */
void share_published(struct request *request, struct session *session, struct place *place);
void place_drop_published(struct place *place);
