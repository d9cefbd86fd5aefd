#include "daemon/plans/plan_stripe.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/plans/parts.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"

/* ---- PARSING ---- */

/* Whether the plan may use the rail to that node, as far as this node knows. */
static bool may_use(const struct plan *plan, unsigned rail, uint32_t node)
{
    const unsigned wanted = plan->wanted_rails | plan->preferred_rails;
    return (!wanted || wanted & 1u << rail) && links_possible(plan->tcad, rail, node);
}

/* The rails of this driver that the plan may use. */
static unsigned count_rails(const struct plan *plan, enum driver_id driver, uint32_t node)
{
    unsigned count = 0;
    for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++)
        count += rail_at(plan->tcad, rail)->driver == driver && may_use(plan, rail, node);
    return count;
}

uint32_t plan_stripe_room(const struct plan *plan, const struct plan_transfer *transfer)
{
    const uint64_t least = plan->tcad->conf->rails.stripe_bytes;
    unsigned most = 1;
    if (least == 0 || transfer->source_layout->size_bytes < least || transfer->combine ||
        transfer->parts || transfer->node == plan->tcad->node || plan->wanted_seat == SEAT_CLIENT)
        return 0;
    for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++) {
        const unsigned count = count_rails(plan, rail_at(plan->tcad, rail)->driver, transfer->node);
        most = count > most ? count : most;
    }
    return (most < STRIPES_MAX ? most : STRIPES_MAX) - 1;
}

int plan_add_stripes(struct plan *plan)
{
    const uint32_t parsed = plan->transfer_count;
    uint32_t room = 0;
    for (uint32_t i = 0; i < parsed; i++)
        room += plan->transfers[i].stripe_room;
    if (room == 0)
        return 0;
    struct plan_transfer *transfers =
        reallocarray(plan->transfers, parsed + room, sizeof(*transfers));
    if (!transfers)
        return plan_fail(plan, -ENOMEM, "out of memory for %u stripes of large puts", room);
    plan->transfers = transfers;
    for (uint32_t i = 0, transfer = 0; i < plan->chain_count;
         transfer += plan->chains[i++].transfer_count)
        plan->chains[i].transfers = transfers + transfer;
    for (uint32_t i = 0; i < parsed; i++) {
        transfers[i].stripes = plan->transfer_count;
        for (uint32_t k = 0; k < transfers[i].stripe_room; k++) {
            struct plan_transfer *stripe = &transfers[plan->transfer_count++];
            *stripe = transfers[i];
            stripe->of = &transfers[i];
            stripe->stripe_room = 0;
            region_ref(stripe->source);
            stripe->source->puts_from++;
        }
    }
    return 0;
}

/* ---- routing ---- */

/* A put's own rail and those that it may be divided among. */
struct division {
    unsigned count;
    unsigned rails[STRIPES_MAX];
    struct stripe stripes[STRIPES_MAX];
};

/* Why the rail can have no share of the put; NULL: it can. */
static const char *why_not(const struct plan *plan, const struct plan_transfer *transfer,
                           unsigned rail)
{
    const struct tcad *tcad = plan->tcad;
    const char *never = links_why_not(tcad, rail, transfer->node);
    if (never)
        return never;
    if (!may_use(plan, rail, transfer->node))
        return "another rail was requested";
    if (!(transfer->rails & 1u << rail))
        return "the target's node does not have it";
    if (transfer->source->refused & 1u << rail)
        return "its device cannot register the source's memory (dmabuf)";
    if (transfer->lost & ~transfer->back & 1u << rail)
        return "was lost, and has not been back for long enough (rails.return_after)";
    if (engine_driver_error(tcad->engine, rail))
        return "the rail's driver is broken here";
    if (!links_exists(tcad->links, transfer->node, rail) ||
        !fabric_reaches(tcad, rail, transfer->node))
        return "does not lead to the node at present";
    return NULL;
}

static bool is_free(const struct plan *plan, const struct plan_transfer *transfer, unsigned own,
                    unsigned rail)
{
    const struct tcad *tcad = plan->tcad;
    return rail != own && rail_at(tcad, rail)->driver == rail_at(tcad, own)->driver &&
           !why_not(plan, transfer, rail);
}

