/*
 * Whether a rail to a node that was lost, or out of reach, is good again.
 *
 * A cable that flaps must not make plans flap: the rail must have led there for a while
 * (rails.return_after), twice as long for each time that it was lost lately; and then the node must
 * have answered over it, which a board that is cabled and stuck does not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Begins as zeros: never lost. */
struct comeback {
    uint32_t losses;   /* lately; a new link takes them over from the one that was lost */
    uint64_t lost_ns;  /* the last of them */
    uint64_t since_ns; /* it has led there; 0: it does not */
    bool proving;      /* the node was asked over it */
    bool proved;       /* and has answered */
};

enum comeback_state {
    COMEBACK_AWAY,  /* not yet */
    COMEBACK_PROVE, /* the node has to be asked */
    COMEBACK_BACK,
};

enum { COMEBACK_DOUBLINGS_MAX = 6 };
#define COMEBACK_FORGET_NS UINT64_C(600000000000) /* a loss that long ago counts no more */

/* It was lost, now. */
void comeback_lost(struct comeback *comeback, uint64_t now_ns);
/* leads: some way leads there now. */
enum comeback_state comeback_look(struct comeback *comeback, bool leads, uint64_t now_ns,
                                  uint64_t return_after_ns);
void comeback_asked(struct comeback *comeback);
/* Without a good one it begins anew; one that comes when nothing leads there any more says nothing. */
void comeback_answered(struct comeback *comeback, bool good);
