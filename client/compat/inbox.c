/* Notices of others: taking them, and telling those who send many different ones which were taken.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/compat/memory.h"
#include "client/compat/notice.h"
#include "client/compat/turn.h"

/* A notice that nobody has notified us of after this time is of a start that failed behind it; or
 * the data before it is large, and has to be copied to memory of the program's own. */
#define LOST_NS          (1000 * 1000 * 1000ll)
#define LOST_ATTACHED_NS (60 * LOST_NS)

struct seen {
    uint64_t key;
    uint64_t count;
    uint64_t doubts;
    uint64_t taken;
    uint64_t settled; /* of the doubts: it is decided whether they have come, */
    uint64_t lost;    /* and these have not */
};

struct inbox {
    struct seen *places;  /* what was believed last */
    struct seen *reading; /* what is being read */
    uint32_t used;
    uint32_t next; /* where to look first: what was taken last, and then behind it */
    uint64_t notified;
    int ended; /* why no more notifications will come, or 0 */
    /* telling the sender what was taken */
    uint64_t takes; /* since it was told */
    uint64_t *told;
    struct tca_plan *tell;
};
static struct inbox *inboxes; /* by rank */

static struct inbox *inbox_of(uint32_t rank)
{
    if (!inboxes && !(inboxes = calloc(compat.size, sizeof(*inboxes))))
        return NULL;
    struct inbox *inbox = &inboxes[rank];
    if (!inbox->places) {
        struct seen *both = calloc(2 * (size_t)notices_per_process(), sizeof(*both));
        inbox->places = both;
        inbox->reading = both ? both + notices_per_process() : NULL;
    }
    return inbox->places ? inbox : NULL;
}

/* Takes what has come of tca.h's notifications. */
static void count_notified(struct inbox *inbox, uint32_t rank)
{
    int r;
    while ((r = tca_notified(compat.session, rank, NOTIFY_NOTICE)) > 0)
        inbox->notified++;
    inbox->ended = r;
}

/* One notice of the table, copied: false when it is being written. */
static bool read_notice(const struct notice *from, struct seen *ret_seen)
{
    uint64_t key = __atomic_load_n(&from->key, __ATOMIC_RELAXED);
    uint64_t count = __atomic_load_n(&from->count, __ATOMIC_RELAXED);
    uint64_t check = __atomic_load_n(&from->check, __ATOMIC_RELAXED);
    uint64_t doubts = __atomic_load_n(&from->doubts, __ATOMIC_RELAXED);
    ret_seen->key = key;
    ret_seen->count = count;
    ret_seen->doubts = doubts;
    return check == notice_check(key, count, doubts) || (key | count | check | doubts) == 0;
}

/* How many notices have come, or will when they are believed. */
static uint64_t come(const struct seen *seen)
{
    return seen->count - seen->lost;
}

/*
 * So many were never notified of: as far as the sender has doubts, they have not come. A doubt is of
 * a start that has failed, which the sender's program was told.
 *
 * What was notified is one count for all places. So of doubts in one place, it is known how many
 * have come. Of doubts in several places it is not known whose have come, unless all or none have:
 * then none counts, for a notification of data that is not there would be worse than none for a
 * start that has failed.
 */
static uint64_t settle_doubts(struct inbox *inbox, uint32_t used, uint64_t missing)
{
    uint64_t open = 0, lost = 0;
    uint32_t places = 0;
    for (uint32_t i = 0; i < used; i++) {
        const struct seen *seen = &inbox->reading[i];
        open += seen->doubts - seen->settled;
        places += seen->doubts != seen->settled;
    }
    const uint64_t all = missing > open || (missing > 0 && places > 1) ? open : missing;
    for (uint32_t i = 0; i < used; i++) {
        struct seen *seen = &inbox->reading[i];
        const uint64_t here = seen->doubts - seen->settled, left = all - lost;
        seen->settled = seen->doubts;
        seen->lost += here < left ? here : left;
        lost += here < left ? here : left;
    }
    if (lost > missing)
        inbox->notified -= lost - missing;
    return lost;
}

/* Reads the table, as far as it is known to be used, and on until all that was notified is found:
 * places are not used in their order. To decide doubts, all of it: what was notified may be of any
 * place. Returns how many notices it says have come. */
static uint64_t read_table(struct inbox *inbox, uint32_t rank, uint32_t *ret_used, bool *ret_whole)
{
    const struct notice *notices = notices_from(rank);
    uint64_t sum = 0;
    uint32_t used = 0;
    bool doubts = false;

    *ret_whole = true;
    for (;
         used < inbox->used || ((sum < inbox->notified || doubts) && used < notices_per_process());
         used++) {
        struct seen *reading = &inbox->reading[used], *seen = &inbox->places[used];
        if (used >= inbox->used)
            *seen = (struct seen){0};
        if (!read_notice(&notices[used], reading)) {
            *reading = *seen;
            *ret_whole = false;
        }
        reading->taken = seen->taken;
        reading->settled = seen->settled;
        reading->lost = seen->lost;
        doubts |= reading->doubts != reading->settled;
        sum += come(reading);
    }
    while (used > inbox->used && inbox->reading[used - 1].key == 0)
        used--; /* read in vain */
    *ret_used = used;
    return sum;
}

