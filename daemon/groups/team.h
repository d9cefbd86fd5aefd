/*
 * A *team* is what a node has of a complete group: one for all of its ranks there. It knows where
 * all ranks are, and takes part in the collective calls of the group (daemon/groups/gather.h):
 * messages go to neighbours in the tree of its nodes only. The coordinator names a team by a random
 * number. It stays while ranks of other nodes live, because it passes on what they say. A part of a
 * group has teams of its own (daemon/groups/team_part.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/deadlines.h"
#include "daemon/base/table.h"
#include "daemon/groups/ends.h"
#include "daemon/groups/gather.h"
#include "daemon/groups/roster.h"
#include "daemon/sessions/session.h"
#include "daemon/sessions/user.h"
#include "proto/costs.h"
#include "proto/limits.h"

struct groups;
struct place;

struct team;

/* What a rank of this node waits for. */
enum call {
    CALL_NONE,
    CALL_JOINS,    /* all ranks meet after the group is complete */
    CALL_GATHERS,  /* a collective call of its session */
    CALL_SPLITS,   /* another one: the colours of all ranks */
    CALL_MEETS,    /* all nodes have made the parts */
    CALL_SHRINKS,  /* the survivors have met (daemon/groups/team_shrink.c), */
    CALL_SURVIVES, /* which this is, in the part that they become */
};

/* A rank of this node in a team. */
struct caller {
    struct team *team;
    struct place *place;                   /* of its session */
    struct caller *next, **link;           /* in team->callers */
    struct caller *next_part, **link_part; /* in place->parts, unless this is the whole group's */
    struct caller *made; /* CALL_MEETS: what it gets of this split; NULL: nothing */
    uint32_t rank;
    enum call call;
    struct caller *maker; /* CALL_SURVIVES: who waits for this; NULL: nobody any more */
    uint32_t tried;       /* survivors of its group when it was last tried to shrink that, */
    uint32_t shrunk;      /* or was shrunk */
    bool overdue;         /* the call was reported as failing */
    uint32_t same_bytes;  /* CALL_GATHERS: the first of each rank, which it compares */
    uint32_t tag;
    uint64_t since_ns;
    struct deadline deadline;
};

/* What the ranks have published, at the root of the tree (daemon/groups/group_publish.c). */
struct board {
    struct published *published;
    struct lookup *lookups;
    struct table names;  /* published, by table_text() */
    struct table sought; /* names that lookups wait for, likewise */
};

/* Either all of a session's group, or a part of it (daemon/groups/team_part.c). */
struct team {
    struct groups *groups;
    struct table_entry entry; /* in groups->teams */
    uint64_t id;
    uint32_t user;
    char name[NAME_MAX_BYTES];
    struct roster roster;
    uint32_t position; /* of this node */
    struct gather gather;
    bool met; /* all nodes know the team: a call has been completed; of a part: the split's */
    uint32_t making; /* parts of it that have not met */
    bool stays;      /* counted in uses: until all ranks have ended, or no call can succeed */
    /* of a part: */
    struct team *whole;                  /* of all ranks; NULL: this is the whole */
    uint32_t *ranks;                     /* [size]: there */
    uint64_t from;                       /* the team that was split; 0: it was shrunk */
    uint64_t origin;                     /* the team that was shrunk first; else its own id */
    struct team *next_part, **link_part; /* in whole->parts */
    /* of the whole: */
    struct team *parts;
    struct members *members;
    struct reach_costs costs;
    struct ends ends;
    struct deadline telling;
    struct board board;
    struct caller *callers;
    unsigned uses;            /* callers, and calls that are being answered */
    struct charge charge;     /* all its memory, to the user */
    uint64_t call_bytes;      /* of that: for the running call */
    struct deadline patience; /* for nodes that are asked who is missing */
};

/* Sends the list to a node, possibly this one. */
void team_send_list(struct groups *groups, uint32_t node, const Tca__PeerGroupFormed *formed);
/* PeerGroupFormed. Ranks of this node that have asked to join are then members. */
void team_formed(struct groups *groups, uint32_t node, const Tca__PeerGroupFormed *formed);
/* PeerTeam. */
void team_told(struct groups *groups, uint32_t node, const Tca__PeerTeam *told);
/* A session of this node is this rank. */
void team_enter(struct team *team, struct caller *caller, struct place *place, uint32_t rank);
/* It ends; the last caller ends the team. */
void team_leave(struct caller *caller);
/* The same when the daemon has ended: tells nobody. */
void team_forget(struct caller *caller);
/* It makes no further calls: those of the others fail, with this. */
void team_withdraw(struct caller *caller, int error, const char *why);
/* A rank makes a collective call, and gets the reply later, under this tag. `bytes` is at most
 * BLOB_MAX_BYTES, and same_bytes no more than that. */
