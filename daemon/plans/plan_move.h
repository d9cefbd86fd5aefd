/*
 * Moves of a plan from one route to another. A *route* is a rail and a seat; those of all chains of
 * a plan change between two of its starts, so a plan makes one move at a time. plan_move.c walks it
 * through these states while the plan is READY. What a move does follows from the seats that the
 * plan has and is to have, not from its cause: a rail was lost, or a better one is back; the client
 * tries another route (plan_try.c); there may be a connection for the client (plan_watch.c).
 * tests/model/route.pml proves that starts stay in order.
 *
 *   to a rail   SETTLED -> RESTING or PAUSING -> FLUSHING -> STRIPPING -> REGISTERING ->
 *               PREPARING -> SETTLED
 *   join tcad   SETTLED -> BINDING -> REGISTERING -> PREPARING -> SETTLED
 *   join pair   SETTLED -> BINDING -> MAPPING -> SETTLED
 *   part        SETTLED -> RESTING -> FLUSHING -> STRIPPING -> UNBINDING -> SETTLED
 *
 *   RESTING      the engine accepts starts while one runs, then holds them
 *   PAUSING      a rail was lost: the engine cancels a start that runs and holds later ones
 *   FLUSHING     the plan's puts complete remotely
 *   STRIPPING    the puts and chains that move are released (engine)
 *   REGISTERING  chooses the rails of these chains; connects and registers as in a commit
 *   PREPARING    compiles their puts (engine)
 *   BINDING      binds all chains for another seat, too, while starts run in the one that the plan
 *                has
 *   MAPPING      collects what the client needs for that
 *   UNBINDING    releases what the chains are bound to for a seat that the plan is not to have
 *
 * An attempt to bind a route has its own error. If it fails, the plan stays in, or takes, the other
 * seat, if it has one: UNBINDING, in tcad's seat STRIPPING before, follows. Else the plan breaks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/segment.h"

struct plan;

struct route {
    unsigned rail;
    enum seat seat;
};

enum route_state {
    ROUTE_SETTLED,
    ROUTE_RESTING,
    ROUTE_PAUSING,
    ROUTE_FLUSHING,
    ROUTE_STRIPPING,
    ROUTE_REGISTERING,
    ROUTE_PREPARING,
    ROUTE_BINDING,
    ROUTE_MAPPING,
    ROUTE_UNBINDING,
    ROUTE_STATES,
};
bool plan_move_legal(enum route_state from, enum route_state to);

/* For counters and texts. */
enum move_cause {
    CAUSE_LOSS,   /* of a rail */
    CAUSE_RETURN, /* of a better one, or one for shares */
    CAUSE_TRIAL,  /* the client's request */
    CAUSE_PAIR,   /* there may be a connection for the client */
    CAUSES,
};

struct plan_move {
    enum route_state state;
    enum move_cause cause;
    unsigned seats; /* that the plan is to have, as plan->seats */
    bool held;      /* the engine holds its starts */
};

/* To bind a plan to routes: the commit, or a move. */
struct plan_attempt {
    _Atomic int error; /* the first error, from any thread: plan_fail() */
    char text[512];    /* owned by the thread that set it, until nothing is pending */
};

enum asked_for {
    ASKED_NOTHING, /* that was not carried out */
    ASKED_RAIL,    /* plan_chain.asked; or only that the data of earlier starts arrives */
    ASKED_JOIN,    /* tcad's seat, too */
    ASKED_PART,    /* not tcad's any more */
};

/* The client's last request to try a route (plan_try.c). */
struct plan_trial {
    enum asked_for what;
    uint32_t turn, answered; /* PlanTry.turn of the last request, and of the last one carried out */
};

/* Of a plan that wants its client's seat, and is in tcad's (plan_watch.c): the next attempt to move
 * up. */
struct plan_rise {
    uint64_t due_ns;   /* not before */
    uint32_t failures; /* in a row */
    uint64_t starts;   /* of the plan, at the last attempt */
    char why[256];     /* it is not there; owned by the loop's thread */
};

#define SEAT_BIT(seat) (1u << (seat))
#define BOTH_SEATS     (SEAT_BIT(SEAT_CLIENT) | SEAT_BIT(SEAT_DAEMON))

/* READY, and nothing is pending: begins a move. To have these seats; PAUSING and RESTING: through
 * another route in those that it has. */
void plan_move_begin(struct plan *plan, enum move_cause cause, enum route_state first,
                     unsigned seats);
/* READY, and nothing is pending: the next step, if there is one. */
void plan_move_advance(struct plan *plan);
/* An attempt has failed: the seats that the plan has then, one bit each. */
unsigned plan_seats_left(const struct plan *plan);
/* The plan leaves READY, or is freed. */
void plan_move_end(struct plan *plan);
/* Whether a move binds it in this seat, too. */
bool plan_joins(const struct plan *plan, enum seat seat);
