/* Waiting, for modules of this library that are built on tca.h. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/include/tca.h"

/* As tca_wait_until(). rare: called before each sleep and occasionally while spinning, for checks
 * that `ready` leaves out. overdue: sets the error of a time-out, also for TCA_HANG
 * (client/core/hang.h). Returns the result of `ready`, or what `overdue` returns; without that 0:
 * timed out. */
struct session_wait {
    int (*ready)(void *context);
    void (*rare)(void *context); /* may be NULL */
    int (*overdue)(const void *context, int64_t timeout_ns);
    void *context;
};
int session_wait_until(struct tca *session, const struct session_wait *wait, int64_t timeout_ns);

/* TCA_HANG for a wait that consists of several: when it has lasted so long, session_hang_look()
 * reports once what it waits for, as `overdue` says it. Both read the clock only if there is a
 * limit. Parts that last as long report themselves, too. */
struct session_hang {
    uint64_t since_ns;
    uint64_t due_ns; /* UINT64_MAX: never, or it has been told */
};
struct session_hang session_hang_begin(void);
void session_hang_look(const struct tca *session, struct session_hang *hang,
                       int (*overdue)(const void *context, int64_t waited_ns), const void *context);

/* How long a call of this time-out has waited, for messages: "within 10 s (TCA_TIMEOUT)". Returns
 * text. */
enum { TIMEOUT_TEXT_BYTES = 48 };
const char *session_timeout_text(const struct tca *session, int64_t timeout_ns,
                                 char text[TIMEOUT_TEXT_BYTES]);

/* For calls that wait several times: one deadline for all of it, the session's time-out after
 * session_limit_begin(). Until session_limit_end(), which is given what the former returned, every
 * wait with TCA_DEFAULT ends there. In a call within a call, the deadline of the outer one
 * counts. */
uint64_t session_limit_begin(struct tca *session);
void session_limit_end(struct tca *session, uint64_t outer_ns);

/* A slot of the notifications of a rank, looked up once. Valid until the session ends. */
struct session_slot {
    struct notify_line *line; /* NULL: not found yet, as nobody can have notified it yet */
    _Atomic uint64_t *taken;
    uint32_t rank, slot;
    uint32_t searched; /* lines that the session had when it was not found */
};

/* As tca_notified(), in two steps; session_take() does not look for ranks that have ended. */
int session_slot_find(struct tca *session, uint32_t rank, uint32_t slot,
                      struct session_slot *ret_slot);
int session_take(struct tca *session, struct session_slot *slot);
/* As tca_notified(), of a slot that was looked up; takes at most `most` notifications, and returns
 * how many. */
int session_take_all(struct tca *session, struct session_slot *slot, uint32_t most);
/* For those who look at many slots: session_advance() does once what session_take_all() does each
 * time beside looking at its slot. False: the latter finds something, also that the rank or tcad
 * has ended. */
void session_advance(struct tca *session);
bool session_is_quiet(struct tca *session, struct session_slot *slot);
/* Counts one notification more, as if the rank had sent it. No start that waits for it may run.
 * -EPROTO: no committed plan waits for the slot, or notifies it. */
int session_grant(const struct session_slot *slot);

/* Another process has to copy before this one can go on, and does not wake it: until as many calls
 * with false, waits sleep for a tenth of a millisecond at a time. */
void session_expect_help(struct tca *session, bool begins);

/* Of a plan that runs, for messages: "it waits for rank 1 to notify slot 6, ...". */
void plan_waits_for(const struct tca_plan *plan, char *text, size_t text_bytes);

/* How many starts and plans have failed so far, including those that have just ended: if it has
 * grown, some plan has an error to report. */
uint64_t session_failures(struct tca *session);

/* What client/coll/ has for a session; NULL: nothing. drop() is called before one of the session's
 * groups is released, and with NULL before the session is closed; spare() when tcad has refused
 * something with -EDQUOT: it releases what the program does not use, and returns whether there was
 * any. */
struct session_keeper {
    void (*drop)(struct session_keeper *keeper, struct tca_group *group);
    bool (*spare)(struct session_keeper *keeper);
};
struct session_keeper **session_keeper(struct tca *session);

/* One of the session's messengers, for client/msg/; NULL: it has none. */
struct tca_msg;
struct tca_msg **session_messengers(struct tca *session);
