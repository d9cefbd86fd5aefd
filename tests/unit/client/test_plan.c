/* What a plan refuses without asking a daemon. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/session.h"
#include "client/include/tca.h"
#include "proto/limits.h"
#include "tests/unit/client/fake.h"

static struct fake fake;
static struct tca *session;
static struct tca_region *region;
static struct tca_handle handle;

static void setup(void)
{
    fake_start(&fake, FAKE_HONEST);
    cr_assert_eq(
        tca_open(&(struct tca_open_args){.socket = fake.address.sun_path, .size = 1}, &session), 0);
    cr_assert_eq(tca_region_alloc(session, 4096, &region), 0);
    cr_assert_eq(tca_region_handle(region, 1024, 1024, &handle), 0);
}

static void teardown(void)
{
    tca_close(session);
    fake_stop(&fake);
}

TestSuite(plan, .init = setup, .fini = teardown);

Test(plan, arguments_are_checked)
{
    struct tca_plan *plan = NULL;
    char name[65];
    memset(name, 'x', sizeof(name) - 1);
    name[64] = 0;
    const struct tca_plan_args bad[] = {
        {.channel = 4},
        {.flags = 16},
        {.flags = TCA_PLAN_PREFER},
        {.rail = (enum tca_rail)6},
        {.seat = (enum tca_seat)3},
        {.name = name},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(tca_plan_new(session, &bad[i], &plan), -EINVAL, "%zu", i);
    cr_assert_null(plan);
}

Test(plan, puts_are_checked)
{
    struct tca_plan *plan;
    struct tca_layout *twelve, *sixteen, *down, *empty;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_layout_contiguous(0, &empty), 0);
    cr_assert_eq(tca_layout_contiguous(12, &twelve), 0);
    cr_assert_eq(tca_layout_strided(2, 8, 1016, &sixteen), 0);
    cr_assert_eq(tca_layout_strided(2, 8, -64, &down), 0);
    struct tca_handle garbled = handle;
    garbled.bytes[40] ^= 1;

    const struct tca_put bad[] = {
        {.target = handle, .bytes = 8},                    /* no source */
        {.source = region, .target = garbled, .bytes = 8}, /* no handle */
        {.source = region,
         .target = handle,
         .source_layout = twelve,
         .target_layout = sixteen},                          /* sizes differ */
        {.source = region, .target = handle, .bytes = 1025}, /* target too short */
        {.source = region,
         .target = handle,
         .source_layout = twelve,
         .bytes = 8}, /* a part of it */
        {.source = region, .target = handle, .target_layout = sixteen, .bytes = 17}, /* too many */
        {.source = region,
         .target = handle,
         .target_offset_bytes = 1020,
         .bytes = 8}, /* beyond its end */
        {.source = region,
         .target = handle,
         .source_offset_bytes = 4090,
         .bytes = 8}, /* source too short */
        {.source = region,
         .target = handle,
         .source_offset_bytes = UINT64_MAX - 3,
         .bytes = 8}, /* wraps around */
        {.source = region,
         .target = handle,
         .target_offset_bytes = 1,
         .target_layout = sixteen}, /* one byte too far */
        {.source = region,
         .target = handle,
         .source_offset_bytes = 63,
         .source_layout = down}, /* below 0 */
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        cr_expect_eq(tca_plan_put(plan, &bad[i]), -EINVAL, "%zu", i);
    const struct tca_put nothing[] = {
        {.source_layout = empty},
        {.target_layout = empty},
        {.source = region, .target = handle, .source_layout = empty, .target_layout = empty},
        {.target = garbled, .source_layout = empty, .parts = 1},
        {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_DOUBLE},
    };
    for (size_t i = 0; i < sizeof(nothing) / sizeof(nothing[0]); i++)
        cr_expect_eq(tca_plan_put(plan, &nothing[i]), 0, "%zu: %s", i, tca_error_text());
    cr_assert_eq(tca_region_free(region), 0, "nothing holds the region");

    cr_assert_eq(tca_region_alloc(session, 4096, &region), 0);
    const struct tca_put good[] = {
        {.source = region, .target = handle, .bytes = 1024},
        {.source = region, .target = handle, .target_layout = sixteen},
        {.source = region, .target = handle, .target_layout = sixteen, .bytes = 16},
        {.source = region,
         .target = handle,
         .source_offset_bytes = 64,
         .source_layout = down,
         .target_layout = sixteen},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        cr_expect_eq(tca_plan_put(plan, &good[i]), 0, "%zu: %s", i, tca_error_text());
    tca_layout_free(twelve);
    tca_layout_free(sixteen);
    tca_layout_free(down);
    tca_layout_free(empty);
}

