#include "client/plan/repeat.h"

#include <errno.h>

#include "client/core/error.h"
#include "client/plan/progress.h"

int repeat_check(const struct tca_plan *plan)
{
    if (!(plan->flags & TCA_PLAN_REPEAT))
        return 0;
    if (plan->chain_count == 0)
        return error_static(-EINVAL, "a repeating plan without steps would never wait");
    for (uint32_t i = 0; i < plan->chain_count; i++)
        if (plan->steps[plan->chain_first[i]].kind != STEP_WAIT)
            return error_set(-EINVAL,
                             "chain %u of a repeating plan begins with a put or a notification: "
                             "each chain must begin with a wait",
                             i);
    return 0;
}

bool repeat_begin(struct tca_plan *plan)
{
    if (plan->status == 0 && !plan->cut)
        plan->rounds++;
    if (plan->status == 0 && plan->broken)
        plan->status = plan->broken;
    if (plan->status < 0 || plan->stopping)
        return false;
    for (uint32_t i = 0; i < plan->client_count; i++) {
        int r = chain_start(plan->chains[i]);
        if (r == 0)
            plan->client_left |= 1ull << i;
        else
            plan_note_error(plan, r);
    }
    return true;
}

void repeat_cut(struct tca_plan *plan)
{
    for (uint64_t left = plan->client_left; left; left &= left - 1) {
        struct chain *chain = plan->chains[__builtin_ctzll(left)];
        if (!chain_at_first_wait(chain))
            continue;
        chain_unstart(chain);
        plan->client_left &= ~(left & -left);
        plan->cut = true;
    }
}

int tca_plan_stop(struct tca_plan *plan)
{
    char name[PLAN_TEXT_BYTES];
    if (!(plan->flags & TCA_PLAN_REPEAT))
        return error_set(-EINVAL, "%s does not repeat (TCA_PLAN_REPEAT)", plan_text(plan, name));
    if (plan->state != PLAN_RUNNING || plan->stopping)
        return 0;
    int r = plan->client_count > 0 ? 0 : plan_order(plan, SUBMIT_STOP);
    if (r < 0)
        return r;
    plan->stopping = true;
    repeat_cut(plan);
    session_progress(plan->session);
    return 0;
}

uint64_t tca_plan_rounds(struct tca_plan *plan)
{
    if (!(plan->flags & TCA_PLAN_REPEAT) || plan->state == PLAN_BUILDING)
        return 0;
    if (plan->state == PLAN_RUNNING)
        session_progress(plan->session);
    /* acquire: pairs with the daemon's release: what the rounds have put here is visible */
    return plan->client_count > 0 ? plan->rounds
                                  : atomic_load_explicit(&plan->session->segment->rounds[plan->id],
                                                         memory_order_acquire);
}
