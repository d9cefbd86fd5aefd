/* A daemon that lies: every lie ends in an error with a text, and has no other effect. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/include/tca.h"
#include "proto/handle.h"
#include "tests/unit/client/fake.h"

struct stage {
    int opened;
    int allocated;
    int committed;
};

/* As far as it goes: open, allocate, commit a plan. */
static struct stage walk(struct fake *fake, int64_t commit_timeout_ns)
{
    struct stage stage = {1, 1, 1};
    struct tca_open_args args = {.socket = fake->address.sun_path, .size = 1};
    struct tca *session;
    struct tca_region *region;
    struct tca_plan *plan;
    struct tca_handle handle;

    stage.opened = tca_open(&args, &session);
    if (stage.opened < 0)
        return stage;
    stage.allocated = tca_region_alloc(session, 3 * 4096, &region);
    if (stage.allocated == 0) {
        cr_assert_eq(tca_region_handle(region, 4096, TCA_ALL, &handle), 0);
        cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
        cr_assert_eq(
            tca_plan_put(plan, &(struct tca_put){.source = region, .target = handle, .bytes = 8}),
            0);
        cr_assert_eq(tca_plan_notify(plan, 0, 5), 0);
        stage.committed = tca_plan_commit(plan, commit_timeout_ns);
    }
    cr_assert_null(tca_close(session));
    return stage;
}

struct expectation {
    enum fake_lie lie;
    struct stage stage;
};

static const struct expectation expectations[] = {
    {FAKE_HONEST, {0, 0, 0}},
    {FAKE_DAEMON_SEAT, {0, 0, 0}},
    {FAKE_MIXED_SEATS, {0, 0, 0}},
    {FAKE_LATE_COMMIT, {0, 0, -ETIMEDOUT}},
    {FAKE_ORDERED, {0, 0, 0}},
    {FAKE_VERSION, {-EPROTONOSUPPORT, 1, 1}},
    {FAKE_FRAME_VERSION, {-EPROTONOSUPPORT, 1, 1}},
    {FAKE_NO_DESCRIPTORS, {-EPROTO, 1, 1}},
    {FAKE_SHORT_SEGMENT, {-EPROTO, 1, 1}},
    {FAKE_UNSEALED_SEGMENT, {-EPROTO, 1, 1}},
    {FAKE_SEGMENT_VERSION, {-EPROTO, 1, 1}},
    {FAKE_GARBAGE, {-EPROTO, 1, 1}},
    {FAKE_WRONG_ANSWER, {0, -EPROTO, 1}},
    {FAKE_SHORT_REGION, {0, -EPROTO, 1}},
    {FAKE_BAD_HANDLE, {0, -EPROTO, 1}},
    {FAKE_PLAN_NUMBER, {0, 0, -EPROTO}},
    {FAKE_CHAIN_COUNT, {0, 0, -EPROTO}},
    {FAKE_SEAT, {0, 0, -EPROTO}},
    {FAKE_LONG_RAIL, {-EPROTO, 1, 1}},
    {FAKE_UNKNOWN_RAIL, {0, 0, -EPROTO}},
    {FAKE_FEW_MAPPINGS, {0, 0, -EPROTO}},
    {FAKE_DESCRIPTOR_INDEX, {0, 0, -EPROTO}},
    {FAKE_UNKNOWN_REGION, {0, 0, -EPROTO}},
    {FAKE_OFFSET, {0, 0, -EPROTO}},
    {FAKE_NOTIFY_BYTES, {0, 0, -EPROTO}},
    {FAKE_LINE, {0, 0, -EPROTO}},
    {FAKE_SILENT_COMMIT, {0, 0, -ETIMEDOUT}},
    {FAKE_HANG_UP, {0, 0, -EHOSTDOWN}},
    {FAKE_REACH_DESCRIPTOR, {0, 0, 0}},
    {FAKE_REACH_SHORT, {0, 0, 0}},
    {FAKE_REACH_FILE, {0, 0, 0}},
    {FAKE_REACH_BEYOND, {0, 0, 0}},
};

