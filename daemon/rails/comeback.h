/*
 * Decides when plans may return to a rail that was lost or did not lead to the node.
 *
 * So that a flapping cable does not make plans flap, the rail must lead to the node for some time
 * (rails.return_after), which doubles with each recent loss. Then the node must reply over it,
 * which a connected but stuck board does not.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Initially zero: never lost. */
struct comeback {
    uint32_t losses;   /* recent ones; a new link inherits them from the lost one */
    uint64_t lost_ns;  /* time of the last loss */
    uint64_t since_ns; /* since when it leads there; 0: it does not */
    bool proving;      /* a request over it is pending */
    bool proved;       /* the node has replied over it */
};

enum comeback_state {
    COMEBACK_AWAY,  /* not yet */
    COMEBACK_PROVE, /* send a request over it, then call comeback_asked() */
    COMEBACK_BACK,
};

enum { COMEBACK_DOUBLINGS_MAX = 6 };
#define COMEBACK_FORGET_NS UINT64_C(600000000000) /* age at which losses are forgotten */

/* The rail was lost. */
void comeback_lost(struct comeback *comeback, uint64_t now_ns);
/* leads: the rail leads to the node now. */
enum comeback_state comeback_look(struct comeback *comeback, bool leads, uint64_t now_ns,
                                  uint64_t return_after_ns);
void comeback_asked(struct comeback *comeback);
/* The reply: if it is not good, waiting starts anew; ignored if the rail no longer leads there. */
void comeback_answered(struct comeback *comeback, bool good);
