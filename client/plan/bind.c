/* Makes the chains that this process runs from the daemon's reply. */
#include <errno.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/core/segment.h"
#include "client/core/session.h"
#include "client/layout/layout.h"
#include "client/memory/lane.h"
#include "client/plan/order.h"
#include "client/plan/pair.h"
#include "client/plan/parts.h"
#include "client/plan/plan.h"
#include "client/plan/trial.h"
#include "client/plan/trial_route.h"
#include "drivers/seat.h"
#include "drivers/shm/share.h"
#include "proto/handle.h"
#include "proto/steps.h"

/* ---- puts and notifications ---- */

/* What goes into one put: a put step, the notification after it, or either alone. */
struct joined {
    const struct step *put;
    const struct step *notify;
    const struct step *signal; /* alone */
    uint64_t flow;             /* within this node: its chain */
};

/* The region of a transfer: of a peer, or of this process. */
static int use_region(struct tca *session, struct transfer *transfer, const Tca__Mapping *mapping)
{
    int r = mapping_region(session, mapping, &transfer->region);
    if (r == 0)
        mapping_use(session, transfer->region);
    return r;
}

/* Where the put writes. */
static int place(struct tca *session, struct transfer *transfer, const struct step *put,
                 const Tca__Mapping *mapping, struct driver_landing_args *args)
{
    const struct layout *layout = put->put.target_layout->program;
    int r = use_region(session, transfer, mapping);
    if (r < 0)
        return r;
    const struct mapped_region *region = transfer->region;
    if (!layout_fits(layout, mapping->offset, region->bytes))
        return error_set(-EPROTO, "tcad placed a put at offset %llu of a region of %llu bytes",
                         (unsigned long long)mapping->offset, (unsigned long long)region->bytes);
    args->region = region->driver_region;
    args->offset_bytes = mapping->offset;
    args->layout = layout;
    uint64_t first = mapping->offset + (uint64_t)layout->lower_bytes;
    transfer->token.landing = mapping->region_address + first;
    return segment_populate(region->base + first,
                            (uint64_t)(layout->upper_bytes - layout->lower_bytes));
}

/* The counter of a signal. */
static int place_counter(struct tca *session, struct transfer *transfer, const struct step *signal,
                         const Tca__Mapping *mapping)
{
    int r = use_region(session, transfer, mapping);
    if (r < 0)
        return r;
    const struct mapped_region *region = transfer->region;
    if (mapping->offset % sizeof(uint64_t) || mapping->offset > region->bytes ||
        region->bytes - mapping->offset < sizeof(uint64_t))
        return error_set(-EPROTO, "tcad placed a counter at offset %llu of a region of %llu bytes",
                         (unsigned long long)mapping->offset, (unsigned long long)region->bytes);
    transfer->token.counter = (_Atomic uint64_t *)(region->base + mapping->offset);
    transfer->token.signal = signal->signal.value;
    return segment_populate(region->base + mapping->offset, sizeof(uint64_t));
}

static int make_landing(struct tca *session, struct transfer *transfer, const struct joined *joined,
                        const Tca__Mapping *mapping, uint8_t blob[LANDING_MAX_BYTES],
                        size_t *ret_blob_bytes)
{
    const bool notifies = joined->notify || joined->signal;
    struct driver_landing_args args = {.notify = notifies,
                                       .token = (uint64_t)(uintptr_t)&transfer->token};
    int r = joined->put ? place(session, transfer, joined->put, mapping, &args) : 0;
    if (joined->signal)
        r = place_counter(session, transfer, joined->signal, mapping);
    if (r == 0 && notifies)
        r = mapping_line(session, mapping, &transfer->notified, &transfer->token.line);
    if (r == 0 && notifies)
        transfer->token.segment = transfer->notified->segment;
    if (r < 0)
        return r;
    r = session->shm->ops->landing_new(session->shm, &args, &transfer->landing, blob,
                                       ret_blob_bytes);
    return r < 0 ? error_set(r, "cannot prepare a landing: %s", tca_strerror(r)) : 0;
}

/* Lets the receiver share the copying. If that is not possible, this process copies alone. */
static void share(struct tca *session, struct transfer *transfer, const struct step *put,
                  const Tca__Mapping *mapping)
{
    struct mapped_segment *segment;
    const struct layout *target = put->put.target_layout->program,
                        *source = put->put.source_layout->program;
    if (mapping_segment(session, mapping, &segment) < 0 ||
        process_map_lane(transfer->process, segment->segment) < 0)
        return;
    transfer->process->lane.meanwhile = lanes_help;
    transfer->process->lane.context = session;
    if (!transfer->process->receiver) {
        transfer->process->receiver = segment;
        segment->uses++;
    }
    if (shm_put_share(transfer->put, mapping->share, target, source) < 0)
        return;
    const struct copy_mode wanted =
        copy_mode_of((enum copy_method)mapping->copy_method, target, source);
    if (wanted.method != COPY_NONE)
        shm_put_mode(transfer->put, &wanted);
    else
        transfer->tried = put;
}