/* Latency and rate of the rail for such a put; false: it was not calibrated. */
static bool predict(const struct plan *plan, const struct plan_transfer *transfer, unsigned rail,
                    struct stripe *ret_stripe)
{
    const struct cost_parameters *costs = &plan->tcad->costs.rails[rail].at[SEAT_DAEMON];
    const struct cost_transfer whole = plan_cost_transfer(plan, transfer, rail),
                               nothing = {.hops = whole.hops};
    if (!costs->valid)
        return false;
    const double latency_ns = (double)cost_predict(costs, &nothing),
                 transfer_ns = (double)cost_predict(costs, &whole) - latency_ns;
    *ret_stripe = (struct stripe){
        .latency_ns = latency_ns,
        .bytes_per_ns = (double)whole.bytes / (transfer_ns > 1 ? transfer_ns : 1),
    };
    return true;
}

static void add(const struct plan *plan, const struct plan_transfer *transfer, unsigned rail,
                bool calibrated, struct division *division)
{
    struct stripe *stripe = &division->stripes[division->count];
    *stripe = (struct stripe){.bytes_per_ns = 1};
    if (calibrated && !predict(plan, transfer, rail, stripe))
        return;
    division->rails[division->count++] = rail;
}

/* If the put's own rail was not calibrated, all count as equal. */
static void divide(const struct plan *plan, const struct plan_transfer *transfer, unsigned own,
                   struct division *ret_division)
{
    const bool calibrated = plan->tcad->costs.rails[own].at[SEAT_DAEMON].valid;
    *ret_division = (struct division){0};
    add(plan, transfer, own, calibrated, ret_division);
    for (unsigned rail = 1;
         rail <= plan->tcad->rails->last && ret_division->count <= transfer->stripe_room; rail++)
        if (is_free(plan, transfer, own, rail))
            add(plan, transfer, rail, calibrated, ret_division);
    stripes_divide(ret_division->stripes, ret_division->count, transfer->source_layout->size_bytes);
}

int plan_take_stripes(struct plan *plan, struct plan_transfer *transfer)
{
    struct division division;
    uint32_t taken = 0;
    if (transfer->stripe_room == 0)
        return 0;
    divide(plan, transfer, transfer->link->rail, &division);
    uint64_t at = division.stripes[0].bytes;
    for (unsigned i = 1; i < division.count; i++) {
        if (division.stripes[i].bytes == 0)
            continue;
        struct plan_transfer *stripe = plan_stripe(plan, transfer, taken++);
        stripe->owner = transfer->owner;
        stripe->rail = division.rails[i];
        stripe->part_at = at;
        stripe->part_bytes = division.stripes[i].bytes;
        at += stripe->part_bytes;
        int r = plan_take_link(plan, stripe, stripe->rail);
        if (r < 0)
            return r;
    }
    for (uint32_t i = taken; i < transfer->stripe_room; i++)
        plan_stripe(plan, transfer, i)->part_bytes = 0;
    transfer->part_bytes = taken > 0 ? division.stripes[0].bytes : 0;
    return 0;
}

static bool transfer_differs(const struct plan *plan, const struct plan_transfer *transfer,
                             unsigned own)
{
    struct division division;
    unsigned wanted = 0, bound = 0;
    if (transfer->stripe_room == 0)
        return false;
    divide(plan, transfer, own, &division);
    for (unsigned i = 1; i < division.count; i++)
        wanted |= division.stripes[i].bytes > 0 ? 1u << division.rails[i] : 0;
    for (uint32_t i = 0; i < plan_stripe_count(plan, transfer); i++)
        bound |= 1u << plan_stripe(plan, transfer, i)->rail;
    return wanted != bound;
}

bool plan_stripes_differ(const struct plan *plan, const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->transfer_count; i++)
        if (transfer_differs(plan, &chain->transfers[i], chain->bound.rail))
            return true;
    return false;
}

/* ---- for display ---- */

