#include "client/plan/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"
#include "drivers/shm/share.h"

struct part_put {
    const struct step *step;
    uint64_t source_bytes, target_bytes;
    bool tied; /* both layouts have gaps: the positions are equal */
    struct driver *driver;
    struct driver_put *put; /* NULL: in the daemon's seat */
};

struct plan_parts {
    uint32_t count;
    uint32_t at;          /* of the first in the session's segment */
    uint64_t other_bytes; /* per start, in the client's seat, of puts without parts */
    struct part_put puts[];
};

/* ---- the commit ---- */

/* Takes consecutive entries of the session's segment. */
static int take_place(struct tca *session, uint32_t count, uint32_t *ret_at)
{
    uint32_t free = 0;
    for (uint32_t i = 0; i < START_PARTS_MAX; i++) {
        free = session->parts_taken[i] ? 0 : free + 1;
        if (free < count)
            continue;
        *ret_at = i + 1 - count;
        memset(session->parts_taken + *ret_at, true, count);
        return 0;
    }
    return error_set(-EDQUOT,
                     "%u puts with parts: the plans of a session can have at most %d: free plans",
                     count, START_PARTS_MAX);
}

static void fill(struct part_put *part, const struct step *step)
{
    const struct layout *source = step->put.source_layout->program,
                        *target = step->put.target_layout->program;
    *part = (struct part_put){
        .step = step,
        .source_bytes = source->size_bytes,
        .target_bytes = target->size_bytes,
        .tied = !layout_is_contiguous(source) && !layout_is_contiguous(target),
    };
}

static bool moves_parts(const struct step *step)
{
    return step->kind == STEP_PUT && step->put.part;
}

int parts_new(struct tca_plan *plan)
{
    uint32_t count = 0;
    parts_free(plan); /* of a commit that failed */
    for (uint32_t i = 0; i < plan->step_count; i++)
        count += moves_parts(&plan->steps[i]);
    if (count == 0)
        return 0;
    struct plan_parts *parts = malloc(sizeof(*parts) + count * sizeof(parts->puts[0]));
    if (!parts)
        return error_static(-ENOMEM, "out of memory");
    parts->count = 0;
    int r = take_place(plan->session, count, &parts->at);
    if (r < 0) {
        free(parts);
        return r;
    }
    for (uint32_t i = 0; i < count; i++) /* the daemon reads it after the first start */
        atomic_store_explicit(&plan->session->segment->parts[parts->at + i].moved_bytes, 0,
                              memory_order_relaxed);
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (moves_parts(&plan->steps[i]))
            fill(&parts->puts[parts->count++], &plan->steps[i]);
    plan->parts = parts;
    return 0;
}

void parts_free(struct tca_plan *plan)
{
    if (!plan->parts)
        return;
    memset(plan->session->parts_taken + plan->parts->at, false, plan->parts->count);
    free(plan->parts);
    plan->parts = NULL;
}

uint32_t parts_at(const struct tca_plan *plan)
{
    return plan->parts ? plan->parts->at : 0;
}

void parts_bind(struct tca_plan *plan, const struct step *step, const struct transfer *transfer)
{
    for (uint32_t i = 0; i < plan->parts->count; i++)
        if (plan->parts->puts[i].step == step) {
            plan->parts->puts[i].driver = transfer->driver;
            plan->parts->puts[i].put = transfer->put;
        }
}

/* ---- a start ---- */

/* What the next start moves of a put, in the daemon's seat. */
static void tell(struct tca_plan *plan, uint32_t index, const struct tca_part *part)
{
    struct start_part *to = &plan->session->segment->parts[plan->parts->at + index];
    /* relaxed: the submission's release of the ring's tail orders them */
    atomic_store_explicit(&to->source_at_bytes, part->source_at_bytes, memory_order_relaxed);
    atomic_store_explicit(&to->target_at_bytes, part->target_at_bytes, memory_order_relaxed);
    atomic_store_explicit(&to->bytes, part->bytes, memory_order_relaxed);
}

/* In the client's seat. deferred: see PLAN_DEFER_BYTES. */
static void set(struct tca_plan *plan, const struct part_put *of, const struct tca_part *part,
                bool deferred)
{
    if (of->driver == plan->session->shm)
        shm_put_defer(of->put, deferred);
    of->driver->ops->put_part(of->driver, of->put,
                              &(struct driver_part){.source_at_bytes = part->source_at_bytes,
                                                    .target_at_bytes = part->target_at_bytes,
                                                    .bytes = part->bytes});
}