/* `whatever`: believe the table even if not all of it was notified. Whether it could be believed. */
static bool collect(struct inbox *inbox, uint32_t rank, bool whatever)
{
    uint32_t used;
    bool whole;

    count_notified(inbox, rank);
    uint64_t sum = read_table(inbox, rank, &used, &whole);
    if (!whatever && (!whole || sum > inbox->notified))
        return false;
    sum -= settle_doubts(inbox, used, sum > inbox->notified ? sum - inbox->notified : 0);
    /* More was notified than the table says when a start that had failed although it had arrived was
     * repeated. */
    if (sum > inbox->notified || whole)
        inbox->notified = sum;
    struct seen *old = inbox->places;
    inbox->places = inbox->reading;
    inbox->reading = old;
    inbox->used = used;
    return true;
}

static bool take(struct inbox *inbox, uint64_t key)
{
    for (uint32_t n = 0, i = inbox->next; n < inbox->used; n++, i++) {
        i = i < inbox->used ? i : 0;
        struct seen *seen = &inbox->places[i];
        if ((seen->key & ~NOTICE_CHANNEL) == key && come(seen) > seen->taken) {
            seen->taken++;
            inbox->takes++;
            inbox->next = i;
            return true;
        }
    }
    return false;
}

/* ---- telling ---- */

static int make_tell(struct inbox *inbox, uint32_t rank)
{
    const uint64_t bytes = notices_per_process() * sizeof(uint64_t);
    void *memory;
    struct tca_plan *plan;
    int r = tca_alloc(compat.session, bytes, &memory);
    if (r < 0)
        return r;
    r = tca_plan_new(compat.session, &(struct tca_plan_args){.name = "tca-api taken"}, &plan);
    if (r == 0) {
        const struct tca_put put = {.source_address = memory,
                                    .target = notices_at(rank),
                                    .target_offset_bytes = taken_offset(compat.rank),
                                    .bytes = bytes};
        if ((r = tca_plan_put(plan, &put)) == 0 &&
            (r = tca_plan_notify(plan, rank, NOTIFY_TAKEN)) == 0)
            r = tca_plan_commit(plan, TCA_DEFAULT);
        if (r < 0)
            tca_plan_free(plan);
    }
    if (r < 0) {
        tca_free(compat.session, memory);
        return r;
    }
    inbox->told = memory;
    inbox->tell = plan;
    return 0;
}

/* Now and then, once the sender may run out of places. It is only a hint for it: when it cannot be
 * told, the next time will do. */
static void tell(struct inbox *inbox, uint32_t rank)
{
    const uint32_t places = notices_per_process();
    if (inbox->used < places / 2 || inbox->takes < places / 8)
        return;
    if (!inbox->tell && make_tell(inbox, rank) < 0)
        return;
    if (tca_test(inbox->tell) == 0)
        return;
    for (uint32_t i = 0; i < inbox->used; i++)
        inbox->told[i] = inbox->places[i].taken + inbox->places[i].lost;
    if (tca_start(inbox->tell) == 0)
        inbox->takes = 0;
}

/* ---- waiting ---- */

static tcaresult open_inbox(uint32_t rank, struct inbox **ret_inbox)
{
    struct inbox *inbox = inbox_of(rank);
    if (!inbox)
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "no memory for notifications of process %u",
                           rank);
    *ret_inbox = inbox;
    return TCA_SUCCESS;
}

tcaresult inbox_test(uint32_t rank, int slot, int tag)
{
    const uint64_t key = notice_key(0, slot, tag);
    struct inbox *inbox = NULL;
    tcaresult result = open_inbox(rank, &inbox);
    if (result != TCA_SUCCESS)
        return result;
    if (!take(inbox, key) && !(collect(inbox, rank, inbox->ended < 0) && take(inbox, key))) {
        if (inbox->ended < 0)
            return compat_fail_errno(inbox->ended, "tcaTestDMARecvDesc");
        return TCA_ERROR_NOT_READY;
    }
    tell(inbox, rank);
    return TCA_SUCCESS;
}

/* One wait for a notification. Adds to doubt_ns how long nothing has come. */
static void await(struct inbox *inbox, uint32_t rank, int64_t *doubt_ns)
{
    int64_t slice_ns = turn_pass();
    int r = tca_notified_wait(compat.session, rank, NOTIFY_NOTICE, slice_ns);
    inbox->notified += r == 0;
    inbox->ended = r < 0 && r != -ETIMEDOUT ? r : 0;
    *doubt_ns += r == -ETIMEDOUT ? slice_ns : 0;
}

tcaresult inbox_wait(uint32_t rank, int slot, int tag)
{
    const uint64_t key = notice_key(0, slot, tag);
    struct inbox *inbox = NULL;
    int64_t doubt_ns = 0; /* how long the table has said more than was notified */
    const int64_t lost_ns = allocations_attached() ? LOST_ATTACHED_NS : LOST_NS;
    tcaresult result = open_inbox(rank, &inbox);
    if (result != TCA_SUCCESS)
        return result;
    while (!take(inbox, key)) {
        bool believed = collect(inbox, rank, doubt_ns >= lost_ns || inbox->ended < 0);
        if (believed && take(inbox, key))
            break;
        if (believed && inbox->ended < 0)
            return compat_fail_errno(inbox->ended, "tcaWaitDMARecvDesc");
        if (believed)
            doubt_ns = 0;
        await(inbox, rank, &doubt_ns);
    }
    tell(inbox, rank);
    return TCA_SUCCESS;
}
