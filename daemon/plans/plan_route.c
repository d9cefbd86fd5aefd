/* Chooses rail and seat of every chain by the cost model. The candidates are kept for
 * `tcactl plan explain`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "daemon/bindings/pairs.h"
#include "daemon/plans/plan_stripe.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/rails/nearness.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

static bool is_over_pair(struct route route)
{
    return route.seat == SEAT_CLIENT && route.rail != RAIL_SHM;
}

/* All routes of a chain, in the order of preference without calibration: each rail in the client's
 * seat, which to other nodes are those that serve pairs; then each in the daemon's. */
static bool route_at(const struct plan *plan, const struct plan_chain *chain, unsigned nth,
                     struct route *ret_route)
{
    const unsigned count = plan->tcad->rails->count;
    const bool local = plan_chain_is_local(plan, chain);
    for (unsigned i = 0; i < 2 * count; i++) {
        const struct route route = {i % count + 1, i < count ? SEAT_CLIENT : SEAT_DAEMON};
        if (is_over_pair(route) && (local || !pairs_served(plan->tcad, route.rail)))
            continue;
        *ret_route = route;
        if (nth-- == 0)
            return true;
    }
    return false;
}

unsigned plan_transfer_rail(const struct plan_transfer *transfer, unsigned rail)
{
    return transfer->combine == OPERATOR_REPLACE ? rail : RAIL_SHM;
}

struct cost_transfer plan_cost_transfer(const struct plan *plan,
                                        const struct plan_transfer *transfer, unsigned rail)
{
    struct cost_transfer moved = {.hops = fabric_hops(plan->tcad, rail, transfer->node)};
    if (plan_transfer_puts(transfer)) {
        const struct layout *a = transfer->source_layout, *b = transfer->target_layout;
        moved.bytes = a->size_bytes;
        moved.blocks = a->block_count > b->block_count ? a->block_count : b->block_count;
    }
    return moved;
}

static uint64_t predict(const struct plan *plan, const struct plan_chain *chain, struct route route)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < chain->transfer_count; i++) {
        const struct plan_transfer *transfer = &chain->transfers[i];
        const unsigned rail = plan_transfer_rail(transfer, route.rail);
        const struct cost_transfer moved = plan_cost_transfer(plan, transfer, rail);
        const uint64_t cost = cost_predict(&plan->tcad->costs.rails[rail].at[route.seat], &moved);
        if (cost == UINT64_MAX)
            return cost;
        total += cost;
    }
    return total;
}

/* Why a route is not possible; NULL: it is. whole: assume that every rail leads everywhere. */
static const char *why_not(const struct plan *plan, const struct plan_chain *chain,
                           struct route route, bool whole)
{
    static const char bound_elsewhere[] = "the chain is bound for the other seat";
    const struct tcad *tcad = plan->tcad;
    const char *why;
    if (plan->wanted_rails && !(plan->wanted_rails & 1u << route.rail))
        return "another rail was requested";
    if (plan->wanted_seat && plan->wanted_seat != route.seat)
        return "another seat was requested";
    if (engine_driver(tcad->engine, route.rail) && engine_driver_error(tcad->engine, route.rail))
        return "the rail's driver is broken here";
    if (is_over_pair(route)) {
        why = plan_pair_why_not(plan, chain, route.rail);
        return why                                                                 ? why
               : chain->bound.seat != SEAT_NONE && chain->bound.seat != route.seat ? bound_elsewhere
                                                                                   : NULL;
    }
    for (uint32_t i = 0; i < chain->transfer_count; i++) {
        const struct plan_transfer *transfer = &chain->transfers[i];
        const unsigned rail = plan_transfer_rail(transfer, route.rail);
        why = links_why_not(tcad, rail, transfer->node);
        if (why)
            return why;
        if (!whole && !plan_demands_one(plan) && !fabric_reaches(tcad, rail, transfer->node))
            return "no cable leads to the node at present (tcactl topology)";
        if (route.seat == SEAT_DAEMON && transfer->rails && !(transfer->rails & (1u << rail)))
            return "the target's node does not have it";
        if (route.seat == SEAT_DAEMON && transfer->source && transfer->source->refused & 1u << rail)
            return "its device cannot register the source's memory (dmabuf)";
        if (!whole && transfer->lost & ~transfer->back & (1u << rail))
            return "was lost, and has not been back for long enough (rails.return_after)";
    }
    if (chain->bound.seat != SEAT_NONE && chain->bound.seat != route.seat)
        return bound_elsewhere;
    return engine_driver(tcad->engine, route.rail)
               ? NULL
               : links_why_not(tcad, route.rail, tcad->node); /* a chain that only waits */
}