/* A put of nothing says so by a layout: it is told from one whose layout was refused. */
Test(plan, a_put_whose_layout_was_refused_is_refused)
{
    const int64_t far = INT64_MAX - 4;
    struct tca_layout *byte, *blocks = NULL;
    cr_assert_eq(tca_layout_contiguous(8, &byte), 0);
    cr_assert_eq(tca_layout_hindexed_block(byte, 1, 2, &far, &blocks), -EOVERFLOW);
    const struct tca_put bad[] = {
        {.source = region, .target = handle, .source_layout = blocks, .target_layout = blocks},
        {.source = region, .target = handle, .source_layout = blocks, .parts = 1},
        {.bytes = 0},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tca_plan *plan;
        cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
        cr_expect_eq(tca_plan_put(plan, &bad[i]), -EINVAL, "%zu", i);
        cr_expect(strstr(tca_error_text(), "neither `bytes` nor a layout"), "%zu: %s", i,
                  tca_error_text());
        cr_expect_eq(tca_plan_commit(plan, TCA_DEFAULT), -EINVAL, "%zu", i);
        cr_expect(strstr(tca_error_text(), "step 0 of chain 0"), "%zu: %s", i, tca_error_text());
        tca_plan_free(plan);
    }
    tca_layout_free(byte);
}

Test(plan, bytes_beside_a_layout_of_another_size_are_refused)
{
    struct tca_plan *plan;
    struct tca_layout *twelve, *spread;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_layout_contiguous(12, &twelve), 0);
    cr_assert_eq(tca_layout_strided(3, 4, 64, &spread), 0);
    struct tca_put puts[] = {
        {.source = region, .target = handle, .source_layout = twelve},
        {.source = region, .target = handle, .target_layout = spread},
        {.source = region, .target = handle, .source_layout = twelve, .target_layout = spread},
    };
    for (size_t i = 0; i < sizeof(puts) / sizeof(puts[0]); i++) {
        for (uint64_t bytes = 8; bytes <= 16; bytes += 8) {
            puts[i].bytes = bytes;
            cr_expect_eq(tca_plan_put(plan, &puts[i]), -EINVAL, "%zu", i);
            cr_expect_not_null(strstr(tca_error_text(), "`bytes`"), "%s", tca_error_text());
            cr_expect_not_null(strstr(tca_error_text(), "a layout of 12 bytes"), "%s",
                               tca_error_text());
        }
        puts[i].bytes = 12;
        cr_expect_eq(tca_plan_put(plan, &puts[i]), 0, "%zu: %s", i, tca_error_text());
    }
    tca_layout_free(twelve);
    tca_layout_free(spread);
}

