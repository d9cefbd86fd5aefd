/* From tcad's seat up to a pair (trial_seat.h). */
#include <errno.h>

#include "client/core/session.h"
#include "client/plan/pair.h"
#include "client/plan/trial_rails.h"
#include "client/plan/trial_seat_internal.h"

/* ---- below ---- */

void trial_rise_begin(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->pace = plan->flags & TCA_PLAN_TIMED ? PACE_MEASURED : PACE_HERE;
    trial->seat = trial->next = SEAT_DAEMON;
    trial->rails[TCAD] = plan->first_rail;
    trial->state = SEAT_BELOW;
}

/* The start before this one was the last that could use the chains of the pair that has ended. */
static void fall(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    plan_drop_chains(plan);
    trial->state = SEAT_BELOW;
    trial->rises = false;
    trial->late = 0;
    trial->below = true;
    seat_trial_ask(plan, SEAT_DAEMON, false);
}

/* ---- rising ---- */

static bool is_whole(const struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    if (!committed || committed->n_chains != plan->chain_count)
        return false;
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (committed->chains[i]->seat != SEAT_CLIENT || committed->chains[i]->rail == 0 ||
            committed->chains[i]->rail > plan->session->rails.count)
            return false;
    return true;
}

/* The start that runs, or else the next one, is held until all data has arrived. */
void trial_seat_paired(struct tca_plan *plan, const Tca__PlanCommitted *committed)
{
    struct seat_trial *trial = plan->seat_trial;
    if (!trial || trial->state != SEAT_BELOW || plan->broken || !is_whole(plan, committed))
        return;
    trial->below = false;
    trial->lost = plan_bind_pairs(plan, committed);
    if (trial->lost < 0)
        return; /* tcad goes on */
    trial_rails_end(plan);
    trial->offered = committed->seats;
    trial->rails[HERE] = committed->chains[0]->rail;
    trial->state = SEAT_ENDS;
    trial->rises = trial->begun = true;
    seat_trial_set_tries(plan, true);
}

void trial_rise_arrived(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    trial->rises = false;
    trial->next = SEAT_CLIENT;
    trial->state = SEAT_RISEN;
}

/* Called after the seat was taken. */
void trial_rise_start(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    switch (trial->state) {
    case SEAT_FELL:
        fall(plan);
        break;
    case SEAT_RISEN:
        trial->state = SEAT_PARTS;
        seat_trial_ask(plan, SEAT_CLIENT, false);
        return;
    default:
        break;
    }
    if (trial->state != SEAT_BELOW || trial->unsent)
        return;
    if (trial->begun)
        seat_trial_set_tries(plan, false);
    else if (plan->rail_trial)
        trial_rails_start(plan);
}

/* From now on it is as if it had been committed to the pair. */
bool trial_rise_parted(struct tca_plan *plan)
{
    struct seat_trial *trial = plan->seat_trial;
    if (trial->state == SEAT_BELOW && trial->lost == 0) /* there is nothing that could run here */
        trial->lost = -ENETDOWN;
    if (trial->state != SEAT_PARTS)
        return false;
    trial->starts = 0;
    trial->state = trial->offered && !seat_trial_is_needless(plan) ? SEAT_WAITS : SEAT_OVER;
    return true;
}
