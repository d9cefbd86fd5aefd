/*
 * Which receive gets which message: receives that wait for a message, and messages that wait for a
 * receive, by context, rank and tag. A receive takes any rank or any tag where it says MATCH_ANY.
 * As MPI has it: a message goes to the first receive posted that takes it, a receive gets the
 * first message kept that it takes. Each costs a few look-ups, however many wait.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define MATCH_ANY UINT32_MAX

struct match_key {
    uint32_t context, rank, tag;
};

/* In a queue of its table. */
struct match_link {
    struct match_link *next, *previous;
    struct match_key key;
    uint32_t hash;
    uint64_t stamp; /* of a receive: the lower, the earlier it was posted */
};

/* Part of what waits; the caller's memory. */
struct match_receive {
    struct match_link link;
};

/* Linked under each key that a receive which takes it may have: bit 0 of the index, any tag; bit 1,
 * any rank. */
struct match_message {
    struct match_link links[4];
};

struct match_queue {
    struct match_link *first, *last;
};

struct match_table {
    struct match_queue *queues; /* by hash; a queue may hold several keys */
    uint64_t queue_count;       /* a power of two */
    uint64_t link_count;
};

struct matching {
    struct match_table receives, messages;
    uint64_t posted[4]; /* receives, by kind: as the index in match_message */
    uint32_t kinds;     /* bits: those of which there are some */
    uint64_t stamp;
};

/* -ENOMEM. */
int matching_init(struct matching *matching);
/* Leaves what still waits to the caller. */
void matching_deinit(struct matching *matching);

/* Takes the first receive for a message out of the table. NULL: none takes it. */
struct match_receive *match_take_receive(struct matching *matching, struct match_key message);
void match_post(struct matching *matching, struct match_receive *receive, struct match_key key);
/* A receive that is posted. */
void match_withdraw(struct matching *matching, struct match_receive *receive);

/* The first message that a receive with this key takes; it stays. NULL: there is none. */
struct match_message *match_find_message(const struct matching *matching, struct match_key key);
/* key: of the message, without MATCH_ANY. */
void match_keep(struct matching *matching, struct match_message *message, struct match_key key);
/* A message that is kept. */
void match_drop(struct matching *matching, struct match_message *message);
/* Any message that is kept. NULL: none is. Linear in the size of the table: for its end. */
struct match_message *match_some_message(const struct matching *matching);

/* Whether receives from any rank are posted. */
static inline bool match_any_rank_waits(const struct matching *matching)
{
    return matching->kinds & (1u << 2 | 1u << 3);
}

static inline struct match_key match_key_of(const struct match_message *message)
{
    return message->links[0].key;
}
