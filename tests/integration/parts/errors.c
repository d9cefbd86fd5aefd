/*
 * parts-errors: what tca_plan_put(), tca_plan_commit() and tca_start_parts() reject, at both ranks
 * of a group of two; none of it changes what a later start moves. Puts of 0 bytes, which they
 * accept, and regions that plans use. Ends with 0, or prints what was wrong.
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

static void attached_accepted(const struct tca_handle *to)
{
    static uint8_t memory[BYTES];
    struct tca_region *region;
    struct tca_plan *plan = new_plan();
    check(tca_region_attach(session, memory, sizeof(memory), &region), "attach");
    check(tca_plan_put(plan,
                       &(struct tca_put){.source = region, .target = *to, .bytes = 64, .parts = 1}),
          "put");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit of an attached source");
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
    for (unsigned i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        memcpy(bad, good, sizeof(bad));
        bad[0] = outside[i];
        expect(tca_start_parts(plan, bad, 2), -EINVAL, "part 0", "outside");
        expect(tca_wait(plan, TCA_DEFAULT), -EINVAL, "was refused: plan ", "its wait");
        expect(tca_test(plan), -EINVAL, "part 0: ", "its test");
    }
    memcpy(bad, good, sizeof(bad));
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

static void of_another_session(const struct tca_handle *to)
{
    struct tca *other;
    struct tca_region *theirs;
    struct tca_plan *plan = new_plan();
    check(tca_open(&(struct tca_open_args){.group = rank ? "b" : "a", .size = 1}, &other), "open");
    check(tca_region_alloc(other, BYTES, &theirs), "memory");
    expect(tca_plan_put(plan, &(struct tca_put){.source = theirs, .target = *to, .bytes = 8}),
           -EINVAL, "the plan belongs to session", "a region of another session");
    tca_plan_free(plan);
    tca_close(other);
}

static void started_twice(void)
{
    struct tca_plan *plan;
    check(tca_plan_new(session, &(struct tca_plan_args){.name = "twice"}, &plan), "plan");
    check(tca_plan_wait(plan, rank, 7, 1), "a wait");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    expect(tca_plan_commit(plan, TCA_DEFAULT), -EINVAL, "start it, or", "a second commit");
    check(tca_start(plan), "start");
    expect(tca_start(plan), -EBUSY, "\"twice\": its last start is still running: call tca_wait()",
           "a second start");
    check(tca_plan_cancel(plan), "cancel");
    expect(tca_wait(plan, TCA_DEFAULT), -ECANCELED, "\"twice\"", "wait");
    tca_plan_free(plan);
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

/* ---- puts of 0 bytes ---- */

static void only_nothing(void)
{
    struct tca_layout *empty;
    check(tca_layout_contiguous(0, &empty), "layout");
    const struct tca_put nothing = {.source_layout = empty, .parts = 1};
    struct tca_part part = {.bytes = 0};
    struct tca_plan *plan = new_plan();
    check(tca_plan_put(plan, &nothing), "a put of nothing");
    check(tca_plan_flush(plan), "a flush of nothing");
    check(tca_plan_chain(plan), "a chain");
    check(tca_plan_put(plan, &nothing), "a put of nothing");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit of nothing");
    check(tca_start(plan), "start of nothing");
    check(tca_wait(plan, TCA_DEFAULT), "wait for nothing");
    expect(tca_start_parts(plan, &part, 1), -EINVAL, "the plan has 2", "too few");
    const struct tca_part more[2] = {{.bytes = 0}, {.bytes = 1}};
    expect(tca_start_parts(plan, more, 2), -EINVAL, "part 1: 1 bytes: its put has 0", "a byte");
    check(tca_start_parts(plan, (struct tca_part[2]){{.bytes = 0}}, 2), "start of nothing");
    check(tca_wait(plan, TCA_DEFAULT), "wait for nothing");
    tca_layout_free(empty);
    tca_plan_free(plan);
}

