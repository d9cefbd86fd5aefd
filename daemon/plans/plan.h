/*
 * Plans: what a session has committed. plan_state.c walks a plan through these states. Each stands
 * for work, on the thread named here; the next state follows when nothing is pending.
 *
 *   commit   PARSING -> BINDING -> REGISTERING -> PREPARING -> MAPPING -> READY
 *   break    BREAKING -> BREAK_FLUSHING -> BREAK_STRIPPING -> BROKEN
 *   release  LEAVING -> LEAVE_FLUSHING -> LEAVE_STRIPPING -> GONE
 *
 *   PARSING      checks what this node can check alone, and takes the layouts out of the message
 *                (plan_parse.c)
 *   BINDING      binds every put and notification at its target's node (plan_ask.c), or takes over
 *                the bindings of a plan that is being released (plan_inherit.c). If its client
 *                cannot put by itself after all, binds those puts for tcad (plan_direct.c)
 *   REGISTERING  chooses rail and seat of each chain by predicted cost (plan_route.c); registers
 *                the sources with the rails, connects links, orders long chains (worker, unless all
 *                of it is done already)
 *   PREPARING    compiles the puts, makes the chains, attaches the plan (engine)
 *   MAPPING      collects what the client maps for the chains that it runs (plan_reply.c)
 *   READY        accepts starts, and moves to other routes (plan_move.h)
 *   ..FLUSHING   the plan's puts complete remotely
 *   ..STRIPPING  all puts and chains are released (engine), and with them what they were bound to
 *   BREAKING     an object that the plan needs is gone: starts fail with `error`; one that runs
 *                goes on, unless one of its remaining steps needs that object (engine)
 *   BROKEN       a stub, which keeps the reason until it is released
 *   LEAVING      the engine ends what runs and forgets the plan
 *
 * A chain is bound to the best rail that reaches its targets now; its wanted rail is the best if
 * none were lost. While the two differ for some chain, the plan is *away*. Losing the bound rail
 * moves the plan to the next best; when a better one is back, the plan moves to it; when none is
 * left, the plan breaks. Its client can try rails: then the best is the one that it names
 * (plan_try.c).
 *
 * An error during a commit leads to LEAVING, in READY to BREAKING; the request to release the plan
 * leads to LEAVING from every state. Neither interrupts what is pending.
 *
 * A *transfer* is one operation of a driver: a put, a put and the notification that follows it, a
 * notification alone, a signal (a notification that adds to a counter in the target's memory), or a
 * share of a put (plan_stripe.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "daemon/bindings/binding.h"
#include "daemon/engine/engine.h"
#include "daemon/plans/plan_move.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/client.h"
#include "daemon/sessions/user.h"
#include "daemon/sessions/uses.h"
#include "drivers/cost.h"
#include "drivers/driver.h"
#include "proto/handle.h"
#include "proto/lane.h"
#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct binding;
struct client_request;
struct pair;
struct plan_reply;
struct region;
struct session;
struct tcad;

enum plan_state {
    PLAN_NEW,
    PLAN_PARSING,
    PLAN_BINDING,
    PLAN_REGISTERING,
    PLAN_PREPARING,
    PLAN_MAPPING,
    PLAN_READY,    /* from here on its client has the reply to the commit */
    PLAN_BREAKING, /* from here on it has `error` and takes no starts */
    PLAN_BREAK_FLUSHING,
    PLAN_BREAK_STRIPPING,
    PLAN_BROKEN,
    PLAN_LEAVING,
    PLAN_LEAVE_FLUSHING,
    PLAN_LEAVE_STRIPPING,
    PLAN_GONE, /* freed */
    PLAN_STATES,
};
/* For display; all states of a break or of a release have one name. */
const char *plan_state_name(enum plan_state state);
bool plan_state_legal(enum plan_state from, enum plan_state to);

struct plan;

/* What must precede a transfer, in its chain (order.h). */
struct plan_order {
    bool waits, all_landed; /* for all steps before it */
    uint32_t landed[2];     /* steps */
    uint32_t after;
};

