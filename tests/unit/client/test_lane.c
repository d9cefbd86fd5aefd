/* A receiver's library, and a peer (this test) that shares puts with it: accepted puts are
 * copied, others are rejected with an error, and nothing is lost or kept. The fake's only rank
 * is the peer. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/include/tca.h"
#include "client/memory/lane.h"
#include "drivers/shm/lane.h"
#include "proto/notify.h"
#include "tests/unit/client/fake.h"

enum { BYTES = 65536, TARGET = 3 /* the fake's region */, SOURCE = 40 };

static struct fake fake;
static struct tca *session;
static struct tca_region *region;
static uint8_t *target, *source;
static int source_fd, lane_fd;
static struct lane lane; /* ours: the sender's */
static struct layout *layout;
static uint64_t raised;

static int memory(const char *name, size_t bytes, bool sealed, void **ret_base)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    if (sealed)
        cr_assert(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    if (ret_base)
        *ret_base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return fd;
}

static void set_up(void)
{
    void *base;
    fake_start(&fake, FAKE_HONEST);
    struct tca_open_args args = {.socket = fake.address.sun_path, .size = 1};
    cr_assert_eq(tca_open(&args, &session), 0, "%s", tca_error_text());
    cr_assert_eq(tca_region_alloc(session, BYTES, &region), 0);
    target = tca_region_address(region);
    source_fd = memory("lane-source", BYTES, true, &base);
    source = base;
    for (unsigned i = 0; i < BYTES; i++)
        source[i] = (uint8_t)(i * 7 + i / 256 + 1);
    lane_fd = memory("lane", sizeof(struct lane_segment), true, &base);
    lane_init(&lane, base, LANE_SENDER);
    lane.receiver = fake.notify;
    cr_assert_eq(layout_contiguous(4096, &layout), 0);
    raised = 0;
}

static void tear_down(void)
{
    if (session)
        cr_assert_null(tca_close(session));
    session = NULL;
    fake_stop(&fake);
    munmap(lane.segment, sizeof(struct lane_segment));
    lane_deinit(&lane);
    munmap(source, BYTES);
    close(source_fd);
    close(lane_fd);
    free(layout);
}

static Tca__Share share_of(uint32_t id)
{
    Tca__Share share =
        BODY_OF(share, .id = id, .target = id, .source_region = SOURCE, .source_fd = 1,
                .lane_fd = 2, .source_bytes = BYTES, .source_offset = 128, .target_region = TARGET,
                .target_offset = 8192);
    share.source_layout = share.target_layout =
        (ProtobufCBinaryData){layout_bytes(layout), (uint8_t *)layout};
    return share;
}

static void offer(const Tca__Share *share)
{
    fake_share(&fake, share, (int[]){source_fd, lane_fd}, 2);
}

static void withdraw(uint32_t id)
{
    fake_withdraw(&fake, id);
}

static void publish(uint32_t id)
{
    lane_publish(&lane, id, LANE_DIRECT, 0, 4096);
}

/* On slot 0. */
static void raise_notification(void)
{
    notify_raise_direct(&fake.notify->lines[0], ++raised, 0);
    notify_wake(fake.notify);
}

static bool landed(void)
{
    return memcmp(target + 8192, source + 128, 4096) == 0;
}

/* Whether this process has more mappings of the source than the test itself. */
static bool source_is_mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    unsigned count = 0;
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "lane-source") != NULL;
    fclose(maps);
    return count > 1;
}

TestSuite(client_lane, .init = set_up, .fini = tear_down);

Test(client_lane, what_is_offered_lands)
{
    Tca__Share share = share_of(1);
    offer(&share);
    publish(1);
    cr_assert_eq(tca_notified(session, 0, 0), 0);
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert(landed() && source_is_mapped());

    memset(target + 8192, 0, 4096);
    withdraw(1);
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert(!source_is_mapped(), "it is not kept");

    share.id = 2;
    offer(&share); /* and can come again; its lane descriptor is harmless */
    publish(2);
    raise_notification();
    cr_assert_eq(tca_notified_wait(session, 0, 0, TCA_DEFAULT), 0);
    cr_assert(landed());
}

Test(client_lane, entries_outlive_their_offer)
{
    Tca__Share share = share_of(1);
    offer(&share);
    cr_assert_eq(tca_notified(session, 0, 0), 0);
    publish(1);
    raise_notification();
    withdraw(1); /* the sender has ended */
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert(landed());
}