Test(plan, types_of_both_sides_are_compared)
{
    struct tca_plan *plan;
    struct tca_layout *real, *number, *reals, *numbers, *mirrored, *bytes;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_layout_element(TCA_TYPE_DOUBLE, &real), 0);
    cr_assert_eq(tca_layout_element(TCA_TYPE_INT64, &number), 0);
    cr_assert_eq(tca_layout_array(real, 4, &reals), 0);
    cr_assert_eq(tca_layout_array(number, 4, &numbers), 0);
    cr_assert_eq(tca_layout_vector(real, 4, 1, 3, &mirrored), 0);
    cr_assert_eq(tca_layout_contiguous(32, &bytes), 0);
    struct tca_put put = {
        .source = region, .target = handle, .source_layout = reals, .target_layout = numbers};
    cr_assert_eq(tca_plan_put(plan, &put), -EINVAL);
    cr_assert_not_null(strstr(tca_error_text(), "4 x double"), "%s", tca_error_text());
    cr_assert_not_null(strstr(tca_error_text(), "4 x int64"), "%s", tca_error_text());
    put.target_layout = mirrored;
    cr_assert_eq(tca_plan_put(plan, &put), 0, "%s", tca_error_text());
    put.target_layout = bytes;
    cr_assert_eq(tca_plan_put(plan, &put), 0, "bytes match anything");
    put.target_layout = NULL;
    cr_assert_eq(tca_plan_put(plan, &put), 0);
    put.source_layout = bytes;
    put.target_layout = numbers;
    cr_assert_eq(tca_plan_put(plan, &put), 0);
    struct tca_layout *all[] = {real, number, reals, numbers, mirrored, bytes};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        tca_layout_free(all[i]);
}

/* A plan keeps its own reference to a layout, which may be the same on both sides. */
Test(plan, layouts_may_be_freed)
{
    struct tca_plan *plan;
    struct tca_layout *layout;
    char *memory = tca_region_address(region);
    cr_assert_eq(tca_layout_strided(3, 8, 24, &layout), 0);
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    const struct tca_put both = {.source = region,
                                 .target = handle,
                                 .source_layout = layout,
                                 .target_layout = layout},
                         packed = {.source = region,
                                   .target = handle,
                                   .source_layout = layout,
                                   .target_offset_bytes = 512};
    cr_assert_eq(tca_plan_put(plan, &both), 0, "%s", tca_error_text());
    cr_assert_eq(tca_plan_put(plan, &packed), 0, "%s", tca_error_text());
    cr_assert_null(tca_layout_free(layout));
    for (int i = 0; i < 64; i++)
        memory[i] = (char)(i + 1);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_wait(plan, TCA_DEFAULT), 0);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(memcmp(memory + 1024 + i * 24, memory + i * 24, 8), 0);
        cr_assert_eq(memcmp(memory + 1024 + 512 + i * 8, memory + i * 24, 8), 0);
    }
    cr_assert_eq(memory[1024 + 8], 0);
    cr_assert_null(tca_plan_free(plan));
}

static int refused_put(struct tca_plan *plan)
{
    return tca_plan_put(plan, &(struct tca_put){.source = region, .target = handle, .bytes = 1025});
}

static int refused_notify(struct tca_plan *plan)
{
    return tca_plan_notify(plan, 1, 0);
}

static int refused_wait(struct tca_plan *plan)
{
    return tca_plan_wait(plan, 1, 64, 1);
}

static int refused_chain(struct tca_plan *plan)
{
    int r = 0;
    for (int i = 0; i < 100 && r == 0; i++) {
        cr_assert_eq(tca_plan_chain(plan), 0);
        r = tca_plan_notify(plan, 0, 0);
    }
    return r;
}

