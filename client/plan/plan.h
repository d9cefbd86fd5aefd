/*
 * A plan: the caller's steps and their compiled form.
 *
 *   BUILDING --commit--> IDLE --start--> RUNNING --all chains complete--> IDLE
 *
 * In any state after BUILDING, `broken` means that no further start is possible; a running start
 * ends with this error.
 */
#pragma once

#include <stdbool.h>

#include "client/core/process.h"
#include "client/include/tca.h"
#include "client/memory/mapping.h"
#include "client/memory/region.h"
#include "drivers/chain.h"
#include "proto/layout.h"
#include "proto/notify.h"
#include "proto/segment.h"

enum plan_state {
    PLAN_IDLE = 0,
    PLAN_RUNNING = 1,
    PLAN_BUILDING = 2,
};

/* What a start has to do. */
enum plan_pace {
    PACE_FAST,     /* copies that complete in tca_start() */
    PACE_HERE,     /* more, all of it in the client's seat */
    PACE_SUBMITS,  /* it has chains in the daemon's seat */
    PACE_MEASURED, /* any of these, and times are recorded, candidates tried (trial.h,
                      trial_route.h), or starts kept in order (order.h) */
};

/* Starts of more bytes in the client's seat are copied in the calls after tca_start(). */
enum { PLAN_DEFER_BYTES = 4 << 20 };

/* In tca_plan.flags, beside the flags of tca_plan_new(): trial.h, trial_route.h. */
#define PLAN_TRIES (UINT32_C(1) << 31)

enum step_kind {
    STEP_PUT,
    STEP_NOTIFY,
    STEP_WAIT,
    STEP_SIGNAL,
    STEP_WAIT_SIGNAL,
};

struct step {
    enum step_kind kind;
    union {
        struct {
            struct tca_region *source;
            uint64_t source_offset_bytes;
            struct tca_layout *source_layout; /* holds a reference */
            uint8_t handle[HANDLE_BYTES];
            uint64_t target_offset_bytes;
            struct tca_layout *target_layout; /* holds a reference */
            enum element_operator combine;
            enum element_type type;
            struct mapped_region *own_target; /* of this session: has a use; NULL: another's */
            bool ordered;
            uint32_t part; /* starts say what it moves (parts.h): its number, from 1 on; 0: all */
        } put;
        struct {
            uint32_t rank;
            uint32_t slot;
            uint64_t count; /* WAIT */
        } notification;
        struct {
            uint64_t value;
            uint64_t offset_bytes;
            uint8_t handle[HANDLE_BYTES]; /* SIGNAL */
            struct mapped_region *own;    /* this session's: has a use; NULL: another's */
        } signal;
    };
    bool flush;        /* tca_plan_flush() follows */
    _Atomic bool gone; /* WAIT: the rank has ended; chain_step.gone */
};

/* One driver put of a client-seat chain. */
struct transfer {
    struct mapped_region *region; /* target; NULL: a notification without data */
    struct driver_landing *landing;
    struct driver *driver; /* of the put */
    struct driver_put *put;
    struct notify_target token;
    struct mapped_segment *notified; /* has the counter; NULL: none on this node */
    struct process *process;         /* target on this node */
    struct pair *pair;               /* target on another node: then it is of that driver */
    uint64_t flush;                  /* of the pair: the one that pairs_flush() has asked for */
    const struct step *notify;       /* NULL: no notification */
    _Atomic bool gone;               /* the process that it puts to or notifies has ended;
                                  chain_step.gone */
    const struct step *tried; /* its copy mode is found by trial (trial.h); NULL: it is fixed */
    uint32_t kind;            /* of the plan's trial */
};

/* How long tcad has to report why memory is gone: the default of
 * control.heartbeat_timeout, after which a node is down. */
#define DOUBT_NS UINT64_C(5000000000)

struct plan_times {
    uint64_t start_ns;
    uint64_t done_ns;
    uint64_t seen_ns;
};

