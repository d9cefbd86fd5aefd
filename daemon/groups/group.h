/*
 * Groups: how the processes of a job find each other. Each group has a *root*, the daemon that
 * coordinates it: the node in "name@node", or one chosen from the cluster file by rendezvous
 * hashing of (user, name). That puts the nodes in an order, the same everywhere, and the first that
 * answers is the root: a member passes over nodes that do not, and a root sends members on to a
 * node before it that does. A root also sends them on to the next node if that does not know the
 * root, because its cluster file is another one, but never to nodes that a member says it cannot go
 * to. Ranks of a node ask together (daemon/groups/pace.h), because a root that hears each rank of a
 * large job is what limits its start. The root collects joins, sends the list of members to the
 * nodes (daemon/groups/team.h), and keeps the group's name until each of them has said that its
 * last rank has ended, or is down. The group does not need it otherwise: published handles are at
 * the root of the tree of its nodes. The member's side forwards a session's request to either root
 * (peers_request(), also if it is this daemon) and the root's reply to the session.
 *
 * A group is identified by (user id, name). Collective calls go along a tree of its nodes
 * (daemon/groups/gather.h), not through the root. They have sequence numbers. If members disagree
 * on the number or on the size of their data, all get -EPROTO with a text that names the callers
 * and their calls.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/tca.pb-c.h"

struct tcad;
struct session;
struct groups;

int groups_new(struct tcad *tcad, struct groups **ret_groups);
struct groups *groups_free(struct groups *groups);

/* The memory of a session's place in a group. */
uint64_t group_place_bytes(void);

/* The member's side: requests of a session, which get their replies later, under this tag
 * (session_answer(), session_fail()). */
void group_join(struct session *session, uint32_t tag, const Tca__GroupJoin *join);
void group_gather(struct session *session, uint32_t tag, const Tca__Gather *gather);
void group_split(struct session *session, uint32_t tag, const Tca__GroupSplit *split);
void group_shrink(struct session *session, uint32_t tag, const Tca__GroupShrink *shrink);
void group_release(struct session *session, uint32_t tag, const Tca__GroupRelease *release);
void group_publish(struct session *session, uint32_t tag, const Tca__Publish *publish);
void group_lookup(struct session *session, uint32_t tag, const Tca__Lookup *lookup);

/* The session ends: the root drops what it has published, and all nodes of its group learn it along
 * their tree. Members that wait for it in a collective call or join get -EOWNERDEAD. */
void group_session_gone(struct session *session);

/* Messages of peers: PeerGroupJoin, PeerSessionGone, PeerPublish and PeerLookup to the root, and
 * those of teams. Returns whether the message was one of these. */
bool groups_requested(struct groups *groups, uint32_t node, uint32_t tag,
                      const Tca__Message *request);
/* A node is up: it takes over the groups that it coordinates by their names, unless they are
 * complete. */
void groups_node_up(struct groups *groups, uint32_t node);
/* A node went down: removes its members from all groups; callers that wait for them get
 * -EHOSTDOWN. */
void groups_node_down(struct groups *groups, uint32_t node);

uint32_t groups_count(const struct groups *groups);
/* Whether the session has requested to join a group and waits for the others. */
bool group_is_joining(const struct session *session);
/* Calls each() for every handle published by sessions of this node, for display. */
void groups_published(const struct groups *groups,
                      void (*each)(void *context, uid_t uid, const char *group, const char *name,
                                   const uint8_t handle[64]),
                      void *context);
