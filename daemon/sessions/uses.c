#include "daemon/sessions/uses.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

struct subject {
    struct table_entry entry;
    struct subject_key key;
    struct use *first;
};

struct telling {
    struct loop_job job;
    struct uses *uses;
    struct news news;
    struct use *first; /* not notified yet */
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

static void link_in(struct use **head, struct use *use)
{
    use->next = *head;
    use->link = head;
    if (use->next)
        use->next->link = &use->next;
    *head = use;
}

static void link_out(struct use *use)
{
    *use->link = use->next;
    if (use->next)
        use->next->link = use->link;
    use->link = NULL;
}

bool uses_last_is(const struct uses *uses, struct subject_key key, const void *user)
{
    const struct subject *subject = find(uses, key);
    return subject && subject->first->user == user;
}

int use_add(struct uses *uses, struct use *use, struct subject_key key, void *user)
{
    struct subject *subject = find(uses, key);
    if (!subject) {
        subject = calloc(1, sizeof *subject);
        if (!subject)
            return -ENOMEM;
        subject->key = key;
        table_add(&uses->subjects, &subject->entry, number_of(key), subject);
    }
    use->subject = subject;
    use->user = user;
    link_in(&subject->first, use);
    return 0;
}

void uses_each(const struct uses *uses, struct subject_key key,
               void (*each)(void *context, void *user), void *context)
{
    const struct subject *subject = find(uses, key);
    for (const struct use *use = subject ? subject->first : NULL; use; use = use->next)
        each(context, use->user);
}

static void forget_subject(struct uses *uses, struct subject *subject)
{
    table_remove(&uses->subjects, &subject->entry);
    free(subject);
}

void use_drop(struct uses *uses, struct use *use)
{
    if (!use->link)
        return;
    link_out(use);
    if (use->subject && !use->subject->first)
        forget_subject(uses, use->subject);
    use->subject = NULL;
}

static bool tell_some(void *context)
{
    struct telling *telling = context;
    while (telling->first) {
        struct use *use = telling->first;
        link_out(use);
        if (telling->news.tell(&telling->news, use->user))
            while (use_add(telling->uses, use, telling->news.key, use->user) < 0)
                sched_yield();
        if (loop_slice_over(telling->uses->loop) && telling->first)
            return true;
    }
    free(telling);
    return false;
}

void uses_tell(struct uses *uses, const struct news *news)
{
    struct subject *subject = find(uses, news->key);
    struct telling *telling;
    if (!subject)
        return;
    while (!(telling = malloc(sizeof *telling)))
        sched_yield();
    *telling = (struct telling){.uses = uses, .news = *news, .first = subject->first};
    telling->first->link = &telling->first;
    for (struct use *use = telling->first; use; use = use->next)
        use->subject = NULL;
    forget_subject(uses, subject);
    loop_job_begin(uses->loop, &telling->job, tell_some, telling);
}
