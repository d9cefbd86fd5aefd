/* PREPARING: compiles the puts, makes the chains (the puts, the waits, and what must precede them),
 * and attaches the plan to the engine, in slices on its thread, because a plan can have 65,536
 * puts. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/bindings/compile.h"
#include "daemon/plans/order.h"
#include "daemon/plans/parts.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/chain.h"
#include "drivers/copy/copy.h"

/* Puts that an ordered put could overtake. */
struct unordered {
    uint32_t first;          /* step of the chain */
    const struct link *link; /* of one of them; NULL: none */
    bool several;            /* over several links */
    bool gathered;           /* some are gathered, so later puts can overtake them */
};

/* A plan whose chains are being made, on the engine's thread. */
struct plan_preparing {
    struct plan *plan;
    struct copy_program **programs; /* of its puts between long layouts; NULL: it has none */
    uint32_t chain, made; /* the next of the plan's chains, and of those that the daemon runs */
    const struct plan_chain *from;   /* the chain that is being made; NULL: none */
    uint32_t next;                   /* its next step */
    bool ordered;                    /* the rail's driver: engine_driver_caps() */
    const struct plan_transfer *own; /* the last put into memory of its own session; NULL: none */
    struct chain_step *steps;
    uint32_t count, room;    /* of steps */
    struct chain *new_chain; /* to which these are copied; NULL: not yet */
    uint32_t copied;
    int error;                  /* -ENOMEM */
    struct unordered unordered; /* puts that an ordered one could still overtake */
    uint32_t flushed;           /* step of the chain; earlier puts are complete remotely */
    bool flushing;              /* once the flushes are, which no put has awaited yet */
    bool striped;               /* some puts go over several rails (plan_stripe.h) */
};

/* ---- steps ---- */

static int prepare_transfer(struct plan_preparing *preparing, struct plan_transfer *transfer)
{
    struct plan *plan = preparing->plan;
    const unsigned rail = transfer->link->rail;
    const struct landing_blob *blob = plan_blob(plan, transfer, rail);
    struct driver_put_args args = {
        .peer = transfer->link->peer,
        .flow = plan_flow(plan->session_id, plan->channel),
        .region = transfer->source ? transfer->source->on[rail] : NULL,
        .offset_bytes = transfer->source_offset,
        .layout = transfer->source_layout,
        .program = preparing->programs ? &preparing->programs[transfer - plan->transfers] : NULL,
        .landing = blob->blob,
        .landing_bytes = blob->bytes,
        .target_layout = transfer->signal ? NULL : transfer->target_layout,
        .combine = transfer->combine,
        .type = transfer->type,
        .parts = transfer->parts || transfer->part_bytes > 0,
    };
    int r = transfer->driver->ops->put_prepare(transfer->driver, &args, &transfer->put,
                                               &transfer->info);
    if (r < 0)
        return plan_fail(plan, r, "rail %s cannot carry a put to node %" PRIu32 ": %s",
                         rail_name(plan->tcad, rail), transfer->node, strerror(-r));
    if (transfer->part_bytes > 0)
        transfer->driver->ops->put_part(transfer->driver, transfer->put,
                                        &(struct driver_part){.source_at_bytes = transfer->part_at,
                                                              .target_at_bytes = transfer->part_at,
                                                              .bytes = transfer->part_bytes});
    plan->run.descriptors += transfer->info.descriptors;
    plan->prepared_bytes += transfer->info.memory_bytes;
    return 0;
}

/* Room for `count` more; NULL: out of memory. */
static struct chain_step *more_steps(struct plan_preparing *preparing, uint32_t count)
{
    if (preparing->count + count > preparing->room) {
        const uint32_t room = 2 * preparing->room + count;
        struct chain_step *steps = reallocarray(preparing->steps, room, sizeof(*steps));
        if (!steps) {
            preparing->error = -ENOMEM;
            return NULL;
        }
        preparing->steps = steps;
        preparing->room = room;
    }
    return preparing->steps + preparing->count;
}

static void add_step(struct plan_preparing *preparing, const struct chain_step *step)
{
    struct chain_step *added = more_steps(preparing, 1);
    if (!added)
        return;
    *added = *step;
    preparing->count++;
}

/* ---- remote completion ---- */

/* Adds a flush of this transfer's link after all steps so far. The flushes since `first` run
 * together, one for each link. */