/* To a process of another node, which knows the landing from its tcad. */
static int make_pair_transfer(struct tca_plan *plan, struct transfer *transfer,
                              const struct joined *joined, uint32_t rail,
                              const Tca__Mapping *mapping)
{
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_args args = {.landing = blob, .flow = plan->channel};
    struct driver_put_info info;
    uint64_t bytes = 0;
    int r = pair_find(plan->session, mapping->pair, rail, &transfer->pair);
    if (r < 0)
        return r;
    if (joined->put) {
        args.offset_bytes = joined->put->put.source_offset_bytes;
        args.layout = joined->put->put.source_layout->program;
        args.target_layout = joined->put->put.target_layout->program;
        args.parts = joined->put->put.part != 0;
        bytes = args.layout->size_bytes;
        r = pair_region(transfer->pair->via, &joined->put->put.source->mapped, &args.region);
    }
    args.peer = transfer->pair->peer;
    args.landing_bytes =
        transfer->pair->via->seat->blob(mapping->landing, mapping->generation, bytes, blob);
    transfer->driver = transfer->pair->via->driver;
    if (r == 0)
        r = transfer->driver->ops->put_prepare(transfer->driver, &args, &transfer->put, &info);
    if (r < 0)
        return error_set(r, "cannot prepare a put: %s", tca_strerror(r));
    plan->client_bytes += bytes;
    plan->client_descriptors += info.descriptors;
    if (args.parts)
        parts_bind(plan, joined->put, transfer);
    return 0;
}

/* Prepares a transfer as tcad has mapped it: a landing and a put of the shm driver, or a put to a
 * process of another node. What it holds is released by plan_unbind(), also after an error. */
static int transfer_make(struct tca_plan *plan, struct transfer *transfer,
                         const struct joined *joined, uint32_t rail, const Tca__Mapping *mapping)
{
    struct tca *session = plan->session;
    uint8_t blob[LANDING_MAX_BYTES];
    struct driver_put_args args = {.landing = blob, .flow = joined->flow};
    struct driver_put_info info;
    if (mapping->pair)
        return make_pair_transfer(plan, transfer, joined, rail, mapping);
    int r = make_landing(session, transfer, joined, mapping, blob, &args.landing_bytes);
    if (r == 0)
        r = process_find(session, joined->put ? mapping->owner : mapping->session,
                         &transfer->process);
    if (r < 0)
        return r;
    transfer->process->uses++;
    transfer->notify = joined->notify;
    args.peer = transfer->process->peer;
    if (joined->put) {
        args.region = joined->put->put.source->mapped.driver_region;
        args.offset_bytes = joined->put->put.source_offset_bytes;
        args.layout = joined->put->put.source_layout->program;
        args.target_layout = joined->put->put.target_layout->program;
        args.combine = joined->put->put.combine;
        args.type = joined->put->put.type;
        args.parts = joined->put->put.part != 0;
        plan->client_bytes += args.layout->size_bytes;
    }
    transfer->driver = session->shm;
    r = transfer->driver->ops->put_prepare(transfer->driver, &args, &transfer->put, &info);
    if (r < 0)
        return error_set(r, "cannot prepare a put: %s", tca_strerror(r));
    plan->client_descriptors += info.descriptors;
    if (plan->apart)
        shm_put_apart(transfer->put);
    else if (joined->put && mapping->share)
        share(session, transfer, joined->put, mapping);
    if (args.parts)
        parts_bind(plan, joined->put, transfer);
    if (!plan->first_put && joined->put)
        plan->first_put = transfer->put;
    return 0;
}

/* ---- chains ---- */

static bool landed(void *context, const struct chain_step *step)
{
    return lane_complete(context, step->wait.rank) > 0;
}

/* What a chain is made of. */
struct chain_steps {
    struct chain_step *list;
    uint32_t count, room;
};

static int add_step(struct chain_steps *steps, const struct chain_step *step)
{
    if (steps->count == steps->room) {
        const uint32_t room = 2 * steps->room + 8;
        struct chain_step *list = reallocarray(steps->list, room, sizeof(*list));
        if (!list)
            return error_static(-ENOMEM, "out of memory");
        steps->list = list;
        steps->room = room;
    }
    steps->list[steps->count++] = *step;
    return 0;
}