/* A program that ignores results learns of it at the commit: the first one counts. */
Test(plan, a_plan_that_lacks_a_step_is_not_committed)
{
    static int (*const refused[])(struct tca_plan * plan) = {refused_put, refused_notify,
                                                             refused_wait, refused_chain};
    static const char *const texts[] = {
        "plan \"mine\", step 1 of chain 0: the target layout touches",
        "plan \"mine\", step 1 of chain 0: rank 1: ",
        "plan \"mine\", step 1 of chain 0: rank 1: ",
        "plan \"mine\", step 0 of chain 64: a plan has at most 64 chains",
    };
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        struct tca_plan *plan;
        cr_assert_eq(tca_plan_new(session, &(struct tca_plan_args){.name = "mine"}, &plan), 0);
        cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
        cr_expect_eq(refused[i](plan), -EINVAL, "%zu", i);
        cr_expect_not_null(strstr(tca_error_text(), texts[i]), "%s", tca_error_text());
        cr_assert_eq(tca_plan_wait(plan, 0, 0, 0), -EINVAL, "a later one");
        if (refused[i] != refused_chain)
            cr_assert_eq(tca_plan_notify(plan, 0, 0), 0, "steps can still be added");
        for (int repeated = 0; repeated < 2; repeated++) {
            cr_expect_eq(tca_plan_commit(plan, TCA_DEFAULT), -EINVAL, "%zu", i);
            cr_expect_not_null(strstr(tca_error_text(), texts[i]), "%s", tca_error_text());
        }
        cr_expect_eq(tca_start(plan), -EINVAL);
        cr_expect_eq(tca_wait(plan, TCA_DEFAULT), -EINVAL);
        tca_plan_free(plan);
    }
}

Test(plan, unmapped_memory_is_not_attached)
{
    struct tca_region *attached = NULL;
    const long page = sysconf(_SC_PAGESIZE);
    char *pages =
        mmap(NULL, (size_t)(3 * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(pages, MAP_FAILED);
    cr_assert_eq(munmap(pages + page, (size_t)page), 0);
    const struct {
        void *address;
        uint64_t bytes;
    } bad[] = {
        {(void *)0x1000, 8}, {pages, (uint64_t)(3 * page)}, {pages + page - 1, 2},
        {pages + page, 1},   {pages, UINT64_MAX - 7},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_expect_eq(tca_region_attach(session, bad[i].address, bad[i].bytes, &attached), -EFAULT,
                     "%zu", i);
        cr_expect_not_null(strstr(tca_error_text(), "mapped"), "%s", tca_error_text());
    }
    cr_assert_null(attached);
    cr_assert_eq(tca_region_attach(session, pages + 1, (uint64_t)page - 1, &attached), 0, "%s",
                 tca_error_text());
    cr_assert_eq(tca_region_free(attached), 0);
}

Test(plan, notifications_are_checked)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_notify(plan, 1, 0), -EINVAL);
    cr_assert_eq(tca_plan_wait(plan, 0, 0, 0), -EINVAL);
    cr_assert_eq(tca_plan_wait(plan, 1, 0, 1), -EINVAL);
    cr_assert_eq(tca_plan_notify(plan, 0, UINT32_MAX), 0);
    cr_assert_eq(tca_notified(session, 1, 0), -EINVAL);
    cr_assert_eq(tca_notified(session, 0, UINT32_MAX), 0);
}

Test(plan, states_are_checked)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_start(plan), -EINVAL);
    cr_assert_eq(tca_test(plan), -EINVAL);
    cr_assert_eq(tca_wait(plan, 0), -EINVAL);
    cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
    cr_assert_eq(tca_plan_chain(plan), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 1), 0);
    cr_assert_eq(tca_plan_commit(plan, -3), -EINVAL);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), -EINVAL);
    cr_assert_eq(tca_plan_notify(plan, 0, 0), -EINVAL);
    cr_assert_eq(tca_plan_chain(plan), -EINVAL);
    cr_assert_eq(tca_test(plan), 1, "nothing runs");
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert_eq(tca_notified(session, 0, 1), 1);
}

