/*
 * Which ranks of a group have ended, at one of its nodes. News goes along the tree of the group's
 * nodes: from a *neighbour* to all other neighbours, once, so that it costs about one message per
 * node however many ranks have ended meanwhile.
 *
 * Neighbours are those in the tree of the nodes that are not down: above, the nearest ancestor, or
 * without one the lowest position; below, those that are reached through nodes that are down only.
 * Two nodes that become neighbours tell each other all they know. So each node that stays up knows
 * all in the end, whichever nodes are lost, as long as a node that is down, or says so of the
 * sender, is noticed by whoever sends to it.
 *
 * Messages name *seats*: ranks in the order of their nodes' positions (roster.by_position). There,
 * those of a node follow each other, and those of a subtree.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/groups/roster.h"

enum { ENDS_RUNS_MAX = 1024 }; /* of either kind in a message */

/* Pairs of the first and how many. */
struct ends_news {
    const uint32_t *ended; /* seats */
    size_t n_ended;        /* numbers, two for each run */
    const uint32_t *down;  /* positions: all of their ranks have ended, too */
    size_t n_down;
};

struct ends_ops {
    /* The news is valid during the call, which must not change what is known. */
    void (*send)(void *context, uint32_t position, const struct ends_news *news);
    /* A rank has ended; called once for each. May report further ends. */
    void (*ended)(void *context, uint32_t rank, bool node_down);
    /* There is something to send: calls ends_flush() soon. */
    void (*later)(void *context);
};

struct ends_span {
    uint32_t begin, end;
};

struct ends {
    const struct ends_ops *ops;
    void *context;
    const struct roster *roster;
    uint32_t position; /* of this node */
    uint8_t *seats;    /* [roster->size] */
    uint8_t *nodes;    /* [roster->nodes] */
    uint32_t left;     /* ranks that have not ended */
    bool news;         /* there is some to send; */
    uint32_t source;   /* the neighbour that has told all of it; own position: there is none */
    struct ends_span new_seats, new_nodes; /* where it is */
};

/* Keeps the roster. -ENOMEM. */
int ends_init(struct ends *ends, const struct ends_ops *ops, void *context,
              const struct roster *roster, uint32_t position);
void ends_deinit(struct ends *ends);

/* A rank of this node ends. */
void ends_rank(struct ends *ends, uint32_t rank);
/* Another node is down, or is no longer in the group. */
void ends_node_down(struct ends *ends, uint32_t position);
/* Whether a rank is known to have ended; *ret_node_down: with its node. */
bool ends_know(const struct ends *ends, uint32_t rank, bool *ret_node_down);
/* News from the node at this position. 0; -EHOSTDOWN: that node counts as down; -EPROTO: these are
 * no runs. */
int ends_receive(struct ends *ends, uint32_t from, const struct ends_news *news);
/* Sends what is new. */
void ends_flush(struct ends *ends);
/* Calls each() for every neighbour. */
void ends_neighbours(const struct ends *ends, void (*each)(void *context, uint32_t position),
                     void *context);