/* Its part in a list of all puts with parts; NULL: all that both sides have. */
static struct tca_part part_of(const struct part_put *of, const struct tca_part *list)
{
    if (list)
        return list[of->step->put.part - 1];
    return (struct tca_part){.bytes = of->source_bytes < of->target_bytes ? of->source_bytes
                                                                          : of->target_bytes};
}

static void set_all(struct tca_plan *plan, const struct tca_part *list)
{
    const struct plan_parts *parts = plan->parts;
    plan->client_bytes = parts->other_bytes;
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct tca_part part = part_of(&parts->puts[i], list);
        plan->client_bytes += parts->puts[i].put ? part.bytes : 0;
        tell(plan, i, &part);
    }
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct tca_part part = part_of(&parts->puts[i], list);
        if (parts->puts[i].put)
            set(plan, &parts->puts[i], &part, plan->client_bytes > PLAN_DEFER_BYTES);
    }
}

void parts_whole(struct tca_plan *plan)
{
    struct plan_parts *parts = plan->parts;
    if (!parts)
        return;
    parts->other_bytes = plan->client_bytes;
    for (uint32_t i = 0; i < parts->count; i++)
        parts->other_bytes -= parts->puts[i].put ? parts->puts[i].source_bytes : 0;
    set_all(plan, NULL);
}

void parts_count(struct tca_plan *plan)
{
    for (uint32_t i = 0; i < plan->parts->count; i++) {
        struct start_part *part = &plan->session->segment->parts[plan->parts->at + i];
        /* relaxed: only this process writes them */
        atomic_store_explicit(&part->moved_bytes,
                              atomic_load_explicit(&part->moved_bytes, memory_order_relaxed) +
                                  atomic_load_explicit(&part->bytes, memory_order_relaxed),
                              memory_order_relaxed);
    }
}

static int check_side(uint32_t index, const char *side, uint64_t at, uint64_t bytes, uint64_t of)
{
    if (bytes <= of && at <= of - bytes)
        return 0;
    return error_set(-EINVAL, "part %u: %llu bytes from %llu on: the %s of its put has %llu bytes",
                     index, (unsigned long long)bytes, (unsigned long long)at, side,
                     (unsigned long long)of);
}

static int check_part(uint32_t index, const struct part_put *of, const struct tca_part *part)
{
    int r = check_side(index, "source", part->source_at_bytes, part->bytes, of->source_bytes);
    if (r == 0)
        r = check_side(index, "target", part->target_at_bytes, part->bytes, of->target_bytes);
    if (r == 0 && of->tied && part->source_at_bytes != part->target_at_bytes)
        r = error_set(
            -EINVAL,
            "part %u begins at %llu in the source and at %llu in the target: they must be "
            "equal, because neither layout is contiguous",
            index, (unsigned long long)part->source_at_bytes,
            (unsigned long long)part->target_at_bytes);
    return r;
}

/* Puts of 0 bytes have no steps, and so no entry in plan->parts. */
static int check_empty(const struct tca_plan *plan, const struct tca_part *list)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < plan->part_count; i++) {
        if (plan->parts && next < plan->parts->count &&
            plan->parts->puts[next].step->put.part == i + 1)
            next++;
        else if (list[i].bytes > 0)
            return error_set(-EINVAL, "part %u: %llu bytes: its put has 0 bytes", i,
                             (unsigned long long)list[i].bytes);
    }
    return 0;
}

static int check_parts(const struct tca_plan *plan, const struct tca_part *list, uint32_t count)
{
    const uint32_t moving = plan->parts ? plan->parts->count : 0;
    if (count != plan->part_count)
        return error_set(-EINVAL, "%u parts: the plan has %u puts with parts (struct tca_put)",
                         count, plan->part_count);
    int r = count != moving ? check_empty(plan, list) : 0;
    for (uint32_t i = 0; i < moving && r == 0; i++) {
        const struct part_put *of = &plan->parts->puts[i];
        r = check_part(of->step->put.part - 1, of, &list[of->step->put.part - 1]);
    }
    return r;
}

int tca_start_parts(struct tca_plan *plan, const struct tca_part *list, uint32_t count)
{
    int r = plan_check_startable(plan);
    if (r < 0)
        return r;
    if ((r = check_parts(plan, list, count)) < 0)
        return plan_refuse_start(plan, r);
    if (plan->parts)
        set_all(plan, list);
    return tca_start(plan);
}