/* Two puts among puts of nothing, whose notification comes like any other. */
static void nothing_among_others(void)
{
    struct tca_region *source, *target;
    struct tca_handle mine, all[2];
    struct tca_layout *empty;
    struct tca_plan *plan = new_plan();
    check(tca_layout_strided(0, 8, 16, &empty), "layout");
    check(tca_region_alloc(session, BYTES, &source), "source");
    check(tca_region_alloc(session, BYTES, &target), "target");
    check(tca_region_handle(target, 0, TCA_ALL, &mine), "handle");
    check(tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT), "exchanging handles");
    const uint8_t *got = tca_region_address(target);
    uint8_t *sent = tca_region_address(source);
    for (uint32_t i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)(1 + i % 100);

    const struct tca_put nothing = {.source_layout = empty, .parts = 1};
    struct tca_put put = {.source = source, .target = all[1 - rank], .bytes = 64, .parts = 1};
    check(tca_plan_put(plan, &nothing), "a put of nothing");
    check(tca_plan_put(plan, &put), "a put");
    check(tca_plan_put(plan, &nothing), "a put of nothing");
    put.source_offset_bytes = put.target_offset_bytes = 64;
    check(tca_plan_put(plan, &put), "a put");
    check(tca_plan_put(plan, &nothing), "a put of nothing");
    check(tca_plan_notify(plan, 1 - rank, 3), "notify");
    check(tca_plan_chain(plan), "a chain");
    check(tca_plan_put(plan, &nothing), "a put of nothing");
    check(tca_plan_notify(plan, 1 - rank, 4), "notify after nothing");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    const struct tca_part parts[6] = {{.source_at_bytes = 7}, /* ignored */
                                      {.source_at_bytes = 1, .bytes = 2},
                                      {.bytes = 0},
                                      {.target_at_bytes = 5, .bytes = 3}};
    check(tca_start_parts(plan, parts, 6), "start");
    check(tca_wait(plan, TCA_DEFAULT), "wait");
    check(tca_notified_wait(session, 1 - rank, 3, TCA_DEFAULT), "notified");
    check(tca_notified_wait(session, 1 - rank, 4, TCA_DEFAULT), "notified after nothing");
    for (uint32_t i = 0; i < 128; i++)
        expect(got[i],
               i < 2                       ? sent[i + 1]
               : i >= 64 + 5 && i < 64 + 8 ? sent[i - 5]
                                           : 0,
               NULL, "a byte");
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_plan_free(plan);
    tca_layout_free(empty);
    check(tca_region_free(source), "free");
    check(tca_region_free(target), "free");
}

/* ---- regions that are in use ---- */

static struct tca_plan *plan_into(struct tca_region *source, const struct tca_handle *to)
{
    struct tca_plan *plan = new_plan();
    check(tca_plan_put(plan, &(struct tca_put){.source = source, .target = *to, .bytes = 64}),
          "put");
    return plan;
}

/* A plan of one's own keeps the region, before and after its commit. */
static void own_target(struct tca_region *source)
{
    struct tca_region *target;
    struct tca_handle handle;
    check(tca_region_alloc(session, BYTES, &target), "region");
    check(tca_region_handle(target, 64, 64, &handle), "handle");
    struct tca_plan *plan = plan_into(source, &handle);
    expect(tca_region_free(target), -EBUSY, "free them first", "before the commit");
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    expect(tca_region_free(target), -EBUSY, "free them first", "before the start");
    check(tca_start(plan), "start");
    check(tca_wait(plan, TCA_DEFAULT), "wait");
    expect(tca_region_free(target), -EBUSY, "free them first", "after the start");
    tca_plan_free(plan);
    check(tca_region_free(target), "free");
}

/* A plan of the other rank does not, and becomes stale, sooner or later. */
static void others_target(struct tca_region *source)
{
    struct tca_region *target;
    struct tca_handle mine, all[2];
    int r = 0;
    check(tca_region_alloc(session, BYTES, &target), "region");
    check(tca_region_handle(target, 0, TCA_ALL, &mine), "handle");
    check(tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT), "exchanging handles");
    struct tca_plan *plan = plan_into(source, &all[1 - rank]);
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    check(tca_region_free(target), "free");
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    while (r >= 0)
        if ((r = tca_start(plan)) >= 0)
            r = tca_wait(plan, TCA_DEFAULT);
    expect(r, -ESTALE, NULL, "a start into a region that was freed");
    tca_plan_free(plan);
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
    check(tca_allgather(session, &own, sizeof(own), all, TCA_DEFAULT), "allgather");
    const struct tca_handle *to = &all[1 - rank];

    puts_rejected(source, to);
    attached_accepted(to);
    too_many(source, to);
    struct tca_plan *plan = make_plan(source, to), *whole = new_plan();
    check(tca_plan_commit(whole, TCA_DEFAULT), "commit");
    starts_rejected(plan, whole);
    started_twice();
    of_another_session(to);
    starts_work(plan, tca_region_address(target));
    only_nothing();
    nothing_among_others();
    own_target(source);
    others_target(source);
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_close(session);
    return wrong;
}
