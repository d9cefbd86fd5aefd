/* Pairs that end: the driver loses the connection, or tcad reports an end. Plans that put over them
 * break, unless tcad puts for them now. */
#include <errno.h>

#include "client/core/session.h"
#include "client/plan/pair_internal.h"
#include "client/plan/plan.h"
#include "client/plan/progress.h"
#include "client/plan/trial_route.h"

/* ---- plans ---- */

static bool puts_over(const struct tca_plan *plan, const struct pair *pair)
{
    for (uint32_t i = 0; i < plan->unit_count; i++)
        if (plan->units[i].pair == pair)
            return true;
    return false;
}

bool pair_is_used(const struct tca *session, const struct pair *pair)
{
    for (const struct tca_plan *plan = session->plans; plan; plan = plan->next)
        if (puts_over(plan, pair))
            return true;
    return false;
}

void pair_break_plans(struct tca *session, const struct pair *pair, bool lossy, const char *text)
{
    for (struct tca_plan *plan = session->plans; plan; plan = plan->next) {
        if (!puts_over(plan, pair) || trial_route_goes_on(plan, pair->error))
            continue;
        plan->lossy |= lossy;
        plan_break(plan, pair->error, text);
    }
}

/* ---- the driver has lost it ---- */

/* The next plan gets another one. */
void pair_lose(struct tca *session, struct pair *pair, int error)
{
    pair->error = pair->error ? pair->error : error;
    pair->report = PAIR_GIVEN_UP;
    session->pairs->reports = session->pairs->news = pair->down = true;
}

static void break_plans(struct tca *session, struct pair *pair)
{
    if (pair->lost)
        pair_break_plans(session, pair, true,
                         "the connection to its receiver was lost, and puts of completed "
                         "starts may not have arrived");
    if (pair->down)
        pair_break_plans(session, pair, false, "the connection to its receiver was lost");
    pair->lost = pair->down = false;
}

void pairs_take_news(struct tca *session)
{
    session->pairs->news = false;
    for (struct pair *pair = session->pairs->pairs; pair; pair = pair->next)
        break_plans(session, pair);
}

void pair_gone(struct tca *session, struct pair *pair, const char *text)
{
    if (pair->error == -ENETDOWN)
        break_plans(session, pair);
    pair->lost = pair->down = false;
    pair_break_plans(session, pair, false, text);
}