Test(lies, each_is_an_error)
{
    cr_assert_eq(sizeof(expectations) / sizeof(expectations[0]), FAKE_LIES, "a lie is not told");
    for (size_t i = 0; i < sizeof(expectations) / sizeof(expectations[0]); i++) {
        const struct expectation *expectation = &expectations[i];
        struct fake fake;
        fake_start(&fake, expectation->lie);
        bool silent = expectation->stage.committed == -ETIMEDOUT;
        struct stage stage = walk(&fake, silent ? 1000000 : TCA_DEFAULT);
        cr_expect_eq(stage.opened, expectation->stage.opened, "lie %d: open %d: %s",
                     expectation->lie, stage.opened, tca_error_text());
        cr_expect_eq(stage.allocated, expectation->stage.allocated, "lie %d: alloc %d: %s",
                     expectation->lie, stage.allocated, tca_error_text());
        cr_expect_eq(stage.committed, expectation->stage.committed, "lie %d: commit %d: %s",
                     expectation->lie, stage.committed, tca_error_text());
        if (stage.opened < 0 || stage.allocated < 0 || stage.committed < 0)
            cr_expect_neq(tca_error_text()[0], 0);
        fake_stop(&fake);
    }
}

/* The daemon has committed what the library refuses: it must be released. */
Test(lies, a_refused_commit_is_released)
{
    struct fake fake;
    fake_start(&fake, FAKE_OFFSET);
    cr_assert_eq(walk(&fake, TCA_DEFAULT).committed, -EPROTO);
    fake_stop(&fake);
    cr_assert_eq(fake.released, 1);
}

/* Writes to all of the reached memory. NULL: `text` is the error's. */
static void *reach(enum fake_lie lie, char text[256])
{
    struct fake fake;
    fake_start(&fake, lie);
    struct tca_open_args args = {.socket = fake.address.sun_path, .size = 1};
    struct tca *session;
    struct tca_handle handle;
    handle_encode(
        &(struct handle){.node = 1, .region = 44, .offset_bytes = 96, .length_bytes = 8096},
        handle.bytes);
    cr_assert_eq(tca_open(&args, &session), 0);
    uint8_t *address = tca_reach(session, &handle);
    snprintf(text, 256, "%s", tca_error_text());
    if (address) {
        memset(address, 1, 8096);
        cr_expect_eq(tca_reach(session, &handle), address, "once more");
        fake_event(&fake, TCA__EVENT__KIND__REGION_GONE, 44, -ESTALE);
        cr_expect_eq(tca_dispatch(session), 0);
        cr_expect_eq(address[8095], 1, "is there until the session ends");
        cr_expect_null(tca_reach(session, &handle));
        cr_expect_not_null(strstr(tca_error_text(), "freed"), "%s", tca_error_text());
    }
    cr_assert_null(tca_close(session));
    fake_stop(&fake);
    return address;
}

Test(lies, what_is_reached_is_what_was_named)
{
    static const struct {
        enum fake_lie lie;
        const char *text;
    } lies[] = {
        {FAKE_REACH_DESCRIPTOR, "used descriptor 2"},
        {FAKE_REACH_SHORT, "region of 4096 bytes for a handle of bytes 96 + 8096"},
        {FAKE_REACH_FILE, "has 4096 bytes; tcad announced 8192"},
        {FAKE_REACH_BEYOND, "from 1048576 on"},
    };
    char text[256];
    cr_expect_not_null(reach(FAKE_HONEST, text), "%s", text);
    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        cr_expect_null(reach(lies[i].lie, text), "lie %d", lies[i].lie);
        cr_expect_not_null(strstr(text, lies[i].text), "lie %d: %s", lies[i].lie, text);
    }
}