const char *plan_other_rails(const struct plan *plan, uint32_t node, char text[PLAN_OTHERS_BYTES])
{
    const struct tcad *tcad = plan->tcad;
    size_t used = 0;
    text[0] = '\0';
    for (unsigned rail = 1; plan->wanted_rails && rail <= tcad->rails->last; rail++) {
        if (plan->wanted_rails & 1u << rail || !links_possible(tcad, rail, node) ||
            (links_know(tcad->links, node) && !links_exists(tcad->links, node, rail)))
            continue;
        int n = snprintf(text + used, PLAN_OTHERS_BYTES - used, "%s%s",
                         used ? ", " : "; but there is ", rail_name(tcad, rail));
        used += n > 0 && (size_t)n < PLAN_OTHERS_BYTES - used ? (size_t)n : 0;
    }
    return text;
}

/* The node of the first target of the chain; its own, if it has none. */
static uint32_t node_of(const struct plan *plan, const struct plan_chain *chain)
{
    return chain->transfer_count > 0 ? chain->transfers->node : plan->tcad->node;
}

/* Fails the plan, with the reason why each requested route is not possible. */
static int no_way(struct plan *plan, const struct plan_chain *chain)
{
    const char *remedy = "";
    char text[400] = "", others[PLAN_OTHERS_BYTES];
    size_t used = 0;
    for (uint32_t i = 0; i < chain->candidate_count; i++) {
        const struct plan_candidate *candidate = &chain->candidates[i];
        if ((plan->wanted_rails && !(plan->wanted_rails & 1u << candidate->route.rail)) ||
            (plan->wanted_seat && candidate->route.seat != plan->wanted_seat) ||
            is_over_pair(candidate->route))
            continue;
        if (*rail_at(plan->tcad, candidate->route.rail)->remedy)
            remedy = rail_at(plan->tcad, candidate->route.rail)->remedy;
        int n = snprintf(text + used, sizeof(text) - used, "%s%s in the %s's seat: %s",
                         used ? "; " : "", rail_name(plan->tcad, candidate->route.rail),
                         seat_name(candidate->route.seat), candidate->why);
        used += n > 0 && (size_t)n < sizeof(text) - used ? (size_t)n : 0;
    }
    return plan_fail(plan, -ENETDOWN, "chain %u: no rail%s leads to its targets: %s%s%s%s",
                     (unsigned)(chain - plan->chains),
                     plan->wanted_rails ? " that the plan may use" : "",
                     used ? text : "no rail has the requested seat", *remedy ? "; " : "", remedy,
                     plan_other_rails(plan, node_of(plan, chain), others));
}

/* Within the node nothing is faster than load and store, so preferences apply to other nodes
 * only. */
static bool is_preferred(const struct plan *plan, const struct plan_chain *chain, unsigned rail)
{
    return plan->preferred_rails & 1u << rail && !plan_chain_is_local(plan, chain);
}

/* Where the plan's process runs; asked once, when it matters. */
static int place_of(const struct plan *plan)
{
    struct session *session = plan->session;
    if (!session->located)
        session->place = nearness_process(plan->tcad->rails->nearness, session->pid);
    session->located = true;
    return session->place;
}

static struct nearness_choice choice_of(const struct plan *plan, unsigned rail,
                                        uint64_t predicted_ns)
{
    return (struct nearness_choice){
        .distance = rail_distance(plan->tcad, rail, place_of(plan)),
        .predicted_ns = predicted_ns,
    };
}

/* Compares two possible routes by when the chain would end. A calibrated one is better than one
 * that is not; of two that are not, the earlier one is. Of two rails of one driver, the one near
 * the process is. */
