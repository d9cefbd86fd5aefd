/* Notices from other processes: taking them, and reporting to senders that use many places which
 * ones were taken. */
#include <errno.h>
#include <stdlib.h>

#include "client/compat/notice.h"
#include "client/compat/turn.h"

/* A notice without its notification after this time belongs to a start that has failed after it. */
#define LOST_NS (1000 * 1000 * 1000ll)

struct seen {
    uint64_t key;
    uint64_t count;
    uint64_t doubts;
    uint64_t taken;
    uint64_t settled; /* doubts that have been decided, */
    uint64_t lost;    /* and of these the ones that have not arrived */
};

struct inbox {
    struct seen *places;  /* the last trusted copy of the table */
    struct seen *reading; /* the copy being read */
    uint32_t used;
    uint32_t next; /* where to look first: at the place taken last */
    uint64_t notified;
    int ended; /* why no more notifications will arrive, or 0 */
    /* reports to the sender */
    uint64_t takes; /* since the last report */
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

/* Counts the notifications of tca.h that have arrived. */
static void count_notified(struct inbox *inbox, uint32_t rank)
{
    int r;
    while ((r = tca_notified(compat.session, rank, NOTIFY_NOTICE)) > 0)
        inbox->notified++;
    inbox->ended = r;
}

/* Copies a notice of the table. Returns false if it is being written. */
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

/* The number of notices, without those that have not arrived. */
static uint64_t arrived(const struct seen *seen)
{
    return seen->count - seen->lost;
}

/*
 * Decides which notices in doubt have arrived, given that the notifications of `missing` notices
 * are missing. A notice in doubt belongs to a failed start, whose failure the sending program
 * knows.
 *
 * Notifications are counted for all places together. If all doubts are in one place, the count
 * shows how many of them have arrived. If they are in several places, it does not show which have
 * arrived, unless all or none have. Then none counts: a notification without its data would be
 * worse than a missing notification of a failed start.
 *
 * Returns the number of notices that have not arrived.
 */
static uint64_t decide_doubts(struct inbox *inbox, uint32_t used, uint64_t missing)
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

/* Reads the table as far as it is known to be in use, and on until the notices add up to the
 * notifications, because senders do not use the places in order. If there are doubts, reads all of
 * it. Returns the number of notices. */
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
        sum += arrived(reading);
    }
    while (used > inbox->used && inbox->reading[used - 1].key == 0)
        used--; /* unused */
    *ret_used = used;
    return sum;
}

/* Reads the table and, if it can be trusted, makes it the current one. force: trust it although
 * notifications are missing. Returns whether it is trusted. */
static bool collect(struct inbox *inbox, uint32_t rank, bool force)
{
    uint32_t used;
    bool whole;

    count_notified(inbox, rank);
    uint64_t sum = read_table(inbox, rank, &used, &whole);
    if (!force && (!whole || sum > inbox->notified))
        return false;
    sum -= decide_doubts(inbox, used, sum > inbox->notified ? sum - inbox->notified : 0);
    /* There are more notifications than notices if a start was repeated that had failed after it
     * had arrived. */
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
        if ((seen->key & ~NOTICE_CHANNEL) == key && arrived(seen) > seen->taken) {
            seen->taken++;
            inbox->takes++;
            inbox->next = i;
            return true;
        }
    }
    return false;
}

/* ---- reports to the sender ---- */

static int make_report(struct inbox *inbox, uint32_t rank)
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

/* Reports to the sender now and then, once it may run out of places. The next report replaces one
 * that fails. */
static void report(struct inbox *inbox, uint32_t rank)
{
    const uint32_t places = notices_per_process();
    if (inbox->used < places / 2 || inbox->takes < places / 8)
        return;
    if (!inbox->tell && make_report(inbox, rank) < 0)
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
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY,
                           "out of memory for notifications from process %u", rank);
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
    report(inbox, rank);
    return TCA_SUCCESS;
}

/* Waits once for a notification. Adds the time to *doubt_ns if none has arrived. */
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
    int64_t doubt_ns = 0; /* how long notifications have been missing */
    tcaresult result = open_inbox(rank, &inbox);
    if (result != TCA_SUCCESS)
        return result;
    while (!take(inbox, key)) {
        bool believed = collect(inbox, rank, doubt_ns >= LOST_NS || inbox->ended < 0);
        if (believed && take(inbox, key))
            break;
        if (believed && inbox->ended < 0)
            return compat_fail_errno(inbox->ended, "tcaWaitDMARecvDesc");
        if (believed)
            doubt_ns = 0;
        await(inbox, rank, &doubt_ns);
    }
    report(inbox, rank);
    return TCA_SUCCESS;
}