struct plan_transfer {
    struct plan *plan;
    uint32_t chain, step; /* as given by the client; a notification joined to it is the next step */
    /* the source; NULL: only a notification */
    struct region *source;
    uint64_t source_offset;
    struct layout *source_layout;
    /* the target: a handle, as requested */
    bool has_target;
    uint8_t handle_bytes[HANDLE_BYTES];
    struct handle handle;
    uint64_t target_offset;
    struct layout *target_layout;  /* may be the source's */
    enum element_operator combine; /* not REPLACE: runs on shm, whatever its chain's rail */
    enum element_type type;
    bool ordered;           /* visible only after all earlier puts of its chain */
    uint64_t signal;        /* not 0: is added to the counter at the target; nothing is put there */
    bool parts;             /* starts say what it moves */
    uint64_t bytes;         /* that a start moves: at most, with parts */
    uint32_t part_index;    /* with parts: in session_segment.parts, */
    uint64_t counted_bytes; /* and of what was moved, in tcad->past */
    /* the notification */
    bool notify;
    uint32_t rank, slot;
    uint32_t line; /* of the notified session, or the counter, on this node: session_line() */
    uint64_t notify_session;

    uint32_t node;    /* where it lands */
    uint64_t owner;   /* session that owns the memory; 0: only a notification */
    uint64_t address; /* of the memory, in its process */
    struct plan_order order;
    struct region *region;      /* the target if it is on this node (a reference) */
    enum copy_method copy_mode; /* the client's seat: how to copy */
    bool only_owner_notified;   /* by the rest of the chain: it may help copying (plan_reply.c) */
    uint32_t share;             /* its id in the lane to the owner (lane.h); 0: none */
    uint32_t share_target;      /* the owner's number for it */
    /* on this node in the daemon's seat; owned by the plan */
    struct binding *binding;
    uint64_t bindings[SEAT_COUNT]; /* on another node; 0: none */
    uint64_t pair; /* the client itself puts there, over this pair (pairs.h); 0: tcad does */
    uint32_t landing, generation; /* of the pair: where its puts go */
    unsigned rails;               /* rails that can carry it, one bit each */
    unsigned lost;                /* of these: lost, or unreachable at the commit */
    unsigned back;                /* of those: available again */
    /* of a put that is divided among rails (plan_stripe.h) */
    uint32_t stripes, stripe_room; /* its further stripes: index of the first, and how many */
    uint64_t part_at, part_bytes;  /* of the packed bytes: what its own rail moves; 0: all */
    struct plan_transfer *of; /* is a stripe: of this put, which has its layouts and landings */
    unsigned rail;            /* of a stripe */
    /* once a rail is chosen (daemon seat) */
    struct link *link;
    struct held *held; /* for link_hold(); of a put */
    struct driver *driver;
    struct driver_put *put;
    struct driver_put_info info;
    bool fence;
    _Atomic bool gone; /* an object that it needs (plan_uses.c); for chain_step.gone */
    bool flushes;      /* FLUSHING: its link, with this: */
    struct driver_op flush;
};

/* Whether it puts data, which is more than a notification or signal. */
static inline bool plan_transfer_puts(const struct plan_transfer *transfer)
{
    return transfer->has_target && !transfer->signal;
}

enum { PLAN_CANDIDATES_MAX = 2 * RAIL_SLOTS };

/* Each rail in the client's seat, and each in the daemon's: a way to carry a chain, or why it is
 * none. */
struct plan_candidate {
    struct route route;
    uint64_t predicted_ns; /* UINT64_MAX: unknown */
    bool possible, chosen;
    uint64_t behind_ns; /* of plans that start together with this one, on this rail */
    unsigned hops;      /* cables crossed; 0: the rail has none */
    const char *why;    /* static, or in the table of rails */
};

