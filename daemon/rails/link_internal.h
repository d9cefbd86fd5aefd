/* Between the link*.c files. */
#pragma once

#include "daemon/rails/link.h"

struct links {
    struct tcad *tcad;
    link_lost *lost;
    struct link *first;
    struct link *ending; /* links whose peers are being disconnected */
    uint64_t last_generation;
    bool over; /* links_free() was called; freed with the last ending link */
};

/* ---- link_state.c ---- */
void link_move(struct link *link, enum link_state to);

/* ---- link.c ---- */
/* Sets whether the node's host may connect to this end of the rail. This node's own host is
 * admitted only when needed, because any user of this node can connect from it. */
void link_admit(struct link *link, bool come);
/* Makes a live link dead in any state, and ends the waits for it with the error. A new link
 * replaces it. */
void link_fail(struct link *link, int error, const char *text);

/* ---- link_connect.c ---- */
void link_wake(struct link *link, int status, const char *text);
/* With the offer of the other node, from CONNECTING or OFFERED. */
void link_answer(struct link *link);

/* ---- link_offer.c ---- */
/* Sends the link's offer to the other node. */
void link_ask(struct link *link);
/* Replies to the other node's offer, if it has made one. */
void link_reply(struct link *link, int status, const char *text);
