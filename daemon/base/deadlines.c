#include "daemon/base/deadlines.h"

#include <stddef.h>

#include "proto/wait.h"

static struct deadline *first_of(const struct deadlines *deadlines)
{
    struct heap_node *first = deadlines->heap.first;
    return first ? (struct deadline *)((char *)first - offsetof(struct deadline, node)) : NULL;
}

/* ---- the timer ---- */

static void set_timer(struct deadlines *deadlines, uint64_t now_ns)
{
    const struct heap_node *first = deadlines->heap.first;
    if (!first || first->key == deadlines->timer_ns)
        return; /* a timer that is set too early does no harm */
    deadlines->timer_ns = first->key;
    loop_timer_set(deadlines->timer, first->key > now_ns ? first->key - now_ns : 0, 0);
}

static void on_timer(void *context)
{
    struct deadlines *deadlines = context;
    const uint64_t now_ns = clock_now_ns();
    struct deadline *deadline;
    while ((deadline = first_of(deadlines)) && deadline->node.key <= now_ns) {
        heap_remove(&deadlines->heap, &deadline->node);
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
    while (deadlines->heap.first)
        heap_remove(&deadlines->heap, deadlines->heap.first);
    deadlines->timer = loop_timer_free(deadlines->timer);
}

void deadline_clear(struct deadlines *deadlines, struct deadline *deadline)
{
    if (deadline->node.link)
        heap_remove(&deadlines->heap, &deadline->node);
}

void deadline_set(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns,
                  void (*expired)(void *context), void *context)
{
    deadline_clear(deadlines, deadline);
    *deadline = (struct deadline){.expired = expired, .context = context};
    if (at_ns == UINT64_MAX)
        return;
    heap_add(&deadlines->heap, &deadline->node, at_ns);
    if (deadlines->heap.first == &deadline->node)
        set_timer(deadlines, clock_now_ns());
}

void deadline_advance(struct deadlines *deadlines, struct deadline *deadline, uint64_t at_ns,
                      void (*expired)(void *context), void *context)
{
    if (!deadline->node.link || deadline->node.key > at_ns)
        deadline_set(deadlines, deadline, at_ns, expired, context);
}
