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
 *
 * The first end is told at once, and later ones together: while ends go on, a node waits for twice
 * as long from one telling to the next. So the ends of a job's ranks, which take as long as their
 * processes, cost few messages, and that of a single rank none of its time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/groups/roster.h"

enum {
    ENDS_RUNS_MAX = 1024,    /* of either kind in a message */
    ENDS_REPORTED_MAX = 256, /* ranks in a call of ended() */
};

/* Between two tellings. Reset when none was due for twice as long as the last one waited. */
#define ENDS_WAIT_MIN_NS UINT64_C(1000000)
#define ENDS_WAIT_MAX_NS UINT64_C(64000000)

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
    /* These ranks have ended. Each is reported once. May report further ends. */
    void (*ended)(void *context, const uint32_t *ranks, size_t count, bool node_down);
    /* There is something to send: calls ends_flush() at ends_due(). */
    void (*later)(void *context);
};

struct ends_span {
    uint32_t begin, end;
};

struct ends {
    const struct ends_ops *ops;
    void *context;
    const struct roster *roster;
    uint32_t position;         /* of this node */
    uint8_t *seats;            /* [roster->size] */
    uint8_t *nodes;            /* [roster->nodes] */
    uint32_t left;             /* ranks that have not ended */
    uint64_t told_ns, wait_ns; /* the last telling; the next is so much later, or more */
    bool news;                 /* there is some to send; */
    uint32_t source; /* the neighbour that has told all of it; own position: there is none */
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
/* When to send what is new, if a part of it has just arrived. `own`: it is about this node. */
uint64_t ends_due(const struct ends *ends, uint64_t now_ns, bool own);
/* Sends it. */
void ends_flush(struct ends *ends, uint64_t now_ns);
/* Calls each() for every neighbour. */
void ends_neighbours(const struct ends *ends, void (*each)(void *context, uint32_t position),
                     void *context);
