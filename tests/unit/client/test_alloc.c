/* tca_alloc() in the regions of a session; addresses and what they belong to. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "client/include/tca.h"
#include "tests/unit/client/fake.h"

static struct fake fake;
static struct tca *session;

static void setup(void)
{
    fake_start(&fake, FAKE_HONEST);
    cr_assert_eq(
        tca_open(&(struct tca_open_args){.socket = fake.address.sun_path, .size = 1}, &session), 0);
}

static void teardown(void)
{
    tca_close(session);
    fake_stop(&fake);
}

TestSuite(alloc, .init = setup, .fini = teardown);

static void *take(uint64_t bytes)
{
    void *memory = NULL;
    cr_assert_eq(tca_alloc(session, bytes, &memory), 0, "%s", tca_error_text());
    return memory;
}

Test(alloc, memory_lies_in_regions)
{
    struct tca_region *region, *same;
    uint64_t offset, at;
    char *a = take(100), *b = take(100000);
    memset(a, 1, 100);
    memset(b, 2, 100000);
    cr_assert_eq(tca_region_of(session, a, &region, &offset), 0);
    cr_assert_eq((char *)tca_region_address(region) + offset, a);
    cr_assert_eq(tca_region_of(session, a + 99, &same, &at), 0);
    cr_assert(same == region && at == offset + 99);
    cr_assert_eq(tca_region_free(region), -EINVAL, "it is the allocator's");
    cr_assert_eq(tca_free(session, a), 0);
    cr_assert_eq(tca_free(session, b), 0);
}

Test(alloc, what_makes_no_sense_is_refused)
{
    struct tca_region *region = NULL;
    uint64_t offset;
    void *none = NULL;
    char *block;
    int on_stack;
    cr_assert_eq(tca_free(session, &on_stack), -EINVAL);
    cr_assert_eq(tca_free(session, NULL), 0);
    cr_assert_eq(tca_alloc(session, 0, &none), -EINVAL);
    cr_assert_eq(tca_alloc(session, UINT64_MAX, &none), -ENOMEM);
    cr_assert_null(none);
    block = take(64);
    cr_assert_eq(tca_free(session, block + 16), -EINVAL);
    cr_assert_eq(tca_free(session, block), 0);
    cr_assert_eq(tca_free(session, block), -EINVAL);
    cr_assert_not_null(strstr(tca_error_text(), "tca_alloc"));
    cr_assert_eq(tca_region_of(session, &on_stack, &region, &offset), -EINVAL);
    cr_assert_null(region);
}

Test(alloc, regions_are_found_too)
{
    struct tca_region *region, *found;
    uint64_t offset;
    cr_assert_eq(tca_region_alloc(session, 8192, &region), 0);
    char *base = tca_region_address(region);
    cr_assert_eq(tca_region_of(session, base + 8191, &found, &offset), 0);
    cr_assert(found == region && offset == 8191);
    cr_assert_eq(tca_region_of(session, base + 8192, &found, &offset), -EINVAL);
    cr_assert_eq(tca_region_of(session, base - 1, &found, &offset), -EINVAL);
}

Test(alloc, puts_take_addresses)
{
    struct tca_handle target;
    struct tca_region *region;
    struct tca_plan *plan;
    uint64_t offset;
    char *a = take(64), *b = take(64), local[64];
    cr_assert_eq(tca_handle_of(session, b, 64, &target), 0);
    cr_assert_eq(tca_handle_bytes(&target), 64);
    cr_assert_eq(tca_handle_of(session, local, 64, &target), -EINVAL);
    cr_assert_eq(tca_handle_of(session, b, UINT64_MAX - 1, &target), -EINVAL);
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(
        tca_plan_put(plan,
                     &(struct tca_put){.source_address = local, .target = target, .bytes = 64}),
        -EINVAL);
    cr_assert_eq(tca_region_of(session, a, &region, &offset), 0);
    cr_assert_eq(tca_plan_put(plan, &(struct tca_put){.source = region,
                                                      .source_address = a,
                                                      .target = target,
                                                      .bytes = 64}),
                 -EINVAL, "a region or an address");
    tca_plan_free(plan);
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(
        tca_plan_put(plan, &(struct tca_put){.source_address = a, .target = target, .bytes = 64}),
        0);
    cr_assert_eq(tca_plan_notify(plan, 0, 0), 0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    memset(a, 7, 64);
    memset(b, 0, 64);
    cr_assert_eq(tca_start(plan), 0);
    cr_assert_eq(tca_notified_wait(session, 0, 0, TCA_DEFAULT), 0);
    cr_assert_arr_eq(a, b, 64);
}
