/* Describes the steps of a chain for order.h, and applies the result. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/plans/order.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"

#define ROUTE_OF_REDUCTIONS UINT64_MAX          /* on shm, in a chain on another rail */
#define ROUTES_OF_STRIPED   (UINT64_C(1) << 32) /* behind those to nodes: one for each such put */

enum { STEPS_AT_ONCE = 2048 }; /* ordered on the loop: some 10 ms at worst */

/* Memory of a node is identified by its addresses: regions have different ones, unless a process
 * has attached the same memory twice. (Equal addresses in two processes count as the same memory,
 * too, which only costs a needless wait.) */
static void add_bytes(const struct plan *plan, const struct plan_transfer *transfer,
                      struct order_step *step)
{
    step->source = (struct order_bytes){.space = plan->tcad->node,
                                        .base = transfer->source->address + transfer->source_offset,
                                        .layout = transfer->source_layout};
    step->target = (struct order_bytes){.space = transfer->node,
                                        .base = transfer->address + transfer->handle.offset_bytes +
                                                transfer->target_offset,
                                        .layout = transfer->target_layout};
}

/* The client puts to each process of this node in order. The receiver may copy data for memory that
 * is not the client's own later. */
static void in_clients_seat(const struct plan *plan, const struct plan_transfer *transfer,
                            struct order_step *step)
{
    step->route = transfer->has_target ? transfer->owner : transfer->notify_session;
    step->lands = transfer->owner == plan->session_id;
    step->keeps = true;
}

/* Over shared memory all puts are copied one by one. Other drivers complete a put when its source
 * is free; gathered and short puts may be copied to their targets there later than the puts after
 * them. */
static void in_daemons_seat(const struct plan *plan, const struct plan_chain *chain,
                            const struct plan_transfer *transfer, struct order_step *step)
{
    const unsigned rail = plan_transfer_rail(transfer, chain->bound.rail);
    const struct driver_caps *caps = engine_driver_caps(plan->tcad->engine, rail);
    const bool ordered = caps->ordered;
    const bool plain = plan_transfer_puts(transfer) && !transfer->parts &&
                       transfer->stripe_room == 0 &&
                       transfer->source_layout->size_bytes > caps->inline_bytes &&
                       layout_is_contiguous(transfer->source_layout) &&
                       layout_is_contiguous(transfer->target_layout);
    step->route = transfer->stripe_room > 0   ? ROUTES_OF_STRIPED + transfer->step
                  : rail == chain->bound.rail ? transfer->node
                                              : ROUTE_OF_REDUCTIONS;
    step->lands = rail == RAIL_SHM || (!ordered && plain);
    step->keeps = rail == RAIL_SHM || (ordered && plain);
}

static void add_step(const struct plan *plan, const struct plan_chain *chain,
                     const struct plan_transfer *transfer, struct order_step *step)
{
    step->put = plan_transfer_puts(transfer);
    step->notify = transfer->notify || transfer->signal;
    if (step->put)
        add_bytes(plan, transfer, step);
    if (chain->bound.seat == SEAT_CLIENT && !chain->direct)
        in_clients_seat(plan, transfer, step);
    else
        in_daemons_seat(plan, chain, transfer, step);
}

static void take_answer(struct plan_transfer *transfer, const struct order_step *step)
{
    transfer->order = (struct plan_order){.waits = step->waits,
                                          .all_landed = step->all_landed,
                                          .landed = {step->landed[0], step->landed[1]},
                                          .after = step->after};
    transfer->fence = step->waits;
}

static int order_chain(struct plan *plan, const struct plan_chain *chain)
{
    const bool client = chain->bound.seat == SEAT_CLIENT;
    struct order_rules rules = {
        .ordered = client || engine_driver_caps(plan->tcad->engine, chain->bound.rail)->ordered,
        .serial = chain->bound.rail == RAIL_SHM,
    };
    struct order_step *steps = calloc(chain->step_count, sizeof(*steps));
    for (uint32_t i = 0; steps && i < chain->step_count; i++) {
        if (chain->steps[i].is_wait)
            continue;
        add_step(plan, chain, &plan->transfers[chain->steps[i].transfer], &steps[i]);
        rules.crossing |= steps[i].route >= ROUTES_OF_STRIPED;
    }
    int r = steps ? order_steps(&rules, steps, chain->step_count) : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < chain->step_count; i++)
        if (!chain->steps[i].is_wait)
            take_answer(&plan->transfers[chain->steps[i].transfer], &steps[i]);
    free(steps);
    return r < 0 ? plan_fail(plan, r, "no memory to order a chain of %" PRIu32 " steps",
                             chain->step_count)
                 : 0;
}

int plan_order_soon(struct plan *plan, struct plan_chain *chain)
{
    chain->unordered = chain->step_count > STEPS_AT_ONCE;
    return chain->unordered ? 0 : order_chain(plan, chain);
}

int plan_order_rest(struct plan *plan)
{
    int r = 0;
    for (uint32_t i = 0; i < plan->chain_count && r == 0; i++) {
        struct plan_chain *chain = &plan->chains[i];
        r = chain->unordered ? order_chain(plan, chain) : 0;
        chain->unordered = false;
    }
    return r;
}
