#include "client/coll/kept.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/coll/coll.h"
#include "client/coll/thread.h"
#include "client/core/error.h"

struct coll_kept *coll_kept_of(struct tca_coll *coll)
{
    struct coll_siblings *siblings = coll->siblings;
    struct coll_kept *kept = siblings->kept;

    while (kept && kept->group != coll->group)
        kept = kept->next;
    if (kept || !(kept = calloc(1, sizeof(*kept))))
        return kept;
    kept->siblings = siblings;
    kept->group = coll->group;
    kept->next = siblings->kept;
    siblings->kept = kept;
    return kept;
}

/* ---- the list */

/* By an operation and its plans. */
static unsigned uses_of(const struct tca_coll *coll)
{
    unsigned uses = 1 + (coll->leaf.credit != NULL);

    for (uint32_t set = 0; set < COLL_SETS; set++)
        for (uint32_t s = 0; s < COLL_CHAINS_MAX; s++)
            for (uint32_t i = 0; i < coll->sets[set].sequences[s].count; i++)
                uses += coll->sets[set].sequences[s].items[i].plan != NULL;
    return uses;
}

static bool is_like(const struct tca_coll *coll, const struct tca_coll *other)
{
    const size_t bytes = coll->shape.places.size * sizeof(*coll->spans);

    return memcmp(&coll->asked, &other->asked, sizeof(coll->asked)) == 0 &&
           (!coll->spans || memcmp(coll->spans, other->spans, bytes) == 0);
}

struct tca_coll *coll_kept_find(const struct coll_kept *kept, const struct tca_coll *like)
{
    struct tca_coll *coll = kept->list;

    while (coll && !(coll->own_args == like->own_args && is_like(like, coll)))
        coll = coll->next_kept;
    return coll;
}

void coll_kept_take(struct coll_kept *kept, struct tca_coll *coll)
{
    struct tca_coll **link = &kept->list;

    while (*link != coll)
        link = &(*link)->next_kept;
    *link = coll->next_kept;
    kept->count--;
    kept->siblings->kept_count--;
    group_unkeep(kept->group, uses_of(coll));
}

/* The one that was freed first. */
static void release_last(struct coll_kept *kept)
{
    struct tca_coll *last = kept->list;

    while (last->next_kept)
        last = last->next_kept;
    coll_kept_take(kept, last);
    coll_release(last, true);
    group_unuse(kept->group);
}

/* Of the group that has made operations for the longest time. */
static void release_one(struct coll_siblings *siblings)
{
    struct coll_kept *oldest = NULL;

    for (struct coll_kept *kept = siblings->kept; kept; kept = kept->next)
        oldest = kept->count > 0 ? kept : oldest;
    if (oldest)
        release_last(oldest);
}

bool coll_kept_spare(struct coll_siblings *siblings)
{
    const bool any = siblings->kept_count > 0;

    coll_thread_lock(siblings->thread);
    while (siblings->kept_count > 0)
        release_one(siblings);
    coll_thread_unlock(siblings->thread);
    return any;
}

bool coll_kept_put(struct coll_kept *kept, struct tca_coll *coll)
{
    if (!group_keep(kept->group, uses_of(coll)))
        return false;
    coll->next_kept = kept->list;
    kept->list = coll;
    kept->siblings->kept_count++;
    if (++kept->count > COLL_KEPT_MAX)
        release_last(kept);
    if (kept->siblings->kept_count > COLL_KEPT_SESSION_MAX)
        release_one(kept->siblings);
    return true;
}

/* ---- whether all ranks say the same */

enum coll_same_state coll_same_state(const struct coll_kept *kept, const struct tca_coll *coll)
{
    enum { MADE = 2 }; /* of so many, the third one gains by it in any case */

    if (!kept)
        return COLL_SAME_NONE;
    if (kept->same)
        return COLL_SAME_READY;
    return !kept->refused && kept->siblings->same_count < COLL_SAME_MAX &&
                   (kept->made >= MADE || (coll->copies.used && coll_kept_find(kept, coll)))
               ? COLL_SAME_WANTED
               : COLL_SAME_NONE;
}

void coll_same_make(struct coll_kept *kept, struct tca *session)
{
    static const struct tca_coll_operator least = {.combine = TCA_COMBINE_MIN,
                                                   .type = TCA_TYPE_UINT64};
    const struct tca_coll_args args = {.plan = {.name = "agreement", .group = kept->group}};
    const uint64_t count = sizeof(kept->words) / sizeof(*kept->words);

    if (coll_make_same(session, kept->words, count, &least, &args, &kept->same) < 0) {
        kept->refused = true;
        return;
    }
    group_keep(kept->group, uses_of(kept->same)); /* the program's operation uses it, too */
    coll_siblings_leave(kept->siblings);
    kept->siblings->same_count++;
}

int coll_same(struct coll_kept *kept, enum coll_call call, uint64_t value, bool can)
{
    const uint64_t mine[] = {value, ~value, can, call, ~(uint64_t)call};
    const uint64_t *least = kept->words;

    memcpy(kept->words, mine, sizeof(mine));
    int r = tca_coll_start(kept->same);
    if (r >= 0)
        r = tca_coll_wait(kept->same, TCA_DEFAULT);
    if (r < 0) {
        error_prefix(r, "meeting the other ranks: ");
        coll_kept_forget(kept);
        return r;
    }
    /* the least of the complements is that of the greatest */
    return least[0] == ~least[1] && least[3] == ~least[4] && least[2] != 0;
}

/* ---- the end */

/* The module's own operation may have failed, or others may still make a call by it: what they
 * notify is not used again. */
void coll_kept_forget(struct coll_kept *kept)
{
    struct coll_thread *thread = kept->siblings->thread;

    coll_thread_lock(thread);
    while (kept->list)
        release_last(kept);
    if (kept->same) {
        group_unkeep(kept->group, uses_of(kept->same));
        coll_run_end(kept->same);
        coll_release(kept->same, false);
        group_unuse(kept->group);
        kept->siblings->same_count--;
    }
    kept->same = NULL;
    kept->made = 0;
    coll_thread_unlock(thread);
}

/* What is the session's is released with it. */
static void leave(struct coll_kept *kept)
{
    while (kept->list) {
        struct tca_coll *coll = kept->list;
        coll_kept_take(kept, coll);
        coll_forget(coll);
    }
    if (!kept->same)
        return;
    group_unkeep(kept->group, uses_of(kept->same));
    coll_forget(kept->same);
}

void coll_kept_drop(struct coll_siblings *siblings, struct tca_group *group)
{
    for (struct coll_kept **link = &siblings->kept, *kept; (kept = *link);) {
        if (group && kept->group != group) {
            link = &kept->next;
            continue;
        }
        *link = kept->next;
        if (group)
            coll_kept_forget(kept);
        else
            leave(kept);
        free(kept);
    }
}
