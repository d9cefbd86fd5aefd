/*
 * Plans: what a session has committed. A commit goes through these states, each of which may wait for others:
 *
 *   BINDING   every put and notification is bound at the node where it lands (plan_ask.c); then the cost model picks rail
 *             and seat of each chain (plan_route.c)
 *   REGISTERING  the sources are registered with the chosen rails, links are connected, long chains are ordered (worker,
 *                unless all of it is done already)
 *   PREPARING    puts are compiled, chains made, the plan attached (engine)
 *   READY     starts are taken
 *   REBINDING    a rail that it uses was lost, or a better one is back (plan_return.c): its chains move to others (plan_rebind.c),
 *                through REGISTERING and PREPARING; starts wait
 *   BROKEN    something that it needs has gone: starts fail with `error`; one that runs goes on to its end, unless a step that is
 *             still ahead needs what has gone
 *   RELEASING the engine lets go of it, then it is freed
 *
 * A *unit* is what one driver put does: a put, a put and the notification that follows it, or a notification alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/engine/engine.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/user.h"
#include "daemon/sessions/uses.h"
#include "drivers/cost.h"
#include "drivers/driver.h"
#include "proto/handle.h"
#include "proto/lane.h"
#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct binding;
struct region;
struct session;
struct tcad;

enum plan_state {
    PLAN_NEW,
    PLAN_BINDING,
    PLAN_REGISTERING,
    PLAN_PREPARING,
    PLAN_READY,
    PLAN_REBINDING,
    PLAN_BROKEN,
    PLAN_RELEASING,
    PLAN_STATES,
};
const char *plan_state_name(enum plan_state state);
bool plan_state_legal(enum plan_state from, enum plan_state to);

struct plan;

/* What has to come before a unit, of its chain (order.h). */
struct plan_order {
    bool waits; /* for all steps before it */
    bool settled;
    uint32_t landed[2]; /* steps */
    uint32_t after;
};

/* A start waits until what it has put into memory that was attached is there (plan_settle.c). */
struct plan_settling {
    struct driver_op *op; /* the engine's thread */
    int status;
};

struct plan_unit {
    struct plan *plan;
    uint32_t chain, step; /* as the client gave it; a notification that joined it comes behind */
    /* source; NULL: a notification alone */
    struct region *source;
    uint64_t source_offset;
    struct layout *source_layout;
    /* target: a handle, as asked */
    bool has_target;
    uint8_t handle_bytes[HANDLE_BYTES];
    struct handle handle;
    uint64_t target_offset;
    struct layout *target_layout; /* may be the source's */
    /* the notification */
    bool notify;
    uint32_t rank, slot;
    uint64_t notify_session;

    uint32_t node;  /* where it lands */
    uint64_t owner; /* session that owns the memory there; 0: a notification alone */
    bool attached;  /* and has attached it: what is put there is there once that process has copied
                       it */
    uint64_t address; /* of that memory there, in its process */
    struct plan_order order;
    struct region *region; /* there, when it is this node (a reference) */
    enum way way;          /* the client's seat: how to copy */
    bool told_to_receiver; /* nobody else hears of it: the receiver may help (plan_answer.c) */
    uint32_t share;        /* its id in the lane to the owner (lane.h); 0: none */
    /* there, when it is this node and the daemon's seat runs it; ours to end */
    struct binding *binding;
    uint64_t remote_binding; /* there, on another node */
    unsigned rails;          /* that can carry it: bit per enum rail */
    unsigned lost;           /* of these: were lost, or out of reach when it was committed */
    unsigned back;           /* of those: lead there again */
    uint8_t blob[RAIL_COUNT][LANDING_MAX_BYTES];
    size_t blob_bytes[RAIL_COUNT];
    /* once a rail was chosen (daemon seat) */
    struct link *link;
    struct driver *driver;
    struct driver_put *put;
    struct driver_put_info info;
    bool fence;
    _Atomic bool gone;         /* what it needs there (plan_uses.c); chain_step.gone */
    struct engine_fetch fetch; /* of a source that was attached (daemon seat) */
    struct plan_settling settling;
};

enum { PLAN_CANDIDATES_MAX = 8 };

struct plan_candidate {
    enum rail rail;
    enum seat seat;
    uint64_t predicted_ns; /* UINT64_MAX: not known */
    bool possible, chosen;
    unsigned hops; /* cables on the way; 0: the rail knows of none */
    char why[96];
};

struct plan_step {
    bool is_wait;
    uint32_t unit;       /* index in plan->units */
    uint32_t rank, slot; /* wait */
    uint64_t count;
    _Atomic bool gone; /* who would notify; chain_step.gone */
};

/* That the plan needs: told when it goes. */
struct plan_use {
    struct plan_use *next;
    struct use use;
};

