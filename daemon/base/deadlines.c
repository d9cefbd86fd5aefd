#include "daemon/base/deadlines.h"

#include "proto/list.h"
#include "proto/wait.h"

/* ---- the heap ---- */

/* Of two that are in no list, either NULL. */
static struct deadline *merge(struct deadline *a, struct deadline *b)
{
    if (!a || !b)
        return a ? a : b;
    if (b->at_ns < a->at_ns) {
        struct deadline *swap = a;
        a = b;
        b = swap;
    }
    LIST_ADD(&a->child, b, next, link);
    return a;
}

/* Of the children of one that leaves: in pairs from the left, then these from the right. */
static struct deadline *merge_list(struct deadline *list)
{
    struct deadline *pairs = NULL, *all = NULL;
    while (list) {
        struct deadline *a = list, *b = a->next;
        list = b ? b->next : NULL;
        a->next = NULL;
        if (b)
            b->next = NULL;
        a = merge(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct deadline *next = pairs->next;
        pairs->next = NULL;
        all = merge(all, pairs);
        pairs = next;
    }
    return all;
}

static void set_first(struct deadlines *deadlines, struct deadline *first)
{
    deadlines->first = first;
    if (first)
        first->link = &deadlines->first;
}

static void take_out(struct deadlines *deadlines, struct deadline *deadline)
{
    LIST_REMOVE(deadline, next, link);
    set_first(deadlines, merge(deadlines->first, merge_list(deadline->child)));
    *deadline = (struct deadline){
        .at_ns = deadline->at_ns, .expired = deadline->expired, .context = deadline->context};
}

/* ---- the timer ---- */

static void set_timer(struct deadlines *deadlines, uint64_t now_ns)
{
    const struct deadline *first = deadlines->first;
    if (!first || first->at_ns == deadlines->timer_ns)
        return; /* a timer that is set too early does no harm */
    deadlines->timer_ns = first->at_ns;
    loop_timer_set(deadlines->timer, first->at_ns > now_ns ? first->at_ns - now_ns : 0, 0);
}

static void on_timer(void *context)
{
    struct deadlines *deadlines = context;
    const uint64_t now_ns = clock_now_ns();
    while (deadlines->first && deadlines->first->at_ns <= now_ns) {
        struct deadline *deadline = deadlines->first;
        take_out(deadlines, deadline);
        deadline->expired(deadline->context);
        if (loop_slice_over(deadlines->loop))
            break; /* the others have their turn first */
    }
    deadlines->timer_ns = UINT64_MAX;
    set_timer(deadlines, now_ns);
}

/* ---- life ---- */

int deadlines_init(struct deadlines *deadlines, struct loop *loop)
{
    *deadlines = (struct deadlines){.loop = loop, .timer_ns = UINT64_MAX};
    return loop_timer_new(loop, on_timer, deadlines, &deadlines->timer);
}

void deadlines_deinit(struct deadlines *deadlines)
{
    while (deadlines->first)
        take_out(deadlines, deadlines->first);
    deadlines->timer = loop_timer_free(deadlines->timer);
}

void deadline_clear(struct deadlines *deadlines, struct deadline *deadline)
{
    if (deadline->link)
        take_out(deadlines, deadline);
}

void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns,
                  void (*expired)(void *context), void *context)
{
    deadline_clear(deadlines, deadline);
    *deadline = (struct deadline){.at_ns = at_ns, .expired = expired, .context = context};
    if (at_ns == UINT64_MAX)
        return;
    set_first(deadlines, merge(deadlines->first, deadline));
    if (deadlines->first == deadline)
        set_timer(deadlines, clock_now_ns());
}

void deadline_advance(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns,
                      void (*expired)(void *context), void *context)
{
    if (!deadline->link || deadline->at_ns > at_ns)
        deadline_set(deadlines, deadline, at_ns, expired, context);
}