/* While this process waits for a receiver that may be waiting for it. */
Test(client_lane, lanes_are_drained_meanwhile)
{
    const Tca__Share share = share_of(1);
    lanes_help(session);
    offer(&share);
    cr_assert_eq(tca_notified(session, 0, 0), 0);
    publish(1);
    lanes_help(session);
    cr_expect(landed());
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    fake_event(&fake, TCA__EVENT__KIND__RANKS_GONE, 0, 0);
    tca_notified(session, 0, 0);
    lanes_help(session); /* of those that are left */
}

Test(client_lane, a_sender_dies_at_work)
{
    Tca__Share share = share_of(1);
    offer(&share);
    publish(1);
    raise_notification();
    atomic_store(&lane.segment->drainer, LANE_SENDER);
    cr_assert_eq(tca_notified(session, 0, 0), 0, "it may be at work still");
    withdraw(1);
    cr_assert_eq(tca_notified(session, 0, 0), 0);
    cr_assert(!landed() && source_is_mapped());
    atomic_store(&fake.notify->source_state[0], SOURCE_DEAD);
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert(landed() && !source_is_mapped());
    cr_assert_eq(tca_notified(session, 0, 0), -EOWNERDEAD);
}

Test(client_lane, a_region_is_freed_first)
{
    Tca__Share share = share_of(1), late = share_of(2);
    offer(&share);
    cr_assert_eq(tca_notified(session, 0, 0), 0);
    publish(1);
    raise_notification();
    cr_assert_eq(tca_region_free(region), 0);
    cr_assert(!source_is_mapped());
    offer(&late); /* crossed it on its way */
    publish(2);
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert_eq(lane_backlog(&lane), 0);
}

/* Before the daemon takes notifications, all data must be copied, also of an unprocessed offer. */
Test(client_lane, daemon_seats_begin_with_an_empty_lane)
{
    Tca__Share share = share_of(1);
    struct tca_plan *plan;
    offer(&share);
    publish(1);
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_wait(plan, 0, 3, 1), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 4), 0);
    atomic_store(&lane.segment->drainer, LANE_SENDER);
    cr_assert_eq(tca_plan_commit(plan, 1000000), -ETIMEDOUT);
    cr_assert_eq(fake.notify->strict, 0, "nothing came of it");
    cr_assert(!landed());
    atomic_store(&lane.segment->drainer, LANE_NOBODY);
    fake.lie = FAKE_DAEMON_SEAT;
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0, "%s", tca_error_text());
    cr_assert(landed() && fake.notify->strict == 1);
    cr_assert_null(tca_plan_free(plan));
    cr_assert_eq(fake.notify->strict, 0);
}

enum what {
    NO_LAYOUT,
    SHORT_LAYOUT,
    GARBAGE_LAYOUT,
    OTHER_SIZE,
    TARGET_OFFSET,
    SOURCE_OFFSET,
    HUGE_OFFSET,
    SOURCE_BYTES,
    SOURCE_DESCRIPTOR,
    UNSEALED,
    WHATS,
};

static void spoil(enum what what, Tca__Share *share, uint8_t *garbage, struct layout *other,
                  int *fd)
{
    switch (what) {
    case NO_LAYOUT:
        share->source_layout = (ProtobufCBinaryData){0};
        break;
    case SHORT_LAYOUT:
        share->target_layout.len -= 8;
        break;
    case GARBAGE_LAYOUT:
        memset(garbage, 0xa7, share->target_layout.len);
        share->target_layout.data = garbage;
        break;
    case OTHER_SIZE:
        share->target_layout = (ProtobufCBinaryData){layout_bytes(other), (uint8_t *)other};
        break;
    case TARGET_OFFSET:
        share->target_offset = BYTES - 4095;
        break;
    case SOURCE_OFFSET:
        share->source_offset = BYTES - 4095;
        break;
    case HUGE_OFFSET:
        share->target_offset = UINT64_MAX - 100;
        break;
    case SOURCE_BYTES:
        share->source_bytes = 2 * BYTES;
        break;
    case SOURCE_DESCRIPTOR:
        share->source_fd = 3;
        break;
    default:
        *fd = memory("unsealed", BYTES, false, NULL);
        break;
    }
}

/* Data left to this process before the sender could know fails the wait for it; from then on the
 * sender copies. */