static uint64_t bound_bytes(const struct plan *plan, const struct plan_transfer *transfer,
                            unsigned own, unsigned rail)
{
    if (rail == own)
        return transfer->part_bytes > 0 ? transfer->part_bytes
                                        : transfer->source_layout->size_bytes;
    for (uint32_t i = 0; i < plan_stripe_count(plan, transfer); i++)
        if (plan_stripe(plan, transfer, i)->rail == rail)
            return plan_stripe(plan, transfer, i)->part_bytes;
    return 0;
}

/* Of a rail that could have a share and has none. */
static const char *why_none(const struct plan *plan, const struct plan_transfer *transfer,
                            bool calibrated)
{
    if (!calibrated)
        return "not calibrated";
    if (plan_stripe_count(plan, transfer) + 1 == STRIPES_MAX)
        return "a put has shares on at most 8 rails";
    return transfer->part_bytes > 0 ? "its share would be too small"
                                    : "dividing the put would not make it faster";
}
static_assert(STRIPES_MAX == 8, "said above");

static uint64_t duration_of(const struct stripe *stripe, uint64_t bytes)
{
    return (uint64_t)(stripe->latency_ns + (double)bytes / stripe->bytes_per_ns);
}

static struct plan_share explain(const struct plan *plan, const struct plan_transfer *transfer,
                                 unsigned own, unsigned rail, double *ret_latency_ns)
{
    struct stripe stripe = {0};
    const bool calibrated = predict(plan, transfer, rail, &stripe);
    const char *why = rail == own ? "the chain's rail" : why_not(plan, transfer, rail);
    struct plan_share share = {.rail = rail,
                               .bytes = bound_bytes(plan, transfer, own, rail),
                               .predicted_ns = UINT64_MAX,
                               .alone_ns = UINT64_MAX};
    share.why = why ? why : share.bytes > 0 ? "" : why_none(plan, transfer, calibrated);
    if (calibrated)
        share.alone_ns = duration_of(&stripe, transfer->source_layout->size_bytes);
    if (calibrated && share.bytes > 0)
        share.predicted_ns = duration_of(&stripe, share.bytes);
    *ret_latency_ns = stripe.latency_ns;
    return share;
}

void plan_explain_division(const struct plan *plan, const struct plan_transfer *transfer,
                           struct plan_division *ret_division)
{
    const struct tcad *tcad = plan->tcad;
    const struct plan_chain *chain = &plan->chains[transfer->chain];
    uint64_t longest_ns = 0, confirmed_ns = 0;
    double latency_ns;
    *ret_division = (struct plan_division){.predicted_ns = UINT64_MAX};
    if (transfer->stripe_room == 0 || chain->bound.rail == RAIL_NONE ||
        chain->bound.seat != SEAT_DAEMON)
        return;
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        if (rail_at(tcad, rail)->driver != rail_at(tcad, chain->bound.rail)->driver)
            continue;
        const struct plan_share share =
            explain(plan, transfer, chain->bound.rail, rail, &latency_ns);
        ret_division->shares[ret_division->count++] = share;
        if (share.bytes == 0)
            continue;
        longest_ns = share.predicted_ns > longest_ns ? share.predicted_ns : longest_ns;
        if (rail != chain->bound.rail && 2 * latency_ns > (double)confirmed_ns)
            confirmed_ns = (uint64_t)(2 * latency_ns);
    }
    if (longest_ns != UINT64_MAX)
        ret_division->predicted_ns = longest_ns + confirmed_ns;
}

/* ---- totals ---- */

void plan_add_bytes(const struct plan *plan, const struct plan_chain *chain, uint64_t starts,
                    uint64_t bytes[static RAIL_SLOTS])
{
    bytes[chain->bound.rail] += starts * chain->bytes;
    for (uint32_t i = 0; i < chain->transfer_count; i++) {
        const struct plan_transfer *transfer = &chain->transfers[i];
        if (transfer->parts)
            bytes[chain->bound.rail] +=
                parts_moved(plan, transfer) - transfer->counted_bytes - starts * transfer->bytes;
        for (uint32_t k = 0; k < plan_stripe_count(plan, transfer); k++) {
            const struct plan_transfer *stripe = plan_stripe(plan, transfer, k);
            bytes[stripe->rail] += starts * stripe->part_bytes;
            bytes[chain->bound.rail] -= starts * stripe->part_bytes;
        }
    }
}