static bool is_better(const struct plan *plan, const struct plan_chain *chain, unsigned rail,
                      uint64_t predicted_ns, unsigned than, uint64_t than_ns)
{
    const bool preferred = is_preferred(plan, chain, rail);
    if (rail != than && (rail == chain->asked.rail || than == chain->asked.rail))
        return rail == chain->asked.rail;
    if (preferred != is_preferred(plan, chain, than))
        return preferred;
    if (plan->tcad->rails->nearness && rail != than &&
        rail_at(plan->tcad, rail)->driver == rail_at(plan->tcad, than)->driver)
        return nearness_prefers(choice_of(plan, rail, predicted_ns),
                                choice_of(plan, than, than_ns));
    return predicted_ns < than_ns;
}

static uint64_t put_over(const struct plan *plan, const struct plan_chain *except, unsigned rail)
{
    uint64_t total_ns = 0;
    for (uint32_t i = 0; i < plan->chain_count; i++) {
        const struct plan_chain *chain = &plan->chains[i];
        if (chain != except && chain->bound.seat == SEAT_DAEMON && chain->bound.rail == rail &&
            chain->predicted_ns != UINT64_MAX && !plan_chain_is_local(plan, chain))
            total_ns += chain->predicted_ns;
    }
    return total_ns;
}

/* How long plans that start together with this one (tca_plan_args.together) keep the rail busy: a
 * chain takes the rail over which it ends first, behind what the others put there. */
static uint64_t behind_of(const struct plan *plan, const struct plan_chain *chain, unsigned rail)
{
    uint64_t total_ns = 0;
    if (!plan->together || !plan->session || plan_chain_is_local(plan, chain))
        return 0;
    for (const struct plan *other = plan->session->plan_list; other; other = other->next_of_session)
        if (other->together == plan->together && !other->release_asked)
            total_ns += put_over(other, chain, rail);
    return total_ns;
}

/* When the chain ends, from the start of all plans that start together with it. */
static uint64_t end_of(uint64_t predicted_ns, uint64_t behind_ns)
{
    return predicted_ns == UINT64_MAX ? UINT64_MAX : predicted_ns + behind_ns;
}

/* The best rail in the chain's seat. */
static unsigned best_rail(const struct plan *plan, const struct plan_chain *chain, bool whole)
{
    unsigned best = chain->bound.rail;
    uint64_t best_ns = UINT64_MAX;
    bool any = false;
    struct route route;
    if (chain->direct && chain->bound.seat == SEAT_CLIENT)
        return best;
    for (unsigned i = 0; route_at(plan, chain, i, &route); i++) {
        if (route.seat != chain->bound.seat || why_not(plan, chain, route, whole))
            continue;
        uint64_t ns = end_of(predict(plan, chain, route), behind_of(plan, chain, route.rail));
        if (!any || is_better(plan, chain, route.rail, ns, best, best_ns)) {
            best = route.rail;
            best_ns = ns;
        }
        any = true;
    }
    return best;
}

unsigned plan_best_rail(const struct plan *plan, const struct plan_chain *chain)
{
    return best_rail(plan, chain, false);
}

unsigned plan_wanted_rail(const struct plan *plan, const struct plan_chain *chain)
{
    return best_rail(plan, chain, true);
}

unsigned plan_rails_to_try(const struct plan *plan, const struct plan_chain *chain)
{
    uint64_t predicted_ns[RAIL_SLOTS], best_ns = UINT64_MAX;
    unsigned possible = 0, worth = 0;
    struct route route;
    if (!plan->tries || chain->bound.seat != SEAT_DAEMON || plan_chain_is_local(plan, chain))
        return 0;
    for (unsigned i = 0; route_at(plan, chain, i, &route); i++) {
        if (route.seat != SEAT_DAEMON || why_not(plan, chain, route, false))
            continue;
        possible |= 1u << route.rail;
        predicted_ns[route.rail] = predict(plan, chain, route);
        best_ns = predicted_ns[route.rail] < best_ns ? predicted_ns[route.rail] : best_ns;
    }
    for (unsigned rail = 1; rail <= plan->tcad->rails->last; rail++)
        if (possible & 1u << rail && cost_worth_trying(predicted_ns[rail], best_ns))
            worth |= 1u << rail;
    return worth & (worth - 1) ? worth : 0;
}