static void add_flush_of(struct plan_preparing *preparing, uint32_t first,
                         const struct plan_transfer *transfer)
{
    for (uint32_t i = first; i < preparing->count; i++)
        if (preparing->steps[i].flush.peer == transfer->link->peer)
            return;
    add_step(preparing, &(struct chain_step){.kind = CHAIN_FLUSH,
                                             .fence = preparing->count == first,
                                             .flush = {transfer->driver, transfer->link->peer}});
}

/* The same, with the links of its stripes. */
static void add_flush(struct plan_preparing *preparing, uint32_t first,
                      const struct plan_transfer *transfer)
{
    add_flush_of(preparing, first, transfer);
    for (uint32_t k = 0; k < plan_stripe_count(preparing->plan, transfer); k++)
        add_flush_of(preparing, first, plan_stripe(preparing->plan, transfer, k));
}

/* Flushes the links of steps `from` to `to`: all, or those with puts that an ordered one may
 * overtake, which are scattered by the target's daemon or go over another link. */
static void add_flushes(struct plan_preparing *preparing, uint32_t from, uint32_t to,
                        const struct plan_transfer *ordered)
{
    const uint32_t first = preparing->count;
    for (uint32_t i = from; i < to; i++) {
        if (preparing->from->steps[i].is_wait)
            continue;
        const struct plan_transfer *transfer =
            &preparing->plan->transfers[preparing->from->steps[i].transfer];
        if (!ordered || (plan_transfer_puts(transfer) &&
                         (transfer->link != ordered->link || transfer->info.gathered)))
            add_flush(preparing, first, transfer);
    }
}

static void note_unordered(struct unordered *unordered, const struct plan_transfer *transfer)
{
    if (!plan_transfer_puts(transfer))
        return;
    unordered->several |=
        (unordered->link && unordered->link != transfer->link) || transfer->part_bytes > 0;
    unordered->link = transfer->link;
    unordered->gathered |= transfer->info.gathered;
}

static bool may_overtake(const struct plan_preparing *preparing,
                         const struct plan_transfer *ordered)
{
    const struct unordered *unordered = &preparing->unordered;
    return unordered->link && (unordered->several || unordered->link != ordered->link ||
                               unordered->gathered || !preparing->ordered);
}

static void prepare_wait(struct plan_preparing *preparing, const struct plan_step *step)
{
    struct session *session = preparing->plan->session;
    _Atomic uint64_t *counter =
        step->counter ? region_counter_at(step->counter, step->counter_offset) : NULL;
    if (engine_session_reserve_line(session->engine, step->line) < 0)
        preparing->error = -ENOMEM;
    add_step(preparing,
             &(struct chain_step){.kind = CHAIN_WAIT,
                                  .gone = &step->gone,
                                  .wait = {.line = notify_line_at(session->notify, step->line),
                                           .taken = notify_taken_at(session->notify, step->line),
                                           .counter = counter,
                                           .count = step->count,
                                           .may_take = engine_plan_may_take,
                                           .context = &preparing->plan->run}});
}

/* ---- chains: what precedes a step ---- */

/* Everything before this step becomes complete remotely. */
static void flush(struct plan_preparing *preparing, uint32_t step)
{
    const uint32_t before = preparing->count;
    add_flushes(preparing, preparing->flushed, step, NULL);
    preparing->unordered = (struct unordered){.first = step};
    preparing->own = NULL;
    preparing->flushed = step;
    preparing->flushing |= preparing->count > before;
}

/* Makes the step wait until the data that it reads or overwrites is complete at the target. */
static void follow(struct plan_preparing *preparing, uint32_t step,
                   const struct plan_transfer *transfer)
{
    const struct plan *plan = preparing->plan;
    const uint32_t first = preparing->count;
    if (transfer->order.all_landed)
        flush(preparing, step);
    for (int i = 0; i < 2; i++) {
        const uint32_t landed = transfer->order.landed[i];
        if (landed != ORDER_NOTHING && landed >= preparing->flushed)
            add_flush(preparing, first, &plan->transfers[preparing->from->steps[landed].transfer]);
    }
}

