/*
 * A *team* is what a node has of a complete group: one for all of its ranks there. It knows where
 * all ranks are, and takes part in the collective calls of the group (daemon/groups/gather.h):
 * messages go to neighbours in the tree of its nodes only. The coordinator names a team by a random
 * number. It stays while ranks of other nodes live, because it passes on what they say.
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

struct team {
    struct groups *groups;
    struct table_entry entry; /* in groups->teams */
    uint64_t id;
    uint32_t user;
    char name[NAME_MAX_BYTES];
    struct roster roster;
    uint32_t position;      /* of this node */
    uint64_t *sessions;     /* [size] */
    uint64_t *incarnations; /* [roster.nodes] */
    struct reach_costs costs;
    struct gather gather;
    bool met; /* all nodes have got the list: a call has been completed */
    struct ends ends;
    bool stays;       /* counted in uses: until all ranks have ended */
    uint64_t told_ns; /* when ends were last told */
    struct deadline telling;
    struct place *places;     /* of this node; place->next_of_team */
    unsigned uses;            /* places, and calls that are being answered */
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
/* A place leaves; the last one ends the team. */
void team_leave(struct place *place);
/* The same when the daemon has ended: tells nobody. */
void team_forget(struct place *place);
/* Its session makes a collective call, and gets the reply later, under this tag. `bytes` is at most
 * BLOB_MAX_BYTES. */
void team_gather(struct place *place, uint32_t tag, uint64_t sequence, const uint8_t *data,
                 uint64_t bytes, uint64_t timeout_ns);
void teams_node_down(struct groups *groups, uint32_t node);
/* All are forgotten. */
void teams_free(struct groups *groups);
/* The lowest node of its sub-cluster. A node that a reload has removed from the cluster is
 * alone. */
uint32_t team_subcluster(const struct tcad *tcad, uint32_t id);
/* The list of members, for clients. */
void team_answer_members(struct team *team, struct session *session, uint32_t tag);
void team_unuse(struct team *team);

/* A request about a team has failed at this node, or not reached it. */
typedef void team_failed(struct team *team, uint32_t position, int status, const char *text);
/* Sends it. failed() is called only if the team, which need not exist here, then does. -ENOMEM. */
int team_request(struct groups *groups, uint64_t team, uint32_t node, const Tca__Message *message,
                 team_failed *failed);

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