/* The hops of the put that goes farthest. */
static unsigned hops_of(const struct plan *plan, const struct plan_chain *chain, unsigned rail)
{
    unsigned most = 0;
    for (uint32_t i = 0; i < chain->transfer_count; i++) {
        const struct plan_transfer *transfer = &chain->transfers[i];
        unsigned hops = fabric_hops(plan->tcad, plan_transfer_rail(transfer, rail), transfer->node);
        most = hops > most ? hops : most;
    }
    return most;
}

/* Whether another rail would be faster if this plan started alone. */
static bool gives_way(const struct plan_chain *chain, const struct plan_candidate *best)
{
    for (uint32_t i = 0; i < chain->candidate_count; i++) {
        const struct plan_candidate *other = &chain->candidates[i];
        if (other->possible && other->predicted_ns < best->predicted_ns &&
            end_of(other->predicted_ns, other->behind_ns) >
                end_of(best->predicted_ns, best->behind_ns))
            return true;
    }
    return false;
}

static const char *why_best(const struct plan *plan, const struct plan_chain *chain,
                            const struct plan_candidate *best)
{
    if (chain->asked.seat == best->route.seat && !plan_chain_is_local(plan, chain))
        return "fastest by trial";
    if (chain->asked.rail && best->route.rail == chain->asked.rail)
        return chain->found ? "fastest by trial" : "being tried";
    if (is_preferred(plan, chain, best->route.rail))
        return "preferred by the program";
    if (gives_way(chain, best))
        return "ends first, behind what starts together with it";
    if (plan->wanted_rails || plan->wanted_seat)
        return "requested";
    if (is_over_pair(best->route))
        return "the processes have a connection of their own";
    return best->predicted_ns == UINT64_MAX ? "the first possible one; nothing was calibrated"
                                            : "lowest predicted cost";
}

/* Why another candidate was not chosen; "": candidate->why already says so. */
static const char *why_other(const struct plan_chain *chain, const struct plan_candidate *candidate,
                             const struct plan_candidate *best)
{
    if (candidate->possible && chain->asked.rail && best->route.rail == chain->asked.rail)
        return chain->found ? "slower by trial, or hopeless by predicted cost"
                            : "another rail is being tried";
    if (!candidate->possible || candidate->predicted_ns == UINT64_MAX)
        return "";
    if (candidate->predicted_ns < best->predicted_ns &&
        end_of(candidate->predicted_ns, candidate->behind_ns) >
            end_of(best->predicted_ns, best->behind_ns))
        return "lower predicted cost, but ends later, behind what starts together with it";
    return candidate->predicted_ns < best->predicted_ns
               ? "lower predicted cost, but another rail is preferred or nearer"
               : "higher predicted cost";
}

static void explain(const struct plan *plan, struct plan_chain *chain,
                    const struct plan_candidate *best)
{
    for (uint32_t i = 0; i < chain->candidate_count; i++) {
        struct plan_candidate *candidate = &chain->candidates[i];
        const char *why =
            candidate == best ? why_best(plan, chain, best) : why_other(chain, candidate, best);
        if (*why)
            candidate->why = why;
    }
}

void plan_explain_again(const struct plan *plan, struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->candidate_count; i++)
        if (chain->candidates[i].chosen)
            explain(plan, chain, &chain->candidates[i]);
}

static bool has_possible(const struct plan_chain *chain)
{
    for (uint32_t i = 0; i < chain->candidate_count; i++)
        if (chain->candidates[i].possible)
            return true;
    return false;
}

bool plan_route_consider(struct plan *plan, struct plan_chain *chain, unsigned nth)
{
    struct route route;
    if (nth == 0)
        chain->candidate_count = 0;
    if (!route_at(plan, chain, nth, &route))
        return false;
    /* To another node, tcad's seat is taken unless the client's is better; its routes are known
     * when the chain is bound there. */
    if (chain->bound.seat == SEAT_NONE && route.seat == SEAT_DAEMON && !has_possible(chain) &&
        !plan_chain_is_local(plan, chain))
        return false;
    struct plan_candidate *candidate = &chain->candidates[chain->candidate_count++];
    const char *why = why_not(plan, chain, route, false);
    *candidate = (struct plan_candidate){
        .route = route,
        .predicted_ns = predict(plan, chain, route),
        .possible = !why,
        .behind_ns = behind_of(plan, chain, route.rail),
        .hops = hops_of(plan, chain, route.rail),
    };
    candidate->why = why ? why : candidate->predicted_ns == UINT64_MAX ? "not calibrated" : "";
    return true;
}