/* Adds what must precede the put of this step. */
static void prepare_order(struct plan_preparing *preparing, uint32_t step,
                          struct plan_transfer *transfer)
{
    follow(preparing, step, transfer);
    if (transfer->ordered && may_overtake(preparing, transfer)) {
        add_flushes(preparing, preparing->unordered.first, step, transfer);
        transfer->fence = true;
        preparing->unordered = (struct unordered){.first = step};
    }
    transfer->fence |= preparing->flushing;
    preparing->flushing = false;
}

/* Whether it puts into memory of its own session. */
static bool is_own(const struct plan_preparing *preparing, const struct plan_transfer *transfer)
{
    return transfer->has_target && transfer->owner == preparing->plan->session_id &&
           transfer->node == preparing->plan->tcad->node;
}

static void note_own(struct plan_preparing *preparing, const struct plan_transfer *transfer)
{
    if (is_own(preparing, transfer) && !transfer->combine)
        preparing->own = transfer;
}

/* ---- chains: stripes ---- */

/* What a notification or an ordered put makes visible may be on several rails. */
static bool needs_stripes(const struct plan_preparing *preparing,
                          const struct plan_transfer *transfer)
{
    return (preparing->striped || transfer->part_bytes > 0) &&
           (transfer->notify || transfer->signal || transfer->ordered);
}

static int prepare_stripes(struct plan_preparing *preparing, const struct plan_transfer *transfer)
{
    struct plan *plan = preparing->plan;
    int r = 0;
    for (uint32_t k = 0; r == 0 && k < plan_stripe_count(plan, transfer); k++)
        r = prepare_transfer(preparing, plan_stripe(plan, transfer, k));
    preparing->striped |= transfer->part_bytes > 0;
    return r;
}

static void add_put(struct plan_preparing *preparing, const struct plan_transfer *transfer,
                    bool fence)
{
    add_step(preparing, &(struct chain_step){.kind = CHAIN_PUT,
                                             .fence = fence,
                                             .gone = &transfer->gone,
                                             .put = {transfer->driver, transfer->put}});
}

static void add_puts(struct plan_preparing *preparing, const struct plan_transfer *transfer)
{
    const struct plan *plan = preparing->plan;
    add_put(preparing, transfer, transfer->fence);
    for (uint32_t k = 0; k < plan_stripe_count(plan, transfer); k++)
        add_put(preparing, plan_stripe(plan, transfer, k), false);
}

/* Later starts of the channel are posted behind the last step, whose fence waits until the flushes
 * are complete: their notifications do not overtake a stripe. */
static void fence_stripes(struct plan_preparing *preparing)
{
    flush(preparing, preparing->from->step_count);
    add_step(preparing, &(struct chain_step){.kind = CHAIN_FENCE, .fence = true});
}

/* ---- chains: a step, and the end ---- */

/* 0 or a negative errno with plan->attempt.text. */
static int prepare_step(struct plan_preparing *preparing, uint32_t i)
{
    struct plan *plan = preparing->plan;
    const struct plan_step *step = &preparing->from->steps[i];
    if (step->is_wait) {
        prepare_wait(preparing, step);
        if (step->flush)
            flush(preparing, i + 1);
        return 0;
    }
    struct plan_transfer *transfer = &plan->transfers[step->transfer];
    int r = prepare_transfer(preparing, transfer);
    if (r < 0)
        return r;
    if (needs_stripes(preparing, transfer))
        flush(preparing, i);
    r = prepare_stripes(preparing, transfer);
    if (r < 0)
        return r;
    prepare_order(preparing, i, transfer);
    note_unordered(&preparing->unordered, transfer);
    note_own(preparing, transfer);
    add_puts(preparing, transfer);
    if (step->flush)
        flush(preparing, i + 1);
    return 0;
}

static bool has_waits(const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->step_count; i++)
        if (chain->steps[i].is_wait)
            return true;
    return false;
}

/* When a start is complete, what it has put into memory of its own session must be visible, also to
 * other starts. */
static void prepare_end(struct plan_preparing *preparing)
{
    preparing->plan->run.lands &= preparing->striped && !has_waits(preparing->from);
    if (preparing->striped)
        fence_stripes(preparing);
    if (preparing->own && preparing->from->bound.rail != RAIL_SHM)
        add_flush(preparing, preparing->count, preparing->own);
}

/* ---- chains, in slices ---- */