void team_call(struct caller *caller, enum call call, uint32_t tag, uint64_t sequence,
               const uint8_t *data, uint64_t bytes, uint32_t same_bytes, uint64_t timeout_ns);
void teams_node_down(struct groups *groups, uint32_t node);
/* The same for one team. Does nothing if it has no ranks there. */
void team_lose_node(struct team *team, uint32_t node);
/* All are forgotten. */
void teams_free(struct groups *groups);
/* The lowest node of its sub-cluster. A node that a reload has removed from the cluster is
 * alone. */
uint32_t team_subcluster(const struct tcad *tcad, uint32_t id);
/* The list of members, for clients. *memfd, at first -1, has it if it is long: the caller closes
 * it. */
void team_answer_members(const struct team *team, struct session *session, uint32_t tag,
                         int *memfd);
void team_unuse(struct team *team);

/* A request about a team has failed at this node, or not reached it. */
typedef void team_failed(struct team *team, uint32_t position, int status, const char *text);
/* Sends it. failed() is called only if the team, which need not exist here, then does. -ENOMEM. */
int team_request(struct groups *groups, uint64_t team, uint32_t node, const Tca__Message *message,
                 team_failed *failed);

extern const struct gather_ops team_gather_ops;

/* ---- team_part.c ---- */

/* The session's requests. */
void team_split(struct caller *caller, uint32_t tag, const Tca__GroupSplit *split);
void team_release(struct caller *caller, uint32_t tag);
/* All nodes know what all ranks have chosen: makes the parts of this node's ranks, and then all
 * ranks meet, so that no node gets a message about a part that it does not know. They fail
 * alike. */
void team_divide(struct team *team, const uint8_t *choices);
/* All have met, or not. */
void team_parts_met(struct team *team);
void team_parts_unmade(struct team *team);
/* Of the whole, a rank has ended. */
void team_parts_lose(struct team *whole, uint32_t rank, bool node_down);
/* A caller gets what it has waited for, */
void team_made(struct caller *caller, struct session *session);
/* or does not. */
void team_not_made(struct caller *caller);
void team_drop_part(struct caller *made);
/* A session's place in a part; NULL: it has none. */
struct caller *team_find_part(const struct place *place, uint64_t id);
/* The session ends. */
void team_leave_parts(struct place *place);
void team_forget_parts(struct place *place);

/* A new part of a team, in use by who calls this. ranks: of the whole; taken over. NULL: an error
 * with its text. */
struct team *team_part_new(struct team *team, uint32_t *ranks, uint32_t size, uint64_t id,
                           const char *name, int *ret_error, char *text, size_t text_bytes);
/* The caller gets a rank of the part. */
int team_part_enter(struct team *part, struct caller *from, uint32_t rank, char *text,
                    size_t text_bytes);
/* A call begins, unless its request is refused. */
bool team_begin_call(struct caller *caller, enum call call, uint32_t tag, uint64_t bytes,
                     uint64_t timeout_ns);
struct caller *team_find_caller(const struct team *team, uint32_t rank);
/* The session of a caller whose call has ended, in either way; NULL: it has ended, too. */
struct session *team_take_caller(struct caller *caller);
void team_fail_caller(struct caller *caller, int error, const char *text);
/* The reply of a split. made: NULL: it gets nothing. */
void team_answer_part(struct session *session, uint32_t tag, const struct caller *made);

/* ---- team_shrink.c ---- */

void team_shrink(struct caller *caller, uint32_t tag, uint64_t timeout_ns);
/* The survivors have met, or not: a rank that waits for this gets it, or tries again. */
void team_shrunk(struct caller *made);
void team_not_shrunk(struct caller *made);
/* The call of a rank that waits for this ends at its time-out. */
void team_shrink_late(struct caller *caller);
/* Of the whole, a rank has ended. */
void team_shrink_again(struct team *whole);

/* ---- team_ends.c ---- */

extern const struct ends_ops team_ends_ops;
/* A rank of this node ends. Neighbours learn that before what follows from it, such as the end of
 * its memory, unless others have ended just before. The caller calls team_settle(). */
void team_ends_rank(struct team *team, uint32_t rank);
/* PeerGroupEnds. */
void team_ends_told(struct groups *groups, uint32_t node, uint32_t tag,
                    const Tca__PeerGroupEnds *told);
/* It need not stay if all ranks have ended, or if the group has never come about. Ends the team,
 * unless that is in use. */
void team_settle(struct team *team);
