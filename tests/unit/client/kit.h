/* A session with a fake daemon, and a region that it puts to itself in. */
#pragma once

#include <criterion/criterion.h>

#include "client/include/tca.h"
#include "tests/unit/client/fake.h"

struct kit {
    struct fake fake;
    struct tca *session;
    struct tca_region *region;
    struct tca_handle handle;
    uint8_t *memory;
};

static inline void kit_init(struct kit *kit, enum fake_lie lie)
{
    fake_start(&kit->fake, lie);
    struct tca_open_args args = {.socket = kit->fake.address.sun_path, .size = 1};
    cr_assert_eq(tca_open(&args, &kit->session), 0, "%s", tca_error_text());
    cr_assert_eq(tca_region_alloc(kit->session, 8192, &kit->region), 0, "%s", tca_error_text());
    cr_assert_eq(tca_region_handle(kit->region, 0, TCA_ALL, &kit->handle), 0);
    kit->memory = tca_region_address(kit->region);
}

static inline void kit_deinit(struct kit *kit)
{
    cr_assert_null(tca_close(kit->session));
    fake_stop(&kit->fake);
}

/* 8 bytes from 0 to 4096, and a notification on slot 1; before that, on request, a wait on slot
 * 0. */
static inline struct tca_plan *put_plan(struct kit *kit, uint32_t flags, bool waits)
{
    struct tca_plan *plan;
    cr_assert_eq(
        tca_plan_new(kit->session, &(struct tca_plan_args){.name = "p", .flags = flags}, &plan), 0);
    if (waits)
        cr_assert_eq(tca_plan_wait(plan, 0, 0, 1), 0);
    cr_assert_eq(tca_plan_put(plan, &(struct tca_put){.source = kit->region,
                                                      .target = kit->handle,
                                                      .target_offset_bytes = 4096,
                                                      .bytes = 8}),
                 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 1), 0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    return plan;
}

static inline struct tca_plan *notify_plan(struct kit *kit, uint32_t slot)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(kit->session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, slot), 0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    return plan;
}
