/* What trial_seat.c and trial_rise.c share. */
#pragma once

#include "client/plan/plan.h"
#include "client/plan/route_choose.h"
#include "client/plan/trial_seat.h"

/* Candidates of the trial. */
enum {
    HERE,
    TCAD,
    CANDIDATES,
};

struct seat_trial {
    enum plan_pace pace; /* in the client's seat, without trials */
    enum {
        SEAT_WAITS, /* has not begun, */
        SEAT_JOINS, /* or tcad binds the chains */
        SEAT_RUNS,  /* starts are counted */
        SEAT_ENDS,  /* the block is over: the start that runs will be held */
        SEAT_HOLDS, /* it is */
        SEAT_OVER,
        /* trial_rise.c: */
        SEAT_FELL,  /* the pair has ended: the next start runs in tcad's seat */
        SEAT_BELOW, /* it does, for want of a pair */
        SEAT_RISEN, /* there is one: the next start runs in the client's */
        SEAT_PARTS, /* it has run there, and tcad releases the chains */
    } state;
    bool begun;           /* it has turned PLAN_TRIES on */
    enum seat seat, next; /* of the last start, and of the next one */
    bool arrived;         /* SEAT_HOLDS, in tcad's seat */
    uint64_t flush_ns;
    bool rises;   /* SEAT_ENDS, SEAT_HOLDS: not of a block, but to move up */
    bool offered; /* SEAT_RISEN, SEAT_PARTS: a trial may follow */
    int lost;     /* a connection has ended with this: the client's seat is none any more */
    /* of the last request to tcad, and whether it could not be sent */
    enum seat asked;
    bool found, below, unsent;
    uint32_t turn;
    uint32_t starts, late;      /* late: of a rise */
    uint64_t held_ns;           /* SEAT_HOLDS since */
    uint32_t rails[CANDIDATES]; /* tcad's is known once it has bound the chains */
    bool keyed;                 /* the key was made */
    uint64_t key[2];
    struct route_choose choose; /* among HERE and TCAD */
};

/* Turns PLAN_TRIES on or off: with it, each start calls trial_seat_start(). */
void seat_trial_set_tries(struct tca_plan *plan, bool on);
/* A PlanTry. */
void seat_trial_ask(struct tca_plan *plan, enum seat seat, bool found);
void seat_trial_tell(struct tca_plan *plan);
/* Whether the seat is known, or is not to be tried: the plan stays in the client's. */
bool seat_trial_is_needless(const struct tca_plan *plan);

/* trial_rise.c: the chains are tcad's, for want of pairs. */
void trial_rise_begin(struct tca_plan *plan);
/* At a start in one of its states. */
void trial_rise_start(struct tca_plan *plan);
/* All data of earlier starts has arrived. */
void trial_rise_arrived(struct tca_plan *plan);
/* PLAN_MOVED: tcad takes no starts. Whether that was to be expected. */
bool trial_rise_parted(struct tca_plan *plan);