struct plan_chain {
    uint32_t step_count;
    struct plan_step *steps; /* in plan->steps */
    bool moving;             /* while re-binding: to another rail */
    bool unordered;          /* plan_order_rest() is to come */
    enum rail rail;
    enum seat seat;
    uint64_t predicted_ns;
    uint64_t bytes;
    uint32_t candidate_count;
    struct plan_candidate candidates[PLAN_CANDIDATES_MAX];
};

/* What has to be bound, and where; those of a node follow each other. */
struct plan_ask {
    uint32_t node, unit;
};

struct plan {
    struct tcad *tcad;
    struct session *session; /* NULL once it has gone */
    struct plan *next_of_session, **link_of_session;
    uint64_t session_id;
    uint32_t id;
    enum plan_state state;
    int error; /* BROKEN, or a commit that failed */
    char error_text[512];
    char name[NAME_MAX_BYTES];
    uint32_t channel;
    enum rail wanted_rail;    /* a demand */
    enum rail preferred_rail; /* taken to other nodes where it is possible, whatever it costs */
    enum seat wanted_seat;
    enum way wanted_way;
    bool landed; /* a start is complete when its puts have landed */
    bool lossy;  /* broken because puts of former starts are lost */
    uint64_t timeout_ns;

    uint32_t chain_count, step_count, unit_count;
    struct plan_chain *chains;
    struct plan_step *steps;
    struct plan_unit *units;
    struct plan_use *uses;
    struct plan_ask *asks; /* BINDING */
    uint32_t ask_count, asked;
    struct loop_job job;
    uint64_t bytes;        /* put by one start */
    uint64_t memory_bytes; /* against the quota */
    struct charge charge;
    uint64_t put_bytes; /* of it: what drivers hold for its puts */

    uint32_t tag;            /* of the commit that waits for its answer */
    uint32_t pending;        /* answers that the present state waits for */
    bool client_part;        /* some chain is in the client seat, or there is none */
    bool attached;           /* the engine has `run` */
    bool committed;          /* its client has had the answer: what fails from now on breaks it */
    uint64_t counted_starts; /* of it, in tcad->past */
    int lost_error;          /* REBINDING: why */
    bool returning;          /* REBINDING: not for a loss, but to a better rail */
    bool away;               /* it has lost rails, and would go back to them: */
    struct plan *next_away, *previous_away; /* in tcad->plans_away */
    bool resting;                           /* until its start has ended, and it can */
    bool flushed;                           /* what it has put has landed */
    bool breaking;          /* broken, and the engine has not ended its last start yet */
    bool stripped;          /* broken, and what it held at drivers and elsewhere was let go */
    bool release_asked;     /* release as soon as nothing is pending */
    uint32_t release_tag;   /* the PlanRelease to answer; 0: none */
    struct engine_plan run; /* the daemon-seat chains */
};

/* Requests of a session. */
void plan_commit(struct session *session, uint32_t tag, const Tca__PlanCommit *commit);
void plan_release_request(struct session *session, uint32_t tag, const Tca__PlanRelease *request);

/* Releases all plans of a session that is closing; session_plan_gone() is called for each when it
 * is freed. */
void plans_release_all(struct session *session);

/* Starts so far: the engine's, or the client's own where it counts them (it may write there what it
 * likes). */
uint64_t plan_starts(const struct plan *plan);
/* Starts that failed in the engine. */
uint64_t plan_errors(const struct plan *plan);

void plans_each(const struct session *session, void (*each)(void *context, const struct plan *plan),
                void *context);

/* What plans depend on has gone: they break (-ESTALE, -EOWNERDEAD, -EHOSTDOWN, -ENETDOWN), their
 * sessions are told. */
void plans_region_gone(struct region *region); /* of this node */
void plans_remote_region_gone(struct tcad *tcad, uint32_t node, uint64_t region);
/* error: -EOWNERDEAD, or -EHOSTDOWN where its daemon ends. */
void plans_session_gone(struct tcad *tcad, uint32_t node, uint64_t session, int error);
void plans_node_gone(struct tcad *tcad, uint32_t node);
void plans_link_gone(struct tcad *tcad, uint32_t node, enum rail rail, int error);
/* The link is about to be lost, and of what was put over it in this flow so many puts that were
 * complete here. Plans that could overtake these on another rail break, whichever of them it was. */
void plans_puts_lost(struct tcad *tcad, const struct link *link, uint64_t flow, uint32_t count);
/* The flow of a driver that puts of a session on this channel are in. */
static inline uint64_t plan_flow(uint64_t session, uint32_t channel)
{
    return session * CHANNELS + channel;
}

void plan_break(struct plan *plan, int error, const char *text);
/* Of a plan with an error: it is broken from now on. */
void plan_end_starts(struct plan *plan);

/* ---- shared by the plan_*.c files ---- */

/* plan_parse.c: checks everything that can be checked here, and takes the layouts out of the
 * message. 0 or a negative errno with plan->error_text. */
