/* Plans: what the files plan_*.c share. */
#pragma once

#include "daemon/plans/plan.h"

/* ---- plan.c ---- */

/* Records the first error of the attempt, which ends it; from any thread that works for the plan.
 * Returns it. */
int plan_fail(struct plan *plan, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same; the text names the transfer's step. */
int plan_fail_transfer(struct plan *plan, const struct plan_transfer *transfer, int error,
                       const char *text);
/* For messages: the rails that lead to the node and that the plan does not allow itself, as "; but
 * there is tcp", or "". Returns text. */
enum { PLAN_OTHERS_BYTES = 128 };
const char *plan_other_rails(const struct plan *plan, uint32_t node, char text[PLAN_OTHERS_BYTES]);
/* Nothing is pending: what follows is another attempt, with its own error. */
void plan_begin_attempt(struct plan *plan);
/* The error of the attempt is that of the plan. */
void plan_end_with_attempt(struct plan *plan);
/* The attempt may succeed; and nobody has asked to release the plan. */
static inline bool plan_works(const struct plan *plan)
{
    return plan->attempt.error == 0 && plan->error == 0;
}
static inline bool plan_goes_on(const struct plan *plan)
{
    return plan_works(plan) && !plan->release_asked;
}
void plan_break(struct plan *plan, int error, const char *text);
void plan_free(struct plan *plan);
void plan_transfer_free(struct plan_transfer *transfer); /* what it holds */
/* The client knows that the plan is broken: takes it out of session->unreported_plans. */
void plan_reported(struct plan *plan);
/* The transfer's landing blob for a rail; valid if transfer->rails has the rail. */
struct landing_blob *plan_blob(const struct plan *plan, const struct plan_transfer *transfer,
                               unsigned rail);
/* Whether all targets and notified sessions of the chain are on this node. */
bool plan_chain_is_local(const struct plan *plan, const struct plan_chain *chain);
/* Whether the engine has `run`. Also in the engine's thread. */
static inline bool plan_attached(const struct plan *plan)
{
    return plan->run.session != NULL;
}
/* The engine that runs it. */
struct engine *plan_engine(const struct plan *plan);
/* The driver's flow of the puts of a session on a channel. */
static inline uint64_t plan_flow(uint64_t session, uint32_t channel)
{
    return session * CHANNELS + channel;
}

/* ---- plan_state.c ---- */

/* Advances the state while nothing is pending. This can free the plan. */
void plan_advance(struct plan *plan);
/* Of a plan: something that was pending is done; advances it. */
void plan_done(void *plan);
/* On an event, while nothing is pending: enters a state other than the next one; then advances. */
void plan_enter(struct plan *plan, enum plan_state state);
/* The state waits until next() returns false: it is called in slices of the loop's time. Then calls
 * then(), unless NULL. */
void plan_in_slices(struct plan *plan, bool (*next)(struct plan *plan),
                    void (*then)(struct plan *plan));

/* The work of each state; increments plan->pending if it continues elsewhere. */
void plan_do_parse(struct plan *plan);    /* plan_parse.c */
void plan_do_bind(struct plan *plan);     /* plan_bind.c */
void plan_do_register(struct plan *plan); /* plan_commit.c */
void plan_do_prepare(struct plan *plan);  /* plan_prepare.c */
void plan_do_map(struct plan *plan);      /* plan_reply.c */
void plan_do_ready(struct plan *plan);
void plan_do_flush(struct plan *plan); /* plan_flush.c */
void plan_do_break(struct plan *plan); /* plan_release.c */
void plan_do_strip(struct plan *plan);
void plan_do_leave(struct plan *plan);
void plan_do_free(struct plan *plan);

/* ---- a commit ---- */

/* plan_ask.c: sends the requests in plan->asks. */
void plan_ask(struct plan *plan);
/* plan_inherit.c: takes all of that over from a plan that is being released. False: from none. */
bool plan_inherit(struct plan *plan);
/* plan_uses.c: registers the objects that a plan needs as they become known: those that a step
 * waits for; a transfer's target and notified session; and the owner of its memory. -ENOMEM. */
int plan_use_wait(struct plan *plan, const struct plan_step *step);
int plan_use_transfer(struct plan *plan, const struct plan_transfer *transfer);
int plan_use_owner(struct plan *plan, const struct plan_transfer *transfer);
/* Drops at most `count` uses. */
void plan_use_less(struct plan *plan, uint32_t count);
/* plan_direct.c: routes over pairs. Why a chain does not go over one on this rail; NULL: it can. */
const char *plan_pair_why_not(const struct plan *plan, const struct plan_chain *chain,
                              unsigned rail);
/* Fails the plan, whose client is to put by itself, as requested. */
int plan_no_pair(struct plan *plan, const struct plan_chain *chain);
/* Releases what chains are bound to over pairs. */
void plan_leave_pairs(struct plan *plan);
/* Stores what a transfer was bound to. */
int plan_take_direct(struct plan *plan, struct plan_transfer *transfer, const Tca__BoundPut *bound);
/* BINDING has failed: whether tcad may put instead. Then that is begun. */
bool plan_fall_back(struct plan *plan);
/* plan_try.c: chains whose client puts by itself, and that tcad can run, too. Whether the client
 * may try that. */
bool plan_offers_seats(const struct plan *plan);
/* For tcactl plan explain. */
void plan_explain_seats(struct plan *plan);
/* Whether it has, or is to have, both. */
static inline bool plan_has_both_seats(const struct plan *plan)
{
    return (plan->seats | plan->move.seats) == BOTH_SEATS;
}
/* plan_watch.c: whether it is in tcad's seat for want of a pair. */
bool plan_is_below(const struct plan *plan);
/* From now on it is; the next attempt to get one follows soon, unless some have failed already. */
void plan_want_pair(struct plan *plan, const char *why, unsigned failures);
/* The commit could not be bound to pairs. */
void plan_note_below(struct plan *plan);
/* plan_move.c: its client has lost them. */
void plan_fall_below(struct plan *plan);
/* It is to be in its client's seat only. */
bool plan_parts(const struct plan *plan);
/* plan_prepare.c: charges the memory that drivers hold for its puts now. */
int plan_charge_puts(struct plan *plan);
/* plan_bind.c: binds what is not bound. */
void plan_bind_rest(struct plan *plan);
/* The same of a committed plan, for its other seat. */
void plan_bind_both(struct plan *plan);
/* plan_release.c: releases what is bound on other nodes for this seat. */
void plan_unbind(struct plan *plan, enum seat seat);
/* plan_order.c: finds the steps that must wait for earlier ones, in a chain that is bound and has a
 * route: of a short chain at once; of the remaining ones in the worker. */
int plan_order_soon(struct plan *plan, struct plan_chain *chain);
int plan_order_rest(struct plan *plan);
/* plan_connect.c: connects the links of the chosen rails, then registers the sources with these
 * rails (plan_commit.c). */
void plan_connect(struct plan *plan);
void plan_register(struct plan *plan);
/* plan_reply.c: sends the reply to the commit, or PLAN_PAIRED. */
void plan_reply(struct plan *plan);
void plan_reply_free(struct plan *plan);

/* ---- rails ---- */

/* plan_route.c: chooses rail and seat of a chain: of a local one before its bindings are made, of
 * others afterwards. */
int plan_route(struct plan *plan, struct plan_chain *chain);
/* The same, in pieces: considers the nth route, from 0 on, and returns false if there are no more;
 * then chooses. */
bool plan_route_consider(struct plan *plan, struct plan_chain *chain, unsigned nth);
int plan_route_choose(struct plan *plan, struct plan_chain *chain);
/* Before a chain to another node is bound: whether its client puts over a pair, or tcad, over a
 * rail that is chosen later. */
int plan_seat_choose(struct plan *plan, struct plan_chain *chain);
/* The rail of the pair over which an unbound client would put; 0: tcad puts. */
unsigned plan_pair_rail(const struct plan *plan, const struct plan_chain *chain);
/* Takes the links of the chosen rail, and those of its stripes, for these steps of a daemon-seat
 * chain. */
int plan_take_links(struct plan *plan, const struct plan_chain *chain, uint32_t from,
                    uint32_t count);
int plan_take_link(struct plan *plan, struct plan_transfer *transfer, unsigned rail);
/* What the cost model needs to know of a transfer. */
struct cost_transfer plan_cost_transfer(const struct plan *plan,
                                        const struct plan_transfer *transfer, unsigned rail);
/* The rail that carries a transfer if its chain is on `rail`. */
unsigned plan_transfer_rail(const struct plan_transfer *transfer, unsigned rail);
/* plan_route.c: the rail that plan_route() would choose now, and the one if none were lost. */
unsigned plan_best_rail(const struct plan *plan, const struct plan_chain *chain);
unsigned plan_wanted_rail(const struct plan *plan, const struct plan_chain *chain);
/* The reason of the choice has changed, not the choice. */
void plan_explain_again(const struct plan *plan, struct plan_chain *chain);
/* The rails that are worth a trial, one bit each; 0: there is no choice. */
unsigned plan_rails_to_try(const struct plan *plan, const struct plan_chain *chain);
/* Whether the plan may use only one rail: if that is lost, the plan waits for it. */
static inline bool plan_demands_one(const struct plan *plan)
{
    return plan->wanted_rails && !(plan->wanted_rails & (plan->wanted_rails - 1));
}
static inline void plan_lose_rail(struct plan_transfer *transfer, unsigned rail)
{
    transfer = transfer->of ? transfer->of : transfer;
    transfer->lost |= 1u << rail;
    transfer->back &= ~(1u << rail);
}
/* plan_move.c: whether a chain is on a lost rail. */
bool plan_has_dead_link(const struct plan *plan);
bool plan_is_on_dead_link(const struct plan *plan, const struct plan_chain *chain);
/* Binds a chain without prepared puts to the best rail that its transfers have not lost. -ENETDOWN:
 * none. */
int plan_reroute(struct plan *plan, struct plan_chain *chain);
/* Marks chains that are on a lost rail or have a better one now. Returns whether there are any. */
bool plan_mark_moving(struct plan *plan);
/* plan_watch.c: finds lost rails that are available again. Returns whether some are still lost. */
bool plan_look_back(struct plan *plan);
void plan_watch(struct plan *plan);     /* it is ready: watches it if it has lost rails */
void plan_watch_end(struct plan *plan); /* also when it is freed */
/* Counts rails that lack only a path to the chain's targets as lost. */
void plan_note_unreached(struct plan *plan, const struct plan_chain *chain);

/* ---- plan_try.c ---- */

/* PARSING: the rail, or the seat, that an earlier trial has found for a chain. */
void plan_take_found(struct plan *plan, struct plan_chain *chain, const char *rail, enum seat seat);
/* Notes in each chain which rails its client may try. Whether these have changed. */
bool plan_note_rails(struct plan *plan);
/* The last request of the client was carried out. */
void plan_take_request(struct plan *plan);
/* It was, without a move: tells the client. */
void plan_answer_request(struct plan *plan);
/* SETTLED after a move: tells the client on which rails its chains are. */
void plan_tell_settled(struct plan *plan);
/* A rail may have come back: tells the client if it has others to try than before. */
void plan_tell_rails(struct plan *plan);

/* ---- plan_release.c ---- */

/* On the engine, releases puts and chains: of a move, those of the chains that move, otherwise all.
 * Then runs done(plan), which must lower plan->pending, on the loop's thread. */
void plan_strip(struct plan *plan, void (*done)(void *plan));
/* Adds the plan's starts to the totals of past plans, under the present rails of its chains. */
void plan_count_starts(struct plan *plan);
