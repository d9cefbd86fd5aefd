/* Starts that wait for notifications: their lists, what advances them, and their order. */
#include "daemon/engine/engine_internal.h"

static void unlist(struct engine_plan *plan)
{
    struct engine_session *session = plan->session;
    if (session->look == plan)
        session->look = plan->next;
    *(plan->previous ? &plan->previous->next : &plan->list->first) = plan->next;
    *(plan->next ? &plan->next->previous : &plan->list->last) = plan->previous;
}

void engine_plan_list(struct engine_plan *plan, struct engine_plan_list *list)
{
    if (plan->list)
        unlist(plan);
    plan->list = list;
    if (!list)
        return;
    plan->next = NULL;
    plan->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = plan;
    list->last = plan;
}

void engine_plan_wake(struct engine_plan *plan)
{
    if (plan->list)
        engine_plan_list(plan, &plan->session->running);
}

static bool waits_for(const struct engine_plan *plan, const struct notify_line *line)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        if (chain_waits_for(plan->chains[__builtin_ctzll(left)], line))
            return true;
    return false;
}

static bool earlier_waits(const struct engine_plan_list *list, const struct engine_plan *plan,
                          const struct notify_line *line)
{
    for (const struct engine_plan *other = list->first; other; other = other->next)
        if (other->number < plan->number && waits_for(other, line))
            return true;
    return false;
}

/* Only called when enough notifications have arrived. */
bool engine_plan_may_take(void *context, const struct chain_step *step)
{
    const struct engine_plan *plan = context;
    const struct engine_session *session = plan->session;
    return !earlier_waits(&session->waiting, plan, step->wait.line) &&
           !earlier_waits(&session->running, plan, step->wait.line);
}

bool engine_plan_idle(const struct engine_plan *plan)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        if (!chain_idle(plan->chains[__builtin_ctzll(left)]))
            return false;
    return true;
}

bool engine_plan_ready(const struct engine_plan *plan)
{
    if (plan->again)
        return true;
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        if (chain_ready(plan->chains[__builtin_ctzll(left)]))
            return true;
    return false;
}
