/* Starts that wait for notifications: where, what advances them, and their order. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "daemon/engine/engine_internal.h"
#include "proto/notify.h"

/* ---- the two lists ---- */

static void unlist(struct engine_plan *plan)
{
    struct engine_session *session = plan->session;
    if (session->turn == plan)
        session->turn = plan->next;
    *(plan->previous ? &plan->previous->next : &plan->list->first) = plan->next;
    *(plan->next ? &plan->next->previous : &plan->list->last) = plan->previous;
}

void engine_plan_list(struct engine_plan *plan, struct engine_plan_list *list)
{
    struct engine_session *session = plan->session;
    if (plan->list)
        unlist(plan);
    plan->list = list;
    if (!list)
        return;
    plan->next = NULL;
    plan->previous = list->last;
    *(list->last ? &list->last->next : &list->first) = plan;
    list->last = plan;
    if (list == &session->running && !session->turn)
        session->turn = plan; /* the last one that this round runs */
}

void engine_plan_wake(struct engine_plan *plan)
{
    if (plan->list)
        engine_plan_list(plan, &plan->session->running);
}

bool engine_plan_idle(const struct engine_plan *plan)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        if (!chain_idle(plan->chains[__builtin_ctzll(left)]))
            return false;
    return true;
}

/* ---- lines ---- */

int engine_session_reserve_line(struct engine_session *session, uint32_t line)
{
    enum { ROOM_MIN = 16 };
    uint32_t room = session->line_room ? session->line_room : ROOM_MIN;
    if (line < session->line_room)
        return 0;
    while (room <= line)
        room *= 2;
    struct engine_line *lines = reallocarray(session->lines, room, sizeof(*lines));
    if (!lines)
        return -ENOMEM;
    session->lines = lines;
    for (uint32_t i = 0; i < room; i++)
        if (i < session->line_room)
            heap_moved(&lines[i].waits);
        else
            lines[i] = (struct engine_line){0};
    session->line_room = room;
    return 0;
}

static struct engine_line *line_of(const struct engine_session *session,
                                   const struct notify_line *line)
{
    const size_t number = (size_t)(line - notify_line_at(session->notify, 0));
    assert(number < session->line_room);
    return &session->lines[number];
}

static struct engine_plan *first_plan(const struct engine_line *line)
{
    struct heap_node *first = line->waits.first;
    return first
               ? ((struct engine_wait *)((char *)first - offsetof(struct engine_wait, node)))->plan
               : NULL;
}

/* Whether notifications for one of its chains have arrived. */
static bool is_ready(const struct engine_plan *plan)
{
    for (uint64_t left = plan->unfinished; left; left &= left - 1)
        if (chain_ready(plan->chains[__builtin_ctzll(left)]))
            return true;
    return false;
}

/* Something has arrived, or another start has gone on: the first one of those that wait here may be
 * able to go on. */
static void look(struct engine_session *session, const struct engine_line *line)
{
    struct engine_plan *plan = first_plan(line);
    if (!plan || !is_ready(plan))
        return;
    session->ready = true;
    if (plan->list == &session->waiting)
        engine_plan_wake(plan);
}

static void leave_line(struct engine_session *session, struct engine_line *line,
                       struct engine_wait *wait)
{
    const bool was_first = line->waits.first == &wait->node;
    heap_remove(&line->waits, &wait->node);
    wait->line = NULL;
    if (was_first)
        look(session, line);
}

void engine_plan_wait_at(struct engine_plan *plan, uint32_t chain, const struct notify_line *line)
{
    struct engine_session *session = plan->session;
    struct engine_wait *wait = &plan->waits[chain];
    if (wait->line == line)
        return;
    if (wait->line)
        leave_line(session, line_of(session, wait->line), wait);
    if (!line)
        return;
    struct engine_line *at = line_of(session, line);
    wait->plan = plan;
    wait->line = line;
    heap_add(&at->waits, &wait->node, plan->number);
    if (at->watched)
        return; /* what arrives now will be marked */
    at->watched = true;
    notify_watch(notify_line_at(session->notify, (uint32_t)(at - session->lines)), NOTIFY_ENGINE);
    look(session, at);
}

void engine_plan_unstart_chain(struct engine_plan *plan, uint32_t chain)
{
    chain_unstart(plan->chains[chain]);
    engine_plan_wait_at(plan, chain, NULL);
}

/* Only called when enough notifications have arrived. */
bool engine_plan_may_take(void *context, const struct chain_step *step)
{
    const struct engine_plan *plan = context;
    const struct heap_node *first = line_of(plan->session, step->wait.line)->waits.first;
    return !first || first->key >= plan->number;
}

/* ---- marks ---- */

enum { LINES_PER_WORD = NOTIFY_MARK_BITS * NOTIFY_MARK_BITS };

/* The words of words, of lines that starts can wait for. */
static uint32_t count_words(const struct engine_session *session)
{
    return (session->line_room + LINES_PER_WORD - 1) / LINES_PER_WORD;
}

bool engine_session_marked(const struct engine_session *session)
{
    const struct notify_marks *marks = notify_marks(session->notify, NOTIFY_ENGINE);
    for (uint32_t i = 0; i < count_words(session); i++)
        if (atomic_load(&marks->words[i]) != 0)
            return true;
    return false;
}

static void take_word(struct engine_session *session, _Atomic uint64_t *word, uint32_t first)
{
    for (uint64_t bits = atomic_exchange(word, 0); bits; bits &= bits - 1) {
        const uint32_t line = first + (uint32_t)__builtin_ctzll(bits);
        if (line < session->line_room)
            look(session, &session->lines[line]);
    }
}

/* Peers can mark what they like: takes the marks of 4,096 lines; others have their turn in the next
 * round. */
void engine_session_take_marks(struct engine_session *session)
{
    struct notify_marks *marks = notify_marks(session->notify, NOTIFY_ENGINE);
    const uint32_t count = count_words(session);
    for (uint32_t k = 0; k < count; k++) {
        const uint32_t i = session->word = (session->word + 1) % count;
        if (atomic_load_explicit(&marks->words[i], memory_order_relaxed) == 0)
            continue;
        for (uint64_t bits = atomic_exchange(&marks->words[i], 0); bits; bits &= bits - 1) {
            const uint32_t word = i * NOTIFY_MARK_BITS + (uint32_t)__builtin_ctzll(bits);
            take_word(session, &marks->lines[word], word * NOTIFY_MARK_BITS);
        }
        break;
    }
}