struct plan_step {
    bool is_wait;
    uint32_t transfer;   /* index in plan->transfers */
    uint32_t rank, slot; /* wait */
    uint32_t line;
    uint64_t count;
    struct region
        *counter; /* not NULL: the wait is for this counter, of its session (a reference) */
    uint64_t counter_offset;
    bool flush;        /* then all earlier puts of its chain complete remotely */
    _Atomic bool gone; /* the notifier, for chain_step.gone */
};

/* An object that the plan needs: when it ends, the plan is notified. */
struct plan_use {
    struct plan_use *next;
    struct use use;
};

struct plan_chain {
    uint32_t step_count;
    struct plan_step *steps; /* in plan->steps */
    uint32_t transfer_count;
    struct plan_transfer *transfers; /* of these steps, in plan->transfers */
    bool moving;                     /* of a move: to another rail */
    bool unordered;                  /* plan_order_rest() must order it */
    bool unshared;       /* has flushes or ordered puts: receivers take no part in the copying */
    bool direct;         /* the client puts to a process of another node (pairs.h), */
    uint64_t pair;       /* over this pair; 0: not bound */
    unsigned pair_rail;  /* of the pair */
    struct route bound;  /* the best that leads to all its targets; in both seats: tcad's */
    struct route wanted; /* READY: the best if all rails led to its targets, and there were pairs */
    struct route asked;  /* by the client's trial (plan_try.c): better than any other; RAIL_NONE */
    bool found;          /* its trial has ended with that one */
    unsigned rails;      /* that the client knows it may try, one bit each */
    uint64_t predicted_ns;
    uint64_t bytes;
    uint32_t candidate_count;
    struct plan_candidate candidates[PLAN_CANDIDATES_MAX];
};

/* A transfer to be bound, at which node, and for which seat; sorted by node. */
struct plan_ask {
    uint32_t node, transfer;
    enum seat seat;
};

struct plan {
    struct tcad *tcad;
    struct session *session; /* NULL once it has gone */
    struct plan *next_of_session, **link_of_session;
    struct plan *next_unreported, **unreported_link; /* in session->unreported_plans */
    uint64_t session_id;
    uint32_t id;     /* may be reused by a later plan, */
    uint64_t serial; /* unlike this */
    enum plan_state state;
    struct plan_attempt attempt; /* the commit, or the last move */
    _Atomic int error;           /* final: plan_break(), or of an attempt with no route left */
    char error_text[512];
    char name[NAME_MAX_BYTES];
    uint32_t channel;
    uint32_t together; /* of its session, plans with this number are started together; 0: alone */
    unsigned wanted_rails;    /* demanded: one of these, one bit per rail; 0: any */
    unsigned preferred_rails; /* to other nodes: used if possible, whatever the cost */
    enum seat wanted_seat;
    enum copy_method wanted_copy_mode;
    bool repeat;    /* a start goes on until it is stopped */
    bool tries;     /* its client may try rails and seats: plan_try.c */
    unsigned seats; /* bit by seat: all chains are bound there; 0: to different ones */
    struct plan_move move;
    struct plan_trial trial;
    struct plan_rise rise;
    bool inherits; /* bindings over which another plan may have put: plan_inherit.c */
    bool lossy;    /* broken because puts of earlier starts are lost */
    uint64_t timeout_ns;

    uint32_t chain_count, step_count, transfer_count, part_count;
    struct plan_chain *chains;
    struct plan_step *steps;
    struct plan_transfer *transfers;
    struct landing_blob *blobs; /* of its transfers: see plan_blob() */
    struct plan_use *uses;
    struct plan_collective *collective;     /* NULL: it carries out none */
    struct plan_ask *asks;                  /* BINDING */
    uint32_t bound_transfers, bound_chains; /* progress of plan_bind() */
    uint32_t ask_count, asked;
    uint32_t routes; /* that were considered for the next chain, BINDING and REGISTERING */
    uint32_t routed_chains, linked_chains, linked_steps; /* progress of plan_do_register() */
    uint32_t stripped_transfers;                         /* progress of a strip */
    uint32_t connected_transfers; /* their links are; of the next one waits: */
    struct link_wait link_wait;
    struct loop_job job;
    bool (*job_next)(struct plan *plan); /* plan_in_slices() */
    void (*job_then)(struct plan *plan);
    struct client_request *request; /* the commit; NULL: parsed */
    struct plan_reply *reply;       /* to it: MAPPING */
    uint64_t bytes;                 /* put by one start */
    uint64_t memory_bytes;          /* charged to the session's quota, as are: */
    uint32_t held_steps;
    struct charge charge;
    uint64_t put_bytes;      /* of these: held by drivers for its puts */
    uint64_t prepared_bytes; /* held by drivers now; engine's thread */