struct tca_plan {
    /* what a start needs */
    struct tca *session;
    struct tca_group *group; /* whose ranks its steps name; they have those of the session */
    enum plan_state state;
    int broken; /* 0, or the error of every further start */
    int ending; /* 0, or the error that ends the running start, see session->ending */
    bool lossy; /* broken, and data of the last start may have been lost */
    enum plan_pace pace;
    /* Not NULL: a start does nothing but raise this, if its pace is PACE_FAST. */
    const struct notify_target *raises;
    bool paired;    /* puts over connections to other nodes (pair.h) */
    uint32_t flags; /* TCA_PLAN_*, PLAN_TRIES */
    uint32_t id;
    uint32_t submit_id;    /* in the submission ring: with SUBMIT_PARTS if it has puts in parts */
    uint32_t client_count; /* chains in the client seat: those of `chains` that a start runs */
    uint32_t daemon_count; /* chains in the daemon seat */
    uint64_t starts;
    _Atomic uint64_t *client_starts; /* in the session segment, for status displays */
    struct ring *submit;             /* of its channel */
    struct chain **chains;           /* in the client seat */
    /* of the current start */
    uint64_t client_left; /* bit by chain: not complete */
    bool daemon_left;
    bool stopping; /* TCA_PLAN_REPEAT: this round is the last, */
    bool cut;      /* which not all chains have begun */
    int status;    /* 0, or the first error */
    /* Not 0: the chains are complete, and until then the start waits to learn why it has failed
     * (progress.c) */
    uint64_t doubt_end_ns;
    /* Not 0: the chains are complete, and until then the start waits until its data has arrived
     * (trial_route.h) */
    uint64_t hold_end_ns;
    uint64_t start_ns;
    uint64_t client_done_ns;
    bool engine_takes; /* counted in session->engine_takes */
    bool ordered;      /* order.h */
    bool moves;        /* ordered, and counted in session->movers */
    struct tca_plan *next_unlanded,
        **link_unlanded;           /* in session->unlanded; link NULL: it is not */
    struct tca_plan *next_running; /* while client_left != 0: in session->running */

    uint64_t rounds; /* TCA_PLAN_REPEAT, client seat */

    /* of the last complete start, for the receipt */
    int last_status;
    uint64_t last_starts; /* 0: none yet */
    struct plan_times last;
    struct complete_entry entry;

    /* cold */
    struct tca_plan *next; /* in session->plans */
    struct tca_plan *previous;
    char name[NAME_MAX_BYTES];
    char why[160]; /* text for `broken` */
    /* BUILDING: the error of the first step that was refused: it is the commit's, too. IDLE: that
     * of the last start, if its parts were refused: it is that of a wait, too. 0: none */
    int refused;
    char *refusal; /* its text; NULL: no memory was left for it */
    uint32_t channel, together;
    char rail[RAIL_NAME_MAX_BYTES]; /* a rail or a driver; "": any */
    enum tca_seat seat;
    bool apart; /* plan_puts_apart() */
    struct step *steps;
    uint32_t step_count;
    uint32_t step_room;
    uint32_t chain_first[PLAN_CHAINS_MAX]; /* index in steps */
    uint32_t chain_count;                  /* no chain is empty */
    bool begin_chain;                      /* the next step begins a chain */
    uint32_t part_count;                   /* puts with parts, those of 0 bytes included */
    uint32_t made_count;                   /* of `chains`: with another seat, not all of them run */
    struct transfer *transfers;
    uint32_t transfer_count;
    struct trial *trial;                 /* of copy modes; NULL: nothing to try */
    struct route_trial *route_trial;     /* NULL: nothing to try */
    struct plan_parts *parts;            /* NULL: every start moves all */
    const struct collective *collective; /* until the commit; NULL: it belongs to none */
    struct control_asked asked;          /* between plan_commit_begin() and plan_commit_end(), */
    uint64_t asked_end_ns;               /* which waits until then */
    uint32_t first_rail;                 /* of the first chain: index in session->rails */
    enum seat first_seat;
    struct driver_put *first_put; /* in the client's seat */
    uint64_t client_bytes;
    uint32_t client_descriptors;
};

/* The plan's name for errors: "plan 5.2 "halo"", where 5.2 is its id in tcactl plans. Returns
 * text. */
enum { PLAN_TEXT_BYTES = NAME_MAX_BYTES + 48 };
const char *plan_text(const struct tca_plan *plan, char text[PLAN_TEXT_BYTES]);

static inline uint32_t plan_chain_end(const struct tca_plan *plan, uint32_t chain)
{
    return chain + 1 < plan->chain_count ? plan->chain_first[chain + 1] : plan->step_count;
}

