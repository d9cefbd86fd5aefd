#include "daemon/sessions/uses.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/list.h"

/* An event, while the users of its subject are notified. */
struct delivery {
    struct delivery *next;
    struct use_event event;
    uint64_t before; /* users that were added earlier */
};

struct subject {
    struct table_entry entry;
    struct uses *uses;
    struct subject_key key;
    struct use *first;
    /* While events are being delivered: */
    struct delivery *deliveries,
        **last_delivery; /* in the order in which they came; the first is being delivered */
    struct use *pending; /* the users that were not notified yet */
    struct loop_job job;
    bool busy; /* the job is queued */
};

void uses_deinit(struct uses *uses)
{
    assert(uses->subjects.count == 0);
    table_deinit(&uses->subjects);
}

static uint64_t number_of(struct subject_key key)
{
    return table_mix(table_mix(key.kind, key.node), key.id);
}

static struct subject *find(const struct uses *uses, struct subject_key key)
{
    const struct table_entry *entry = table_first(&uses->subjects, number_of(key));
    for (; entry; entry = table_again(entry)) {
        struct subject *subject = entry->owner;
        if (subject->key.kind == key.kind && subject->key.node == key.node &&
            subject->key.id == key.id)
            return subject;
    }
    return NULL;
}

bool uses_last_is(const struct uses *uses, struct subject_key key, const void *user)
{
    const struct subject *subject = find(uses, key);
    return subject && subject->first && subject->first->user == user;
}

int use_add(struct uses *uses, struct use *use, struct subject_key key, void *user)
{
    struct subject *subject = find(uses, key);
    if (!subject) {
        subject = calloc(1, sizeof(*subject));
        if (!subject)
            return -ENOMEM;
        subject->uses = uses;
        subject->key = key;
        subject->last_delivery = &subject->deliveries;
        table_add(&uses->subjects, &subject->entry, number_of(key), subject);
    }
    use->subject = subject;
    use->user = user;
    use->added = ++uses->adds;
    LIST_ADD(&subject->first, use, next, link);
    return 0;
}

void uses_each(const struct uses *uses, struct subject_key key,
               void (*each)(void *context, void *user), void *context)
{
    const struct subject *subject = find(uses, key);
    for (const struct use *use = subject ? subject->first : NULL; use; use = use->next)
        each(context, use->user);
    for (const struct use *use = subject ? subject->pending : NULL; use; use = use->next)
        each(context, use->user);
}

/* Frees it if it is not needed any more. */
static void drop_subject(struct subject *subject)
{
    if (subject->first || subject->pending || subject->busy)
        return;
    table_remove(&subject->uses->subjects, &subject->entry);
    free(subject);
}

void use_drop(struct uses *uses, struct use *use)
{
    if (!use->link)
        return;
    LIST_REMOVE(use, next, link);
    drop_subject(use->subject);
    use->subject = NULL;
}

/* ---- events ---- */

/* Users that were there before the event are still to be notified. */
static void begin_delivery(struct subject *subject, uint64_t before)
{
    struct use *next, **at = &subject->pending;
    for (struct use *use = subject->first; use; use = next) {
        next = use->next;
        if (use->added > before)
            continue;
        LIST_REMOVE(use, next, link);
        LIST_ADD(at, use, next, link);
        at = &use->next;
    }
}

static void notify_one(struct subject *subject, const struct use_event *event)
{
    struct use *use = subject->pending;
    struct subject *of = use->subject;
    LIST_REMOVE(use, next, link);
    use->subject = NULL;
    if (!event->notify(event, use->user))
        return;
    use->subject = of;
    LIST_ADD(&subject->first, use, next, link);
}

/* False: the slice is over. */
static bool notify_pending(struct subject *subject, const struct use_event *event, bool in_slices)
{
    while (subject->pending) {
        notify_one(subject, event);
        if (in_slices && loop_slice_over(subject->uses->loop) && subject->pending)
            return false;
    }
    return true;
}

/* Delivers all pending events. False: the slice is over. */
static bool tell_all(struct subject *subject, bool in_slices)
{
    while (subject->deliveries) {
        struct delivery *delivery = subject->deliveries;
        if (!notify_pending(subject, &delivery->event, in_slices))
            return false;
        subject->deliveries = delivery->next;
        free(delivery);
        if (subject->deliveries)
            begin_delivery(subject, subject->deliveries->before);
    }
    subject->last_delivery = &subject->deliveries;
    return true;
}

static bool tell_some(void *context)
{
    struct subject *subject = context;
    if (!tell_all(subject, true))
        return true;
    subject->busy = false;
    drop_subject(subject);
    return false;
}

/* Out of memory: not in slices, but without loss. */
static void notify_at_once(struct subject *subject, const struct use_event *event)
{
    const bool busy = subject->busy;
    subject->busy = true;
    tell_all(subject, false);
    begin_delivery(subject, subject->uses->adds);
    notify_pending(subject, event, false);
    subject->busy = busy;
    if (!busy)
        drop_subject(subject);
}

void uses_notify(struct uses *uses, const struct use_event *event)
{
    struct subject *subject = find(uses, event->key);
    if (!subject)
        return;
    struct delivery *delivery = malloc(sizeof(*delivery));
    if (!delivery) {
        notify_at_once(subject, event);
        return;
    }
    *delivery = (struct delivery){.event = *event, .before = uses->adds};
    *subject->last_delivery = delivery;
    subject->last_delivery = &delivery->next;
    if (delivery == subject->deliveries)
        begin_delivery(subject, delivery->before);
    if (subject->busy)
        return;
    subject->busy = true;
    loop_job_begin(uses->loop, &subject->job, tell_some, subject);
}