    uint32_t tag;                                 /* of the commit, until its reply; 0: none */
    uint32_t pending;                             /* completions for which the state waits */
    uint64_t counted_starts;                      /* of it, in tcad->past */
    int lost_error;                               /* of the last loss of a rail */
    struct plan *next_watched, **link_of_watched; /* in tcad->plans_watched; link NULL: it is not */
    bool release_asked;                           /* LEAVING is next */
    uint32_t release_tag;                         /* the PlanRelease to answer; 0: none */
    bool released_later;                          /* with others (releases.h): */
    struct plan *next_released, **link_of_released; /* link NULL: it does not wait for them */
    struct engine_call call;                        /* used by its state */
    struct engine_call resume_call;
    struct loop_post post;  /* FLUSHING */
    uint32_t flushing;      /* links that have not replied; engine's thread, as is: */
    uint64_t flush_from_ns; /* FLUSHING began */
    uint64_t flush_ns;      /* how long the last FLUSHING took */
    struct engine_plan run; /* the daemon-seat chains */
};

/* Requests of a session. */
void plan_commit(struct session *session, struct client_request *request); /* which it owns */
void plan_release_request(struct session *session, uint32_t tag, const Tca__PlanRelease *request);
void plan_try_request(struct session *session, const Tca__PlanTry *request);

/* Releases all plans of a session that is closing; session_plan_gone() is called for each when it
 * is freed. */
void plans_release_all(struct session *session);

/* The name of its state, as tcactl shows it: also of a plan that will be released with others
 * soon. */
const char *plan_state_shown(const struct plan *plan);
/* The number of starts, from the engine or, in the client's seat, from the client, which can write
 * any value. */
uint64_t plan_starts(const struct plan *plan);
/* The number of starts that failed in the engine. */
uint64_t plan_errors(const struct plan *plan);

void plans_each(const struct session *session, void (*each)(void *context, const struct plan *plan),
                void *context);
/* An object has gone: the plans that need it break (-ESTALE, -EOWNERDEAD, -EHOSTDOWN, -ENETDOWN),
 * and their sessions are notified. */
/* error: -ESTALE (freed), or -EOWNERDEAD or -EHOSTDOWN (its process or daemon has ended). The first
 * is of this node. */
void plans_region_gone(struct region *region, int error);
void plans_remote_region_gone(struct tcad *tcad, uint32_t node, uint64_t region, int error);
/* error: -EOWNERDEAD, or -EHOSTDOWN if its daemon ends. */
void plans_session_gone(struct tcad *tcad, uint32_t node, uint64_t session, int error);
void plans_node_gone(struct tcad *tcad, uint32_t node);
void plans_link_gone(struct tcad *tcad, uint32_t node, unsigned rail, int error);
/* The link is about to be lost, and with it the last `count` puts of this flow that had completed
 * locally. All plans that might have made them break. */
void plans_puts_lost(struct tcad *tcad, const struct link *link, uint64_t flow, uint32_t count);
/* The list of the members of the session's group is known. */
void plans_members_known(struct session *session);
/* A pair of the session was made or has ended: plans that wait for one may get it. */
void plans_pairs_changed(struct tcad *tcad, uint64_t session);
/* Whether a plan of the session puts over the pair, or is being bound and may do so. */
bool plans_put_over(const struct session *session, const struct pair *pair);
/* tcad ends: no plan waits for a lost rail, or a pair, any more. */
void plans_watch_end(struct tcad *tcad);
