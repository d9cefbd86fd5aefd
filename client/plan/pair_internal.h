/* What pair.c and pair_events.c know of each other. */
#pragma once

#include "client/plan/pair.h"
#include "drivers/tcp/adopt.h"
#include "proto/layout.h"
#include "proto/segment.h"

/* Where puts of another process over a pair land; its address is the token of the driver's landing. */
struct landing {
    struct landing *next;
    uint64_t pair;
    uint32_t index, generation;
    struct mapped_region *region; /* NULL: a notification without data, or its memory is freed */
    struct driver_landing *driver_landing;
    struct layout *layout;
    struct notify_line *line; /* NULL: no notification */
    uint64_t address;         /* of the data, as a hint */
};

struct pairs {
    const struct tcp_seat *seat;
    struct driver *driver;
    struct pair *pairs;
    struct landing *landings;
    struct watch *watch; /* of the driver's events, while this process sleeps; NULL: it never has */
};

enum {
    PAIR_PIECES = 16, /* in one call of the driver */
    PAIR_ROUNDS_MAX = 1 << 18,
};

/* -ENODEV. */
int seat_load(const struct tcp_seat **ret_seat);
/* Opens the driver's instance, unless it is open. */
int pairs_open(struct tca *session);
/* NULL: none. */
struct pair *pair_look_up(const struct tca *session, uint64_t id);
int pair_make(struct tca *session, uint64_t id, struct pair **ret_pair);
void pair_remove(struct tca *session, struct pair *pair);
bool pair_is_used(const struct tca *session, const struct pair *pair);
/* No plan that puts over it can be started any more. */
void pair_break_plans(struct tca *session, const struct pair *pair, bool lossy, const char *text);
void pair_free_landing(struct tca *session, struct landing *landing);