/* The node to which a step leads, or from which it waits; 0: nothing of it is known here. */
uint32_t plan_step_node(const struct tca *session, const struct step *step);

/* A step of a plan that is being built is not added: notes this for the commit, if it is the first,
 * and returns `error`, whose text then names plan and step. */
int plan_refuse(struct tca_plan *plan, int error) __attribute__((cold));
/* A start of a committed plan is refused: the same for tca_test() and tca_wait(). */
int plan_refuse_start(struct tca_plan *plan, int error) __attribute__((cold));
int plan_check_building(const struct tca_plan *plan);
/* The error of a call that needs a committed plan. */
int plan_not_committed(const struct tca_plan *plan) __attribute__((cold));
/* Returns room for one more step; plan_add_step() then counts it. */
int plan_reserve_step(struct tca_plan *plan, struct step **ret_step);
void plan_add_step(struct tca_plan *plan);

/* commit.c: its pace without trials. */
enum plan_pace plan_pace(const struct tca_plan *plan);
/* Creates the client-seat chains from the reply to a commit. Undone by plan_unbind(). */
int plan_bind(struct tca_plan *plan, const Tca__PlanCommitted *committed);
void plan_unbind(struct tca_plan *plan);
/* The same of a plan that is committed, all of whose chains tcad runs: makes those that it could
 * run itself over pairs. Undone by plan_drop_chains(). */
int plan_bind_pairs(struct tca_plan *plan, const Tca__PlanCommitted *committed);
void plan_drop_chains(struct tca_plan *plan);
/* Frees the process, with its lane and the segment that it uses, if it has ended and no plan uses
 * it. */
void plan_drop_process(struct tca *session, struct process *process);

/* Lets the daemon take notifications for this plan, instead of this process. -ETIMEDOUT, or the
 * error with which earlier data cannot be copied here (lanes_strict()). */
int plan_let_engine_take(struct tca_plan *plan, uint64_t end_ns);
/* Undoes plan_let_engine_take(), if it was called. */
void plan_stop_engine(struct tca_plan *plan);

/* Frees the plan in this process; abandons a running start. */
void plan_destroy(struct tca_plan *plan);

/* ---- running (progress.c) ---- */

/* Advances all running plans of the session as far as possible without waiting. */
void session_progress(struct tca *session);
/* The same within a request, whose caller has the lock. */
void session_progress_within(struct tca *session);
/* Takes completions of chains in the daemon's seat, and does nothing else. */
void session_complete(struct tca *session);

/* Adds the plan to session->running: its client-seat chains did not complete in tca_start(). */
void plan_run_later(struct tca_plan *plan);

/* Whether a plan with TCA_PLAN_REPEAT can repeat: 0 or -EINVAL. */
int repeat_check(const struct tca_plan *plan);
/* Its chains repeat in this process. */
static inline bool repeats_here(const struct tca_plan *plan)
{
    return plan->flags & TCA_PLAN_REPEAT && plan->client_count > 0;
}

/* start.c: 0 if the plan can be started now. */
int plan_check_startable(struct tca_plan *plan);

/* The chains of a running start are complete in both seats. It stays running while the reason of
 * its failure is open. */
void plan_finish(struct tca_plan *plan);

/* Of the current start: the first one counts. No error: does nothing. */
void plan_note_error(struct tca_plan *plan, int error);

/* Breaks the plan: no further start is possible. text NULL: that of the error code. The next
 * session_progress() ends a running start, except for chains whose completion the daemon has yet to
 * report, and, if a process or node has ended, for chains that do not need it. */
void plan_break(struct tca_plan *plan, int error, const char *text);

/* wait.c: called before the session is closed. Waits until no plan runs, at most timeout_ns. Starts
 * that are blocked at a wait step end at once. */
void plans_drain(struct tca *session, int64_t timeout_ns);

/* Tells the daemon to end the running start: SUBMIT_STOP or SUBMIT_CANCEL. */
int plan_order(struct tca_plan *plan, uint32_t order);

/* Cancels the chains in the client's seat. */
void plan_cancel_here(struct tca_plan *plan, int error);

/* Ends the running start; later completions from the daemon are ignored. */
void plan_abandon(struct tca_plan *plan, int error);

/* ---- events.c ---- */
void session_event(void *context, const Tca__Event *event, struct frame *frame);