static void begin_chain(struct plan_preparing *preparing, const struct plan_chain *from)
{
    free(preparing->steps);
    *preparing = (struct plan_preparing){
        .plan = preparing->plan,
        .programs = preparing->programs,
        .chain = preparing->chain,
        .made = preparing->made,
        .from = from,
        .ordered = engine_driver_caps(preparing->plan->tcad->engine, from->bound.rail)->ordered};
}

/* Returns false if the slice is over. */
static bool compile(struct engine *engine, struct plan_preparing *preparing)
{
    while (preparing->next < preparing->from->step_count) {
        if (prepare_step(preparing, preparing->next++) < 0)
            return true;
        if (engine_slice_over(engine))
            return false;
    }
    prepare_end(preparing);
    return true;
}

enum { COPY_STEPS = 256 }; /* between two checks of the clock */

/* Returns false if the slice is over. */
static bool copy_steps(struct engine *engine, struct plan_preparing *preparing)
{
    while (preparing->copied < preparing->count) {
        const uint32_t left = preparing->count - preparing->copied;
        const uint32_t count = left < COPY_STEPS ? left : COPY_STEPS;
        chain_set(preparing->new_chain, preparing->copied, &preparing->steps[preparing->copied],
                  count);
        preparing->copied += count;
        if (engine_slice_over(engine))
            return false;
    }
    return true;
}

/* Returns false if the slice is over. A failure is in plan->attempt. */
static bool prepare_chain(struct engine *engine, struct plan_preparing *preparing)
{
    struct plan *plan = preparing->plan;
    if (!preparing->new_chain) {
        if (!compile(engine, preparing))
            return false;
        int r = preparing->error;
        if (r == 0 && plan_works(plan))
            r = chain_new_empty(preparing->count, &preparing->new_chain);
        if (r < 0)
            plan_fail(plan, r, "out of memory for a chain of %" PRIu32 " steps",
                      preparing->from->step_count);
        if (!plan_works(plan))
            return true;
    }
    if (!copy_steps(engine, preparing))
        return false;
    plan->run.chains[preparing->made] = preparing->new_chain;
    preparing->new_chain = NULL;
    return true;
}

/* The next chain that the daemon runs and that is not there yet; NULL: none. */
static const struct plan_chain *next_chain(struct plan_preparing *preparing)
{
    struct plan *plan = preparing->plan;
    for (; preparing->chain < plan->chain_count; preparing->chain++) {
        if (plan->chains[preparing->chain].bound.seat == SEAT_CLIENT)
            continue;
        if (!plan->run.chains[preparing->made])
            return &plan->chains[preparing->chain];
        plan->run.lands &= preparing->from == &plan->chains[preparing->chain]; /* else it stayed */
        preparing->made++;
    }
    return NULL;
}

static enum encryption find_encryption(const struct plan *plan)
{
    enum encryption highest = ENCRYPTION_LOCAL;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct link *link = plan->transfers[i].link;
        if (link && link_encryption(link) > highest)
            highest = link_encryption(link);
    }
    return highest;
}

static void prepare_run(struct plan *plan)
{
    struct engine_plan *run = &plan->run;
    bool first = true;
    run->id = plan->id;
    run->channel = plan->channel;
    run->repeat = plan->repeat;
    run->bytes = 0;
    run->encryption = find_encryption(plan);
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        if (plan->chains[i].bound.seat == SEAT_CLIENT)
            continue;
        if (first)
            run->rail = plan->chains[i].bound.rail;
        first = false;
        run->bytes += plan->chains[i].bytes;
    }
}

static bool prepare_some(struct engine *engine, void *context)
{
    struct plan_preparing *preparing = context;
    struct plan *plan = preparing->plan;
    const struct plan_chain *from;
    while (plan_works(plan) && (from = next_chain(preparing))) {
        if (preparing->from != from)
            begin_chain(preparing, from);
        if (!prepare_chain(engine, preparing))
            return true;
    }
    if (!plan_works(plan))
        return false;
    prepare_run(plan);
    if (parts_prepare(plan) < 0)
        return false;
    if (engine_plan_enter(plan->session->engine, &plan->run) < 0)
        plan_fail(plan, -ENOMEM, "out of memory for the order of starts");
    else if (!plan_attached(plan))
        engine_plan_attach(plan->session->engine, &plan->run);
    return false;
}

/* ---- on the loop ---- */

/* Charges the memory that drivers hold for its puts, which is known only after they are
 * prepared. */
