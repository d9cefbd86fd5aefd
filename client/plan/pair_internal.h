/* What the files pair*.c share. */
#pragma once

#include "client/core/target.h"
#include "client/plan/pair.h"
#include "drivers/seat.h"
#include "proto/layout.h"
#include "proto/notify.h"
#include "proto/segment.h"

/* Where puts of another process over a pair land; its address is the token of the driver's landing.
 * Its target has no region where it is a notification without data. */
struct landing {
    struct target target;
    const struct pair_driver *via;
    uint64_t pair;
    struct driver_landing *driver_landing;
    struct layout *layout;
    struct notify_target raises;
};

/* Everything here is under the lock of session->standby. What the driver reports, it may report to
 * the helper thread: it is noted in `struct pair`, and the program's thread acts on it, because
 * plans are its own. */
struct pairs {
    struct pair_driver *drivers; /* NULL: there was no pair yet */
    struct pair *pairs;
    bool news;          /* in some pair */
    bool reports;       /* in some pair */
    bool leaves_events; /* the helper thread does, to the program: control_is_full() */
    bool alone;         /* there could be no helper thread */
    bool costly;        /* to look: a driver asks the kernel */
};

enum {
    PAIR_PIECES = 16, /* in one call of the driver */
    PAIR_ROUNDS_MAX = 1 << 18,
};

/* What a driver of connections calls a region of this session. */
struct seat_region {
    struct seat_region *next;
    const struct pair_driver *via;
    struct driver_region *region;
};

/* -ENODEV. */
int seat_load(enum driver_id driver, const struct driver_seat **ret_seat);
/* Opens the instance of the rail, unless it is open. Either thread. -ENODEV, with a text, if this
 * process has none. */
int pairs_open(struct tca *session, uint32_t rail, struct pair_driver **ret_via);
/* The same, without looking. */
int pairs_open_driver(struct tca *session, uint32_t rail, const struct driver_events *events,
                      struct pair_driver **ret_via);
/* Whether one of the drivers has work now; else its descriptor becomes readable when it has. */
bool pairs_are_busy(const struct pairs *pairs);
/* The driver has lost the pair, or is to. Either thread. */
void pair_lose(struct tca *session, struct pair *pair, int error);
/* tcad has ended the pair. */
void pair_gone(struct tca *session, struct pair *pair, const char *text);
/* Breaks the plans of pairs that have ended. On the program's thread, with the lock. */
void pairs_take_news(struct tca *session);
/* Tells tcad what it is to know of pairs. What cannot be sent now is sent later. Either thread. */
void pairs_report(struct tca *session);
/* Moves connections on. Either thread, and any that there may be none. */
int pairs_move(struct tca *session);
/* As pairs_take(), on either thread. */
void pairs_take_locked(struct pairs *pairs);

/* An event of tcad, on the helper thread: whether it was dealt with. If not, the program's thread
 * gets it. */
bool pair_event_early(void *session, const Tca__Event *event, struct frame *frame);
/* To all drivers. */
void pair_forget_region(struct mapped_region *region);
/* NULL: none. */
struct pair *pair_look_up(const struct tca *session, uint64_t id);
int pair_make(struct tca *session, uint64_t id, uint32_t rail, struct pair **ret_pair);
void pair_remove(struct tca *session, struct pair *pair);
bool pair_is_used(const struct tca *session, const struct pair *pair);
/* No plan that puts over it can be started any more. */
void pair_break_plans(struct tca *session, const struct pair *pair, bool lossy, const char *text);
void pair_end_landing(struct tca *session, struct target *target, const void *none);