int plan_parse(struct plan *plan, const Tca__PlanCommit *commit);
/* plan_route.c: which ways a chain could go, before its bindings are made (local chains are decided
 * then) and after. */
int plan_route(struct plan *plan, struct plan_chain *chain);
/* plan_order.c: which steps of a chain wait for earlier ones, once its rail and seat are chosen and
 * it is bound: of a short one now, of a long one on the worker. */
int plan_order_soon(struct plan *plan, struct plan_chain *chain);
int plan_order_rest(struct plan *plan); /* worker: of those that are left */
/* plan_way.c: how the client should copy a put of a client-seat chain. */
enum way plan_way(const struct plan *plan, const struct plan_unit *unit);
/* plan_uses.c: what it needs as far as it is known: before BINDING (targets, who is notified and
 * waited for), and of a unit whose owner has been found. -ENOMEM. */
int plan_use_parsed(struct plan *plan);
int plan_use_owner(struct plan *plan, const struct plan_unit *unit);
/* Its session has learnt who the others of its group are. */
void plans_members_known(struct session *session);
void plan_use_nothing(struct plan *plan);
/* plan_answer.c: tells the client. */
void plan_answer(struct plan *plan);
/* plan.c */
void plan_set_state(struct plan *plan, enum plan_state state);
int plan_fail(struct plan *plan, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The text names the step. */
int plan_fail_unit(struct plan *plan, const struct plan_unit *unit, int error, const char *text);
void plan_free(struct plan *plan);
/* plan_bind.c: begins to bind what it puts and notifies, as far as plan->error allows; each answer
 * takes one from plan->pending. */
void plan_bind(struct plan *plan);
/* plan_ask.c: asks for what plan->asks says. */
void plan_ask(struct plan *plan);
/* Everything that it puts and notifies is on this node. */
bool plan_chain_is_local(const struct plan *plan, const struct plan_chain *chain);
/* plan_commit.c: goes on when nothing is pending. */
void plan_advance(struct plan *plan);
/* plan_prepare.c: on the engine: compiles the puts of the daemon-seat chains that have none, and
 * hands the plan over. */
void plan_prepare(struct engine *engine, void *plan);
/* plan_bounce.c: of a daemon-seat chain: whether its ends that were attached can be had, before
 * they are registered; then their processes are told. 0 or a negative errno with plan->error_text.
 */
int plan_bounce_admit(struct plan *plan, const struct plan_chain *chain);
int plan_bounce_tell(struct plan *plan);
void plan_bounce_end(struct plan *plan);
/* plan_settle.c: whether two puts go into memory of the same process. */
bool plan_same_owner(const struct plan_unit *a, const struct plan_unit *b);
/* Whether who hears of `unit`, which notifies or is looked at, could do so before the put `before`,
 * which has landed, is where it belongs: that is memory that was attached. */
bool plan_needs_settling(const struct plan_unit *before, const struct plan_unit *unit);
/* Calls of a chain behind its steps `from` to `to`, which have landed, that are over when what they
 * have put into memory that was attached is there. Returns how many. */
uint32_t plan_settle(struct plan *plan, const struct plan_chain *chain, uint32_t from, uint32_t to,
                     struct chain_step *ret_calls);
/* plan_rebind.c: a ready plan whose links have died: another rail for the chains that used them. */
void plan_rebind(struct plan *plan, int error);
void plan_rebound(struct plan *plan);
/* The chains that are marked as moving: nothing of the plan runs, and starts wait. error: if they
 * can go nowhere. */
void plan_move(struct plan *plan, int error);
/* plan_return.c: it is ready; looks after it if it has lost rails. */
void plan_watch(struct plan *plan);
void plan_watch_end(struct plan *plan); /* nor when it is freed */
void plans_watch_end(struct tcad *tcad);
/* plan_return.c: rails that could carry the chain if a cable led where it puts count as lost. */
void plan_note_unreached(struct plan *plan, const struct plan_chain *chain);
/* plan_route.c: the rail that plan_route() would choose now. */
enum rail plan_best_rail(const struct plan *plan, const struct plan_chain *chain);
/* plan_commit.c: sources are registered and links connected, then it is prepared. */
void plan_register(struct plan *plan);
/* plan_route.c: takes the chosen rail's links for the units of a daemon-seat chain. */
int plan_take_links(struct plan *plan, const struct plan_chain *chain);
/* plan_release.c: adds its starts so far to those of plans that are gone, under the rails that its
 * chains are on now. */
void plan_count_starts(struct plan *plan);
/* plan_flush.c: true: done(plan) follows on the loop's thread, once what the plan has put has
 * landed (or its links are down). False: nothing is to be waited for. The plan is quiet and still
 * has its puts. */
bool plan_flush(struct plan *plan, void (*done)(void *context));
/* plan_release.c */
void plan_release(struct plan *plan);