int plan_charge_puts(struct plan *plan)
{
    char text[512];
    const uint64_t bytes = plan->prepared_bytes;
    int r = 0;
    if (bytes > plan->put_bytes)
        r = charge_take(plan->tcad, &plan->charge, plan->session->uid, USER_PLANS,
                        bytes - plan->put_bytes, "a plan", text, sizeof(text));
    else
        charge_lower(&plan->charge, plan->put_bytes - bytes);
    if (r < 0)
        return plan_fail(plan, r, "%s", text);
    plan->put_bytes = bytes;
    return 0;
}

static void prepared(void *context)
{
    struct plan_preparing *preparing = context;
    struct plan *plan = preparing->plan;
    chain_free(preparing->new_chain);
    free(preparing->steps);
    for (uint32_t i = 0; preparing->programs && i < plan->transfer_count; i++)
        copy_program_free(preparing->programs[i]);
    free(preparing->programs);
    free(preparing);
    if (plan_works(plan))
        plan_charge_puts(plan);
    plan_done(plan);
}

/* Its links, each once: into `routes`, unless NULL. Returns their number. */
static uint32_t list_routes(const struct plan *plan, struct engine_route *routes)
{
    const uint64_t mark = ++plan->tcad->last_mark;
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct link *link = plan->transfers[i].link;
        if (!link || link->mark == mark)
            continue;
        link->mark = mark;
        if (routes)
            routes[count] = (struct engine_route){
                .node = link->node, .driver = plan->transfers[i].driver, .peer = link->peer};
        count++;
    }
    return count;
}

/* Plans that are started together share the rails (plan_route.c), and keep no order between
 * them. */
static int make_routes(struct plan *plan)
{
    struct engine_plan *run = &plan->run;
    const uint32_t count = plan->together ? 0 : list_routes(plan, NULL);
    assert(!run->routes);
    run->lands = true;
    if (count == 0)
        return 0;
    run->routes = calloc(count, sizeof(*run->routes));
    if (!run->routes)
        return -ENOMEM;
    run->route_count = list_routes(plan, run->routes);
    return 0;
}

static void prepare(void *context)
{
    struct plan_preparing *preparing = context;
    engine_job_quiet(plan_engine(preparing->plan), &preparing->plan->call, prepare_some, prepared,
                     preparing);
}

/* ---- puts between long layouts: on the worker, as one takes up to 40 ms, in which the engine
 * would start nothing ---- */

static bool is_long(const struct plan_transfer *transfer)
{
    return transfer->driver && transfer->driver->ops->put_compile && !transfer->put &&
           transfer->source &&
           (layout_is_long(transfer->source_layout) || layout_is_long(transfer->target_layout));
}

static void compile_long(void *context)
{
    struct plan_preparing *preparing = context;
    struct plan *plan = preparing->plan;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        const struct plan_transfer *transfer = &plan->transfers[i];
        if (!is_long(transfer))
            continue;
        const struct driver_put_args args = {.layout = transfer->source_layout,
                                             .target_layout = transfer->target_layout,
                                             .combine = transfer->combine,
                                             .parts = transfer->parts || transfer->part_bytes > 0};
        if (transfer->driver->ops->put_compile(&args, &preparing->programs[i]) < 0)
            return;
    }
}

/* False: there is nothing to do, or it cannot be done (out of memory): put_prepare() compiles what
 * is missing. */
static bool compile_first(struct plan_preparing *preparing)
{
    struct plan *plan = preparing->plan;
    uint32_t i = 0;
    while (i < plan->transfer_count && !is_long(&plan->transfers[i]))
        i++;
    if (i == plan->transfer_count)
        return false;
    preparing->programs = calloc(plan->transfer_count, sizeof(struct copy_program *));
    return preparing->programs && worker_submit(plan->tcad->worker, plan->session->uid,
                                                compile_long, prepare, prepare, preparing) == 0;
}

void plan_do_prepare(struct plan *plan)
{
    struct plan_preparing *preparing = make_routes(plan) < 0 ? NULL : calloc(1, sizeof(*preparing));
    if (!preparing) {
        plan_fail(plan, -ENOMEM, "out of memory for %" PRIu32 " chains", plan->chain_count);
        return;
    }
    preparing->plan = plan;
    plan->pending++;
    if (!compile_first(preparing))
        prepare(preparing);
}