/* The rank at the edge puts to no one. */
Test(plan, one_without_steps_does_nothing)
{
    const uint32_t flags[] = {0, TCA_PLAN_TIMED};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct tca_plan *plan;
        struct tca_receipt receipt;
        cr_assert_eq(tca_plan_new(session, &(struct tca_plan_args){.flags = flags[i]}, &plan), 0);
        cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
        for (uint64_t starts = 1; starts <= 3; starts++) {
            cr_assert_eq(tca_start(plan), 0);
            cr_assert_eq(tca_test(plan), 1);
            cr_assert_eq(tca_wait(plan, 0), 0);
            cr_assert_eq(tca_plan_receipt(plan, &receipt), 0);
            cr_expect_eq(receipt.starts, starts);
        }
        cr_expect_eq(receipt.rail, TCA_RAIL_ANY);
        cr_expect_eq(receipt.seat, TCA_SEAT_ANY);
        cr_expect_eq(receipt.status, 0);
        cr_expect_eq(receipt.bytes, 0);
        cr_expect_eq(receipt.descriptors, 0);
        cr_expect_eq(receipt.done_ns != 0, flags[i] != 0);
        tca_plan_free(plan);
    }
}

static unsigned flushes;

static int count_flush(struct driver *shm, struct driver_peer *peer, struct driver_op *op)
{
    flushes++;
    return driver_of_id(DRIVER_SHM)->peer_flush(shm, peer, op);
}

/* A condition for which an earlier step has waited is not checked again: otherwise a long chain
 * would take quadratic time. */
Test(plan, each_put_is_asked_for_once)
{
    enum { PUTS = 16 };
    struct fake ordered;
    struct tca *tca;
    struct tca_plan *plan;
    fake_start(&ordered, FAKE_ORDERED);
    cr_assert_eq(
        tca_open(&(struct tca_open_args){.socket = ordered.address.sun_path, .size = 1}, &tca), 0);
    struct tca_region *memory;
    cr_assert_eq(tca_region_alloc(tca, 4096, &memory), 0);
    cr_assert_eq(tca_region_handle(memory, 0, 4096, &handle), 0);
    struct driver_ops counting = *tca->shm->ops;
    counting.peer_flush = count_flush;
    tca->shm->ops = &counting;
    cr_assert_eq(tca_plan_new(tca, NULL, &plan), 0);
    for (unsigned i = 0; i < PUTS; i++)
        cr_assert_eq(tca_plan_put(plan, &(struct tca_put){.source = memory,
                                                          .source_offset_bytes = 2048 + 8 * i,
                                                          .target = handle,
                                                          .target_offset_bytes = 8 * i,
                                                          .bytes = 8}),
                     0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    for (unsigned starts = 1; starts <= 2; starts++) {
        cr_assert_eq(tca_start(plan), 0);
        cr_assert_eq(tca_wait(plan, TCA_FOREVER), 0);
        cr_expect_eq(flushes, starts * (PUTS - 1), "%u", flushes);
    }
    tca_plan_free(plan);
    tca_close(tca);
    fake_stop(&ordered);
}

Test(plan, chains_without_steps_are_none)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    for (int i = 0; i < 2 * PLAN_CHAINS_MAX; i++)
        cr_assert_eq(tca_plan_chain(plan), 0, "before the first step");
    cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
    cr_assert_eq(tca_plan_chain(plan), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 1), 0);
    cr_assert_eq(tca_plan_chain(plan), 0, "behind the last step");
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert_eq(tca_notified(session, 0, 1), 1);
}

/* Steps can be added after a failed commit. */
Test(plan, steps_may_follow_a_failed_commit)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_commit(plan, -3), -EINVAL);
    cr_assert_eq(tca_plan_notify(plan, 0, 2), 0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_notified(session, 0, 2), 1);
}

Test(plan, chains_are_limited)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    for (int i = 0; i < PLAN_CHAINS_MAX; i++) {
        cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
        cr_assert_eq(tca_plan_chain(plan), 0, "also the last one, to which no step is added");
    }
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_notified_count(session, 0, 0), PLAN_CHAINS_MAX);
}

