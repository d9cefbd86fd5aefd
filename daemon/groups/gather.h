/*
 * A collective call of a group: each rank contributes equally many bytes, and each gets those of
 * all. This is one node's part. It collects the contributions of its own ranks and of the subtrees
 * of its children, and sends them to its parent (UP). The root of the tree sends all of them back
 * down (DOWN), one message per node.
 *
 * A call fails at all ranks alike. What has failed goes up to the root (FAULT), which ends the call
 * by sending it down (FAILED). After a time-out it first asks which ranks are missing (WHO down,
 * MISSING up), to name them. Ranks may repeat a call that has failed, with the same number. So that
 * what is left of one *round* is not taken for a part of the next, messages carry its number: how
 * many calls have ended, in either way.
 *
 * The machine sends through functions, and knows neither peers nor time: the daemon connects it to
 * other nodes, and a test to a simulated network.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/groups/roster.h"
#include "daemon/groups/tree.h"

enum {
    GATHER_TEXT_BYTES = 320,
    GATHER_RUNS_MAX = 64, /* of missing ranks in a message: further ones are not named */
};

/* The highest two bits of a call's number say what kind of call it is: its user's business, but for
 * texts. */
#define GATHER_SPLITS    (UINT64_C(1) << 62)
#define GATHER_MEETS     (UINT64_C(2) << 62)
#define GATHER_CALLS_MAX (GATHER_SPLITS - 1) /* the greatest number of any other call */

enum gather_kind {
    GATHER_UP = 1,  /* from a child: what the ranks of its subtree contribute, in order */
    GATHER_FAULT,   /* from a child: the call must fail */
    GATHER_MISSING, /* from a child, the answer to WHO */
    GATHER_DOWN,    /* from the parent: what all ranks contribute */
    GATHER_FAILED,  /* from the parent */
    GATHER_WHO,     /* from the parent */
    GATHER_AGAIN,   /* from the parent: it did not exist when the last UP came */
};

struct gather_run {
    uint32_t first, count; /* ranks */
};

/* Pointers are the sender's, or the receiver's, for the time of the call. */
struct gather_message {
    enum gather_kind kind;
    uint64_t round;
    uint64_t sequence; /* UP, DOWN: the number of the call */
    uint32_t rank;     /* UP: one that has made it; FAULT: that was the first to fail */
    uint64_t bytes;    /* UP, DOWN: of each rank */
    const uint8_t *data;
    size_t data_bytes;
    int error;  /* FAULT, FAILED */
    bool final; /* no further call can succeed: a rank has ended */
    const char *text;
    const struct gather_run *runs; /* MISSING */
    uint32_t run_count;
};

/* What a group has at one node. */
struct gather_ops {
    void (*send)(void *context, uint32_t position, const struct gather_message *message);
    /* A call begins, for which the machine needs memory: `bytes` of each rank of the subtree, and
     * of the group. 0, or a negative errno and its text: it fails at all ranks. */
    int (*begin)(void *context, uint64_t bytes, char *ret_text, size_t text_bytes);
    /* The call of the node's own ranks is complete, or has failed. Further calls may begin. */
    void (*done)(void *context, const uint8_t *data, uint64_t bytes);
    void (*failed)(void *context, int error, const char *text);
    /* At the root: calls gather_ask_expired() after a while, for nodes that do not answer. */
    void (*ask_timer)(void *context, bool on);
};

enum gather_state {
    GATHER_IDLE,
    GATHER_COLLECTING, /* some have contributed */
    GATHER_SENT,       /* all have: waits for DOWN */
};

struct gather_branch {
    struct tree_range range;
    uint32_t count; /* of ranks in the subtree */
    uint32_t *at;   /* where they are in gather.ranks */
    bool given;     /* its UP has come */
    bool answered;  /* WHO */
};

struct gather {
    const struct gather_ops *ops;
    void *context;
    uint32_t size; /* of the group */
    struct tree_place place;
    /* of the subtree, in order */
    uint32_t rank_count;
    uint32_t *ranks;
    bool *given; /* the own ranks', whether they take part in this call */
    uint32_t own_count, own_given;
    bool *is_own;
    struct gather_branch branches[TREE_RADIX];

    enum gather_state state;
    uint64_t round;
    /* of the call, unless GATHER_IDLE */
    uint64_t sequence, bytes;
    uint32_t first; /* a rank that has made it */
    uint8_t *data;  /* of rank_count ranks */
    bool faulty;    /* waits for FAILED */
    int broken;     /* 0, or the error of this and all further calls, */
    char why[GATHER_TEXT_BYTES];
    /* WHO */
    bool asks;        /* it has come, or this is the root */
    unsigned unasked; /* children whose MISSING has not come */
    int fault;        /* at the root: what to say then, */
    char text[GATHER_TEXT_BYTES];
    uint32_t run_count;
    struct gather_run runs[GATHER_RUNS_MAX];
};

/* `position`: this node's. Returns 0 or -ENOMEM. */
int gather_init(struct gather *gather, const struct gather_ops *ops, void *context,
                const struct roster *roster, uint32_t position);
void gather_deinit(struct gather *gather);

/* A rank of this node makes call `sequence`. It must not be in one, and the machine not be
 * broken. */
void gather_call(struct gather *gather, uint32_t rank, uint64_t sequence, const uint8_t *data,
                 uint64_t bytes);
/* A call must fail: one that a rank of this node makes, after -ETIMEDOUT, for which the root finds
 * the text, or another error; or all from now on, because this rank, of this node or of a neighbour
 * that is down, has ended. Behind what is on its way: a call that the root has completed
 * succeeds. */
void gather_fail(struct gather *gather, uint32_t rank, int error, bool final, const char *text);
/* The parent is down: the calls of this subtree fail from now on. */
void gather_orphan(struct gather *gather, int error, const char *text);
/* A message from the node at this position. False: it may not send this, or not in this form. */
bool gather_receive(struct gather *gather, uint32_t position, const struct gather_message *message);
/* Children may have sent messages before this existed: they send them again. */
void gather_again(struct gather *gather);
/* The root: nodes that were asked have not answered for too long. */
void gather_ask_expired(struct gather *gather);