Test(client_lane, what_makes_no_sense_is_left_to_the_sender)
{
    tear_down();
    for (enum what what = 0; what < WHATS; what++) {
        set_up();
        uint8_t garbage[4096];
        struct layout *other;
        cr_assert_eq(layout_contiguous(4097, &other), 0);
        Tca__Share share = share_of(1), good = share_of(2);
        int fd = source_fd;
        spoil(what, &share, garbage, other, &fd);
        publish(1);
        fake_share(&fake, &share, (int[]){fd, lane_fd}, 2);
        offer(&good);
        raise_notification();
        cr_assert_eq(tca_notified(session, 0, 0), -EPROTO, "%d", what);
        cr_assert(strstr(tca_error_text(), "cannot copy data that rank 0"), "%s", tca_error_text());
        cr_assert_eq(fake.notify->strict, 1);
        publish(2);
        raise_notification();
        cr_assert_eq(tca_notified(session, 0, 0), -EPROTO);
        cr_assert_eq(lane_drain(&lane), 0); /* the sender is strict now */
        cr_assert_eq(tca_notified(session, 0, 0), 1);
        cr_assert_eq(tca_notified(session, 0, 0), 1);
        publish(1); /* not ours: the sender is about to copy it */
        raise_notification();
        cr_assert_eq(tca_notified(session, 0, 0), 0);
        cr_assert_eq(lane_drain(&lane), 0);
        cr_assert_eq(tca_notified(session, 0, 0), 1);
        publish(2); /* and the rest is copied */
        raise_notification();
        cr_assert_eq(tca_notified(session, 0, 0), 1);
        cr_assert(landed());
        if (fd != source_fd)
            close(fd);
        free(other);
        if (what + 1 < WHATS)
            tear_down();
    }
}

/* Without the lane, the order of copies is unknown. */
Test(client_lane, a_lane_that_cannot_be_had_ends_the_session)
{
    tear_down();
    for (unsigned i = 0; i < 4; i++) {
        set_up();
        Tca__Share share = share_of(i == 3 ? 0 : 1);
        int fd = i == 1   ? memory("short", 4096, true, NULL)
                 : i == 2 ? memory("unsealed", sizeof(struct lane_segment), false, NULL)
                          : lane_fd;
        fake_share(&fake, &share, (int[]){source_fd, fd}, i == 0 ? 1 : 2);
        raise_notification();
        cr_assert_eq(tca_notified(session, 0, 0), -EPROTO, "%u", i);
        cr_assert_eq(tca_notified_wait(session, 0, 0, TCA_DEFAULT), -EPROTO, "%u, again", i);
        if (fd != lane_fd)
            close(fd);
        if (i < 3)
            tear_down();
    }
}

Test(client_lane, ranks_and_ids_that_nobody_has)
{
    Tca__Share share = share_of(1);
    share.rank = 1;
    offer(&share);
    share.rank = UINT32_MAX;
    offer(&share);
    withdraw(1);
    withdraw(77);
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    share.rank = 0;
    offer(&share);
    withdraw(77);
    publish(1);
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), 1);
    cr_assert(landed());
}

/* The event is read while a chain checks for its data: it takes effect afterwards. */
Test(client_lane, news_in_the_middle_of_a_step)
{
    struct tca_plan *plan;
    cr_assert_eq(tca_plan_new(session, NULL, &plan), 0);
    cr_assert_eq(tca_plan_wait(plan, 0, 0, 1), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 1), 0);
    cr_assert_eq(tca_plan_wait(plan, 0, 0, 1), 0);
    cr_assert_eq(tca_plan_notify(plan, 0, 1), 0);
    cr_assert_eq(tca_plan_commit(plan, TCA_DEFAULT), 0);
    cr_assert_eq(tca_start(plan), 0);
    raise_notification();
    fake_event(&fake, TCA__EVENT__KIND__RANKS_GONE, 0, 0);
    cr_assert_eq(tca_wait(plan, TCA_DEFAULT), -EOWNERDEAD);
    cr_assert_eq(tca_notified_count(session, 0, 1), 1, "what it had notified before counts, once");
    cr_assert_eq(tca_start(plan), -EOWNERDEAD);
    cr_assert_eq(tca_notified_count(session, 0, 0), 0);
}

/* tcad sends the source with each share. */
Test(client_lane, a_share_without_its_source)
{
    Tca__Share share = share_of(1);
    share.source_fd = 0;
    offer(&share);
    publish(1);
    raise_notification();
    cr_assert_eq(tca_notified(session, 0, 0), -EPROTO);
    cr_assert(!source_is_mapped());
}