static bool is_better_candidate(const struct plan *plan, const struct plan_chain *chain,
                                const struct plan_candidate *candidate,
                                const struct plan_candidate *than)
{
    return is_better(plan, chain, candidate->route.rail,
                     end_of(candidate->predicted_ns, candidate->behind_ns), than->route.rail,
                     end_of(than->predicted_ns, than->behind_ns));
}

static struct plan_candidate *best_of(const struct plan *plan, struct plan_chain *chain)
{
    struct plan_candidate *best = NULL;
    for (uint32_t i = 0; i < chain->candidate_count; i++) {
        struct plan_candidate *candidate = &chain->candidates[i];
        if (candidate->possible && (!best || is_better_candidate(plan, chain, candidate, best)))
            best = candidate;
    }
    return best;
}

static void take(const struct plan *plan, struct plan_chain *chain, struct plan_candidate *best)
{
    best->chosen = true;
    explain(plan, chain, best);
    chain->bound.rail = best->route.rail;
    chain->bound.seat = best->route.seat;
    chain->predicted_ns = best->predicted_ns;
}

int plan_route_choose(struct plan *plan, struct plan_chain *chain)
{
    struct plan_candidate *best = best_of(plan, chain);
    if (!best)
        return no_way(plan, chain);
    take(plan, chain, best);
    return 0;
}

int plan_seat_choose(struct plan *plan, struct plan_chain *chain)
{
    struct plan_candidate *best = best_of(plan, chain);
    if (best && best->route.seat == SEAT_CLIENT) {
        take(plan, chain, best);
        chain->wanted.rail = chain->pair_rail = chain->bound.rail;
        chain->direct = true;
        return 0;
    }
    if (plan->wanted_seat == SEAT_CLIENT)
        return plan_no_pair(plan, chain);
    chain->bound.seat = SEAT_DAEMON;
    chain->bound.rail = RAIL_NONE; /* plan_route_choose() decides after the replies; targets on this
                                      node are prepared for any rail */
    return 0;
}

unsigned plan_pair_rail(const struct plan *plan, const struct plan_chain *chain)
{
    const struct tcad *tcad = plan->tcad;
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        if (rail != RAIL_SHM && pairs_served(tcad, rail) && !plan->wanted_seat &&
            !plan_pair_why_not(plan, chain, rail))
            return rail;
    return 0;
}

int plan_route(struct plan *plan, struct plan_chain *chain)
{
    unsigned routes = 0;
    while (plan_route_consider(plan, chain, routes))
        routes++;
    return plan_route_choose(plan, chain);
}

int plan_take_link(struct plan *plan, struct plan_transfer *transfer, unsigned rail)
{
    struct engine *engine = plan_engine(plan);
    transfer->link = link_get(plan->tcad->links, transfer->node, rail, engine);
    if (!transfer->link)
        return plan_fail(plan, -ENETDOWN, "node %" PRIu32 " is no longer on rail %s",
                         transfer->node, rail_name(plan->tcad, rail));
    transfer->held = transfer->source ? link_held_new() : NULL;
    if (transfer->source && !transfer->held)
        return plan_fail(plan, -ENOMEM, "no memory for the puts of chain %" PRIu32,
                         transfer->chain);
    transfer->driver = engine_driver(engine, rail);
    return 0;
}

int plan_take_links(struct plan *plan, const struct plan_chain *chain, uint32_t from,
                    uint32_t count)
{
    for (uint32_t i = from; i < from + count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        struct plan_transfer *transfer = &plan->transfers[chain->steps[i].transfer];
        int r = plan_take_link(plan, transfer, plan_transfer_rail(transfer, chain->bound.rail));
        if (r == 0)
            r = plan_take_stripes(plan, transfer);
        if (r < 0)
            return r;
    }
    return 0;
}