static int add_wait(struct tca_plan *plan, struct step *step, struct chain_steps *steps)
{
    struct tca *session = plan->session;
    const uint32_t rank = step->notification.rank, slot = step->notification.slot,
                   line = notify_find(session->notify, rank, slot);
    if (line == NOTIFY_NO_LINE)
        return error_set(-EPROTO, "tcad has not prepared the wait for rank %u, slot %u", rank,
                         slot);
    return add_step(steps,
                    &(struct chain_step){.kind = CHAIN_WAIT,
                                         .gone = &step->gone,
                                         .wait = {.line = notify_line_at(session->notify, line),
                                                  .taken = notify_taken_at(session->notify, line),
                                                  .count = step->notification.count,
                                                  .may_take = landed,
                                                  .context = session,
                                                  .rank = rank}});
}

static int add_wait_signal(const struct step *step, struct chain_steps *steps)
{
    _Atomic uint64_t *counter =
        (_Atomic uint64_t *)(step->signal.own->base + step->signal.offset_bytes);
    return add_step(
        steps, &(struct chain_step){.kind = CHAIN_WAIT,
                                    .wait = {.counter = counter, .count = step->signal.value}});
}

/* Adds a flush for each peer to which these transfers put, to wait until the receivers have copied
 * their parts. */
static int add_flushes(struct tca_plan *plan, const struct transfer *first,
                       const struct transfer *end, struct chain_steps *steps)
{
    const uint32_t begin = steps->count;
    const uint64_t mark = ++plan->session->last_flush;
    int r = 0;
    for (const struct transfer *transfer = first; transfer < end && r == 0; transfer++) {
        if (transfer->pair
                ? steps->count > begin
                : !transfer->region || transfer->token.counter || transfer->process->flush == mark)
            continue;
        if (!transfer->pair)
            transfer->process->flush = mark;
        r = add_step(steps,
                     &(struct chain_step){
                         .kind = CHAIN_FLUSH,
                         .fence = steps->count == begin,
                         .flush = {transfer->driver, transfer->pair ? transfer->pair->peer
                                                                    : transfer->process->peer}});
    }
    return r;
}

/* tcad has compared what the steps of the chain read and write. *first: transfers before it have
 * completed remotely when this one is posted. flushed: earlier ones must complete locally, then
 * remotely. */
static int add_transfer(struct tca_plan *plan, const struct transfer **first,
                        const struct transfer *transfer, const Tca__Mapping *mapping, bool flushed,
                        struct chain_steps *steps)
{
    int r = mapping->landed ? add_flushes(plan, *first, transfer, steps) : 0;
    if (r < 0)
        return r;
    if (mapping->landed && mapping->waits)
        *first = transfer;
    return add_step(steps, &(struct chain_step){.kind = CHAIN_PUT,
                                                .fence = mapping->waits || flushed,
                                                .gone = &transfer->gone,
                                                .put = {transfer->driver, transfer->put}});
}

/* tca_plan_flush(), behind the transfers from `begin` on. Puts to this node need none: they are
 * complete only when they have landed. Those of a chain to another node go over one connection. */
static int add_flush(struct tca_plan *plan, const struct transfer *begin, struct chain_steps *steps)
{
    const struct transfer *last = &plan->transfers[plan->transfer_count] - 1;
    if (last < begin || !last->pair)
        return 0;
    return add_step(steps, &(struct chain_step){.kind = CHAIN_FLUSH,
                                                .fence = true,
                                                .flush = {last->driver, last->pair->peer}});
}

/* Whether the step after a put is the put's notification. */
static bool next_joins(const struct tca_plan *plan, uint32_t put, uint32_t chain_end)
{
    const struct step *notify = &plan->steps[put + 1];
    struct handle handle;
    return put + 1 < chain_end && !plan->steps[put].flush && notify->kind == STEP_NOTIFY &&
           handle_decode(plan->steps[put].put.handle, &handle) == 0 &&
           notify_joins_put(!plan->steps[put].put.combine, handle.node,
                            (uint32_t)tca_node_of(plan->session, notify->notification.rank));
}

