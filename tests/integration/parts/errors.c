/*
 * parts-errors: what tca_plan_put(), tca_plan_commit() and tca_start_parts() reject, at both ranks of
 * a group of two; none of it changes what a later start moves. Ends with 0, or prints what was
 * wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/integration/expect.h"

enum { BYTES = 4096, FIRST = 100, PUTS_MAX = 1024 };

static struct tca *session;

static struct tca_plan *new_plan(void)
{
    struct tca_plan *plan;
    check(tca_plan_new(session, NULL, &plan), "plan");
    return plan;
}

/* ---- tca_plan_put() and tca_plan_commit() ---- */

static void puts_rejected(struct tca_region *region, const struct tca_handle *to)
{
    struct tca_layout *blocks, *more;
    struct tca_plan *plan = new_plan();
    struct tca_put put = {.source = region, .target = *to, .parts = 1, .bytes = 64};
    check(tca_layout_strided(8, 8, 16, &blocks), "layout");
    check(tca_layout_strided(16, 8, 16, &more), "layout");
    put.combine = TCA_COMBINE_SUM;
    put.type = TCA_TYPE_DOUBLE;
    expect(tca_plan_put(plan, &put), -EINVAL, "moved as a whole", "a reduction in parts");
    put = (struct tca_put){.source = region,
                           .source_layout = blocks,
                           .target = *to,
                           .target_layout = more,
                           .parts = 1};
    expect(tca_plan_put(plan, &put), -EINVAL, "neither is contiguous", "two sizes");
    tca_plan_free(plan);
    tca_layout_free(blocks);
    tca_layout_free(more);
}

static void attached_rejected(const struct tca_handle *to)
{
    static uint8_t memory[BYTES];
    struct tca_region *region;
    struct tca_plan *plan = new_plan();
    check(tca_region_attach(session, memory, sizeof memory, &region), "attach");
    check(tca_plan_put(plan,
                       &(struct tca_put){.source = region, .target = *to, .bytes = 64, .parts = 1}),
          "put");
    expect(tca_plan_commit(plan, TCA_DEFAULT), -EINVAL, "attached memory", "an attached source");
    tca_plan_free(plan);
    check(tca_region_free(region), "free");
}

static void too_many(struct tca_region *region, const struct tca_handle *to)
{
    const struct tca_put put = {.source = region, .target = *to, .bytes = 1, .parts = 1};
    struct tca_plan *plan = new_plan(), *full = new_plan();
    for (int i = 0; i < PUTS_MAX; i++)
        check(tca_plan_put(full, &put), "put");
    check(tca_plan_commit(full, TCA_DEFAULT), "commit of all parts");
    check(tca_plan_put(plan, &put), "put");
    expect(tca_plan_commit(plan, TCA_DEFAULT), -EDQUOT, "free plans", "one more");
    tca_plan_free(full);
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit when others are free");
    tca_plan_free(plan);
}

/* ---- tca_start_parts() ---- */

static void starts_rejected(struct tca_plan *plan, struct tca_plan *whole)
{
    const struct tca_part good[2] = {{.source_at_bytes = FIRST, .bytes = 1}, {.bytes = 8}};
    struct tca_part bad[2];
    expect(tca_start_parts(plan, good, 1), -EINVAL, "the plan has 2", "too few");
    expect(tca_start_parts(whole, good, 1), -EINVAL, "the plan has 0", "a plan without");
    check(tca_start_parts(whole, NULL, 0), "no parts of a plan without");
    check(tca_wait(whole, TCA_DEFAULT), "wait");
    static const struct tca_part outside[] = {
        {.bytes = BYTES + 1},
        {.source_at_bytes = BYTES, .bytes = 1},
        {.source_at_bytes = UINT64_MAX, .bytes = 2},
        {.source_at_bytes = 1, .bytes = UINT64_MAX},
        {.target_at_bytes = 1, .bytes = BYTES},
        {.target_at_bytes = UINT64_MAX - 8, .bytes = 9},
    };
    for (unsigned i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        memcpy(bad, good, sizeof bad);
        bad[0] = outside[i];
        expect(tca_start_parts(plan, bad, 2), -EINVAL, "part 0", "outside");
        expect(tca_wait(plan, TCA_DEFAULT), -EINVAL, "", "its wait");
    }
    memcpy(bad, good, sizeof bad);
    bad[1].target_at_bytes = 8;
    expect(tca_start_parts(plan, bad, 2), -EINVAL, "neither layout is contiguous", "two positions");
}

/* One contiguous put, and one between layouts. */
static struct tca_plan *make_plan(struct tca_region *region, const struct tca_handle *to)
{
    struct tca_layout *blocks;
    struct tca_plan *plan = new_plan();
    struct tca_put put = {.source = region, .target = *to, .bytes = BYTES, .parts = 1};
    check(tca_layout_strided(8, 8, 16, &blocks), "layout");
    check(tca_plan_put(plan, &put), "put");
    put.source_layout = put.target_layout = blocks;
    put.source_offset_bytes = put.target_offset_bytes = BYTES;
    put.bytes = 0;
    check(tca_plan_put(plan, &put), "put");
    check(tca_plan_notify(plan, 1 - rank, 0), "notify");
    const struct tca_part part = {.bytes = 1};
    expect(tca_start_parts(plan, &part, 1), -EINVAL, "not committed", "before the commit");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    tca_layout_free(blocks);
    return plan;
}

/* After the errors: byte FIRST alone, and then all. */
static void starts_work(struct tca_plan *plan, const uint8_t *memory)
{
    const struct tca_part parts[2] = {
        {.source_at_bytes = FIRST, .target_at_bytes = FIRST + 1, .bytes = 1}, {.bytes = 0}};
    check(tca_start_parts(plan, parts, 2), "start");
    check(tca_wait(plan, TCA_DEFAULT), "wait");
    check(tca_notified_wait(session, 1 - rank, 0, TCA_DEFAULT), "notified");
    for (uint32_t i = 0; i < 2 * BYTES; i++)
        if (memory[i] != (i == FIRST + 1 ? FIRST : 0)) {
            printf("rank %u: byte %u is %u\n", rank, i, memory[i]);
            wrong = 1;
            return;
        }
}

int main(void)
{
    struct tca_region *source, *target;
    struct tca_handle own, all[2];
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    check(tca_region_alloc(session, 2 * BYTES, &source), "memory");
    check(tca_region_alloc(session, 2 * BYTES, &target), "memory");
    uint8_t *bytes = tca_region_address(source);
    for (int i = 0; i < 2 * BYTES; i++)
        bytes[i] = (uint8_t)i;
    check(tca_region_handle(target, 0, TCA_ALL, &own), "handle");
    check(tca_allgather(session, &own, sizeof own, all, TCA_DEFAULT), "allgather");
    const struct tca_handle *to = &all[1 - rank];

    puts_rejected(source, to);
    attached_rejected(to);
    too_many(source, to);
    struct tca_plan *plan = make_plan(source, to), *whole = new_plan();
    check(tca_plan_commit(whole, TCA_DEFAULT), "commit");
    starts_rejected(plan, whole);
    starts_work(plan, tca_region_address(target));
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_close(session);
    return wrong;
}
