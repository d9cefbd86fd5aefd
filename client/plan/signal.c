/* Counters in memory (tca-signal.h): steps of plans, and waits of the program. */
#include "client/include/tca-signal.h"

#include <errno.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/core/wait.h"
#include "client/memory/lane.h"
#include "client/memory/region.h"
#include "client/plan/plan.h"
#include "proto/notify.h"

/* ---- steps ---- */

/* A counter of the session's own. */
static int find(struct tca *session, const uint64_t *counter, struct tca_region **ret_region,
                uint64_t *ret_offset_bytes)
{
    int r = tca_region_of(session, counter, ret_region, ret_offset_bytes);
    if (r < 0)
        return r;
    const struct mapped_region *mapped = &(*ret_region)->mapped;
    *ret_offset_bytes += (*ret_region)->lead_bytes;
    if (mapped->dmabuf)
        return error_static(-EOPNOTSUPP, "memory of a device cannot hold counters: use memory of "
                                         "tca_alloc()");
    if ((uintptr_t)counter % sizeof(*counter) ||
        mapped->bytes - *ret_offset_bytes < sizeof(*counter))
        return error_set(-EINVAL, "a counter at address %p: it must be a multiple of 8",
                         (const void *)counter);
    return 0;
}

static int add(struct tca_plan *plan, const struct step *wanted)
{
    struct step *step = NULL;
    int r = wanted->signal.value > 0
                ? plan_reserve_step(plan, &step)
                : error_static(-EINVAL, "a signal, or a wait for one, of 0: the minimum is 1");
    if (r < 0)
        return r;
    *step = *wanted;
    if (step->signal.own)
        step->signal.own->uses++;
    plan_add_step(plan);
    return 0;
}

static int add_signal(struct tca_plan *plan, const struct tca_handle *target, uint64_t offset_bytes,
                      uint64_t value)
{
    struct step step = {.kind = STEP_SIGNAL,
                        .signal = {.value = value, .offset_bytes = offset_bytes}};
    const int64_t bytes = tca_handle_bytes(target);
    if (bytes < 0)
        return (int)bytes;
    if (offset_bytes > (uint64_t)bytes || (uint64_t)bytes - offset_bytes < sizeof(uint64_t))
        return error_set(-EINVAL,
                         "a counter at offset %llu is outside the %lld bytes of the handle",
                         (unsigned long long)offset_bytes, (long long)bytes);
    memcpy(step.signal.handle, target->bytes, sizeof(step.signal.handle));
    step.signal.own = region_of_handle(plan->session, target);
    return add(plan, &step);
}

int tca_plan_signal(struct tca_plan *plan, const struct tca_handle *target, uint64_t offset_bytes,
                    uint64_t value)
{
    int r = plan_check_building(plan);
    if (r == 0)
        r = add_signal(plan, target, offset_bytes, value);
    return r < 0 ? plan_refuse(plan, r) : 0;
}

int tca_plan_wait_signal(struct tca_plan *plan, const uint64_t *counter, uint64_t value)
{
    struct step step = {.kind = STEP_WAIT_SIGNAL, .signal = {.value = value}};
    struct tca_region *region;
    int r = plan_check_building(plan);
    if (r == 0)
        r = find(plan->session, counter, &region, &step.signal.offset_bytes);
    if (r == 0) {
        step.signal.own = &region->mapped;
        r = add(plan, &step);
    }
    return r < 0 ? plan_refuse(plan, r) : 0;
}

/* ---- waits ---- */

struct awaited {
    struct tca *session;
    const _Atomic uint64_t *counter;
    enum tca_signal_compare compare;
    uint64_t value;
    uint32_t ended; /* so many ranks, from 0 on, have ended, or are this one */
    int error;
};

static bool holds(const struct awaited *awaited)
{
    const uint64_t now = counter_value(awaited->counter), value = awaited->value;
    switch (awaited->compare) {
    case TCA_SIGNAL_EQ:
        return now == value;
    case TCA_SIGNAL_NE:
        return now != value;
    case TCA_SIGNAL_GT:
        return now > value;
    case TCA_SIGNAL_GE:
        return now >= value;
    case TCA_SIGNAL_LT:
        return now < value;
    case TCA_SIGNAL_LE:
        return now <= value;
    }
    return false;
}

static int ready(void *context)
{
    struct awaited *awaited = context;
    if (holds(awaited))
        return 1;
    lanes_drain(awaited->session);
    session_progress(awaited->session);
    return holds(awaited) ? 1 : awaited->error;
}

/* What a rank has added counts also after its end: `ready` looks at it first. */
static void look_for_others(void *context)
{
    struct awaited *awaited = context;
    struct tca *session = awaited->session;
    while (awaited->ended < session->sources &&
           (awaited->ended == tca_rank(session) ||
            /* acquire: what it has added before its end is visible to the look that follows */
            atomic_load_explicit(&session->notify->source_state[awaited->ended],
                                 memory_order_acquire) != SOURCE_ALIVE))
        awaited->ended++;
    if (session->sources > 1 && awaited->ended == session->sources)
        awaited->error =
            error_static(-EOWNERDEAD, "nobody is left to add to the counter: all other ranks of "
                                      "the session have ended");
}

static int awaited_init(struct awaited *awaited, struct tca *session, const uint64_t *counter,
                        enum tca_signal_compare compare, uint64_t value)
{
    struct tca_region *region;
    uint64_t offset_bytes;
    *awaited = (struct awaited){.session = session,
                                .counter = (const _Atomic uint64_t *)counter,
                                .compare = compare,
                                .value = value};
    if (compare < TCA_SIGNAL_EQ || compare > TCA_SIGNAL_LE)
        return error_set(-EINVAL, "comparison %d: it must be TCA_SIGNAL_EQ to TCA_SIGNAL_LE",
                         (int)compare);
    return find(session, counter, &region, &offset_bytes);
}

int tca_signal_test(struct tca *session, const uint64_t *counter, enum tca_signal_compare compare,
                    uint64_t value)
{
    struct awaited awaited;
    int r = awaited_init(&awaited, session, counter, compare, value);
    return r < 0 ? r : ready(&awaited);
}

static int overdue(const void *context, int64_t timeout_ns)
{
    static const char *const words[] = {"=", "!=", ">", ">=", "<", "<="};
    const struct awaited *awaited = context;
    char waited[TIMEOUT_TEXT_BYTES];
    return error_set(-ETIMEDOUT,
                     "the counter is %llu, and did not come to what was awaited (%s %llu) %s",
                     (unsigned long long)counter_value(awaited->counter),
                     words[awaited->compare - TCA_SIGNAL_EQ], (unsigned long long)awaited->value,
                     session_timeout_text(awaited->session, timeout_ns, waited));
}

int tca_signal_wait_until(struct tca *session, const uint64_t *counter,
                          enum tca_signal_compare compare, uint64_t value, int64_t timeout_ns)
{
    struct awaited awaited;
    const struct session_wait wait = {
        .ready = ready, .rare = look_for_others, .overdue = overdue, .context = &awaited};
    int r = awaited_init(&awaited, session, counter, compare, value);
    if (r < 0)
        return r;
    r = session_wait_until(session, &wait, timeout_ns);
    return r < 0 ? r : 0;
}