static int bind_chain(struct tca_plan *plan, uint32_t number, uint32_t plan_id,
                      const Tca__ChainCommitted *committed, struct chain_steps *steps)
{
    const struct transfer *begin = &plan->transfers[plan->transfer_count], *first = begin;
    uint32_t end = plan_chain_end(plan, number);
    size_t mapping = 0;
    bool flushed = false;
    int r;
    steps->count = 0;
    for (uint32_t i = plan->chain_first[number]; i < end; i++) {
        struct step *step = &plan->steps[i];
        if (step->kind == STEP_WAIT || step->kind == STEP_WAIT_SIGNAL) {
            r = step->kind == STEP_WAIT ? add_wait(plan, step, steps)
                                        : add_wait_signal(step, steps);
            if (r < 0)
                return r;
            flushed |= step->flush;
            if (step->flush && (r = add_flush(plan, begin, steps)) < 0)
                return r;
            continue;
        }
        struct joined joined = {.put = step->kind == STEP_PUT ? step : NULL,
                                .notify = step->kind == STEP_NOTIFY ? step : NULL,
                                .signal = step->kind == STEP_SIGNAL ? step : NULL,
                                .flow = (uint64_t)plan_id * PLAN_CHAINS_MAX + number};
        uint32_t at = i;
        if (joined.put && next_joins(plan, i, end))
            joined.notify = &plan->steps[++i];
        if (mapping == committed->n_mappings)
            return error_set(-EPROTO, "tcad named only %zu places for chain %u", mapping, number);
        struct transfer *transfer = &plan->transfers[plan->transfer_count++];
        const Tca__Mapping *there = committed->mappings[mapping++];
        if ((r = transfer_make(plan, transfer, &joined, committed->rail, there)) < 0)
            return error_prefix(r, "step %u of chain %u: ", at - plan->chain_first[number], number);
        if ((r = add_transfer(plan, &first, transfer, there, flushed, steps)) < 0)
            return r;
        flushed = plan->steps[i].flush;
        if (flushed && (r = add_flush(plan, begin, steps)) < 0)
            return r;
    }
    if (mapping != committed->n_mappings)
        return error_set(-EPROTO, "tcad named %zu places for the %zu of chain %u",
                         committed->n_mappings, mapping, number);
    r = chain_new(steps->list, steps->count, &plan->chains[plan->client_count]);
    if (r < 0)
        return error_set(r, "cannot make chain %u: %s", number, tca_strerror(r));
    plan->client_count = ++plan->made_count;
    return 0;
}

static int bind_chains(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct chain_steps steps = {0};
    plan->transfers = calloc(plan->step_count + 1, sizeof(*plan->transfers)); /* as in commit.c */
    plan->chains = calloc(plan->chain_count + 1, sizeof(struct chain *));
    int r = 0;
    if (!plan->transfers || !plan->chains)
        r = error_static(-ENOMEM, "out of memory");
    standby_enter(plan->session->standby);
    for (uint32_t i = 0; r == 0 && i < plan->chain_count; i++)
        if (committed->chains[i]->seat == SEAT_CLIENT)
            r = bind_chain(plan, i, committed->plan, committed->chains[i], &steps);
    for (uint32_t i = 0;
         r == 0 && plan->client_bytes > PLAN_DEFER_BYTES && i < plan->transfer_count; i++)
        if (plan->transfers[i].region && !plan->transfers[i].token.counter)
            shm_put_defer(plan->transfers[i].put, true);
    standby_leave(plan->session->standby);
    free(steps.list);
    return r;
}

int plan_bind(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    int r = bind_chains(plan, committed);
    if (r < 0)
        plan_unbind(plan);
    return r;
}

int plan_bind_pairs(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    int r = 0;
    for (size_t i = 0; i < committed->n_chains && r == 0; i++)
        for (size_t k = 0; k < committed->chains[i]->n_mappings && r == 0; k++)
            r = committed->chains[i]->mappings[k]->pair ? 0 : -EPROTO;
    if (r < 0)
        return r;
    plan_drop_chains(plan);
    r = bind_chains(plan, committed);
    if (r < 0)
        plan_drop_chains(plan);
    plan->client_count = 0; /* until it takes its seat */
    return r;
}

void plan_drop_process(struct tca *session, struct process *process)
{
    struct mapped_segment *receiver = process->receiver;
    if (process_drop(session, process) && receiver)
        mapping_segment_unuse(session, receiver);
}

/* Processes that have ended and that no other plan uses. */
static void unuse_processes(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct transfer *transfer = &plan->transfers[i];
        if (transfer->notified)
            mapping_segment_unuse(session, transfer->notified);
        if (!transfer->process)
            continue;
        transfer->process->uses--;
        plan_drop_process(session, transfer->process);
    }
}

void plan_drop_chains(struct tca_plan *plan)
{
    struct tca *session = plan->session;
    standby_enter(session->standby);
    for (uint32_t i = 0; i < plan->made_count; i++)
        chain_free(plan->chains[i]);
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct transfer *transfer = &plan->transfers[i];
        if (transfer->put)
            transfer->driver->ops->put_release(transfer->driver, transfer->put);
        if (transfer->landing)
            session->shm->ops->landing_free(session->shm, transfer->landing);
        if (transfer->region)
            mapping_unuse(session, transfer->region);
    }
    trial_end(plan); /* uses their lanes */
    unuse_processes(plan);
    free(plan->chains);
    free(plan->transfers);
    plan->chains = NULL;
    plan->transfers = NULL;
    plan->client_count = plan->made_count = plan->transfer_count = 0;
    plan->client_bytes = plan->client_descriptors = 0;
    plan->first_put = NULL;
    standby_leave(session->standby);
}

void plan_unbind(struct tca_plan *plan)
{
    order_end(plan);
    trial_route_end(plan);
    plan_drop_chains(plan);
}