Test(plan, the_default_timeout_of_a_commit_grows_with_the_steps)
{
    static const int steps[] = {2, 1002};
    uint64_t by_default_ns[2];
    for (int i = 0; i < 2; i++) {
        struct tca_plan *plan;
        cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
        for (int step = 0; step < steps[i]; step++)
            cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
        cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
        by_default_ns[i] = fake.commit_timeout_ns;
    }
    /* what is left of it when it is sent, to which 1 s was added */
    cr_assert_gt(by_default_ns[1], by_default_ns[0] + 500 * 1000000);
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
    cr_assert_eq(tca_plan_commit(plan, 5000000000), 0, "%s", tca_error_text());
    cr_assert_leq(fake.commit_timeout_ns, 5000000000);
}

Test(plan, handles_name_parts)
{
    struct tca_handle part;
    cr_assert_eq(tca_handle_node(&handle), 1);
    cr_assert_eq(tca_handle_bytes(&handle), 1024);
    cr_assert_eq(tca_region_handle(region, 0, TCA_ALL, &part), 0);
    cr_assert_eq(tca_handle_bytes(&part), 4096);
    cr_assert_eq(tca_region_handle(region, 4096, TCA_ALL, &part), 0);
    cr_assert_eq(tca_handle_bytes(&part), 0);
    cr_assert_eq(tca_region_handle(region, 4097, 0, &part), -EINVAL);
    cr_assert_eq(tca_region_handle(region, 1, 4096, &part), -EINVAL);
    part.bytes[0] ^= 1;
    cr_assert_eq(tca_handle_node(&part), -EINVAL);
    cr_assert_eq(tca_handle_bytes(&part), -EINVAL);
}

/* What a new user gets wrong: each error names the object and what to do. */
Test(plan, misuse_is_explained)
{
    struct tca_plan *plan, *bad;
    cr_assert_eq(tca_plan_new(session, &(struct tca_plan_args){.name = "mine"}, &plan), 0);
    cr_assert_eq(tca_plan_new(session, &(struct tca_plan_args){.name = "bad"}, &bad), 0);
    struct tca_handle garbled = handle;
    garbled.bytes[40] ^= 1;
    struct tca_region *none;
#define EXPLAINED(call, code, ...)                                                                 \
    do {                                                                                           \
        static const char *const texts[] = {__VA_ARGS__};                                          \
        cr_expect_eq(call, code, "%s", #call);                                                     \
        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)                              \
            cr_expect(strstr(tca_error_text(), texts[i]), "%s: %s", #call, tca_error_text());      \
    } while (0)
    EXPLAINED(tca_start(plan), -EINVAL, "\"mine\" was not committed", "tca_plan_commit()");
    EXPLAINED(tca_wait(plan, 0), -EINVAL, "\"mine\" was not committed", "tca_plan_commit()");
    EXPLAINED(tca_plan_notify(bad, 7, 0), -EINVAL, "\"bad\"", "rank 7", "from 0 to 0");
    EXPLAINED(tca_plan_commit(bad, TCA_DEFAULT), -EINVAL, "refused", "rank 7");
    EXPLAINED(tca_start(bad), -EINVAL, "\"bad\"", "step 0 of chain 0", "rank 7", "another plan");
    EXPLAINED(tca_test(bad), -EINVAL, "rank 7", "another plan");
    EXPLAINED(tca_notified(session, 1, 64), -EINVAL, "rank 1", "from 0 to 0");
    EXPLAINED(tca_plan_put(bad, &(struct tca_put){.target = handle, .bytes = 8}), -EINVAL,
              "without a source", "`source_address`");
    EXPLAINED(tca_plan_put(bad, &(struct tca_put){.source = region, .target = garbled, .bytes = 8}),
              -EINVAL, "corrupted", "its owner");
    EXPLAINED(
        tca_plan_put(bad, &(struct tca_put){.source = region, .target = handle, .bytes = 5000}),
        -EINVAL, "5000", "4096 bytes");
    EXPLAINED(tca_region_attach(session, NULL, 100, &none), -EINVAL, "100 bytes at", "needed");
    EXPLAINED(tca_region_attach(session, &none, 0, &none), -EINVAL, "0 bytes at", "needed");
#undef EXPLAINED
}
