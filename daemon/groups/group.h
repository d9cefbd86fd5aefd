/*
 * Groups: how processes of a job find each other. Every group has a *root*, the daemon where its
 * members meet: named by "name@node", else chosen from the cluster file by rendezvous hashing of
 * (user, name). The root collects joins and gathers, and keeps what the group has published. The
 * member's side turns a session's request into a question to the root (peers_ask, which also
 * reaches the own daemon) and its answer into the session's.
 *
 * A group is identified by (user id, name). A gather has a sequence number: members that disagree
 * on it, or on the blob size, all get -EPROTO with a text that says who called what.
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

/* The member's side: requests of a session. Each answers the session (session_answer, session_fail)
 * under this tag, later. */
/* What a session of a group of so many takes for its place in it. */
uint64_t group_place_bytes(uint32_t size);
void group_join(struct session *session, uint32_t tag, const Tca__GroupJoin *join);
void group_gather(struct session *session, uint32_t tag, const Tca__Gather *gather);
void group_publish(struct session *session, uint32_t tag, const Tca__Publish *publish);
void group_lookup(struct session *session, uint32_t tag, const Tca__Lookup *lookup);

/* The session ends: tells every node of its group (PeerSessionGone), the root drops what it
 * published; whoever waits in a gather or join with it gets -EOWNERDEAD. */
void group_session_gone(struct session *session);

/* The root's side, from peers: PeerGroupJoin, PeerGather, PeerPublish, PeerLookup. True when the
 * question was one of these. */
bool groups_asked(struct groups *groups, uint32_t node, uint32_t tag, const Tca__Message *question);
/* PeerSessionGone of another node: marks the rank in every session of that group here
 * (session_source_gone). False: it is not that node's to say. A node speaks of its own sessions,
 * and as the root of a group of its members. */
bool groups_session_gone(struct groups *groups, uint32_t node, const Tca__PeerSessionGone *gone);
/* A node went down: its members are gone for every group here, -EHOSTDOWN for waiters. */
void groups_node_down(struct groups *groups, uint32_t node);

uint32_t groups_count(const struct groups *groups);
/* The session has asked to be in a group, and waits for the others. */
bool group_is_joining(const struct session *session);
/* Names a region was published under by sessions of this node's groups, for displays: calls back
 * for each. */
void groups_published(const struct groups *groups,
                      void (*each)(void *context, uid_t uid, const char *group, const char *name,
                                   const uint8_t handle[64]),
                      void *context);
