/*
 * targets landings|shares COUNT: tcad announces so many targets in one region to a session, and
 * withdraws them: check-targets counts the instructions of withdraw(). Exits 0 if none is left.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/core/session.h"
#include "client/memory/lane.h"
#include "client/memory/mapping.h"
#include "client/plan/pair_internal.h"
#include "client/plan/plan.h"

enum { RAIL = 1, PAIR = 7, REGION = 3, BYTES = 4096, LANE_SHARES = 4000, SOME = 256 };

static struct tca session;
static struct session_segment segment;
static struct mapped_region region = {.id = REGION, .bytes = BYTES, .own = true, .fd = -1};
static struct layout *layout;
static unsigned live;

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* ---- a driver that only counts ---- */

static int region_add(struct driver *driver, const struct driver_memory *memory,
                      struct driver_region **ret_region)
{
    *ret_region = NULL;
    return 0;
}

static void landing_free(struct driver *driver, struct driver_landing *landing)
{
    live--;
}

static int landing_new(struct driver *driver, const struct driver_landing_args *args,
                       uint32_t index, uint32_t generation, struct driver_landing **ret_landing)
{
    live++;
    *ret_landing = (struct driver_landing *)&live;
    return 0;
}

static int nothing(struct driver *driver, unsigned pieces)
{
    return 0;
}

static int arm(struct driver *driver)
{
    return 0;
}

static int event_fd(struct driver *driver)
{
    return -1;
}

static const struct driver_ops ops = {.region_add = region_add,
                                      .landing_free = landing_free,
                                      .progress = nothing,
                                      .arm = arm,
                                      .event_fd = event_fd};
static struct driver driver = {.ops = &ops};
static const struct driver_seat seat = {.landing_new = landing_new};
static struct pair_driver via = {.rail = RAIL, .seat = &seat, .driver = &driver};

/* ---- announcing ---- */

static Tca__Event event_of(Tca__Event__Kind kind)
{
    Tca__Event event = TCA__EVENT__INIT;
    event.kind = kind;
    return event;
}

static void land(uint32_t first, uint32_t count)
{
    Tca__PairLanding landings[SOME], *list[SOME];
    Tca__Event event = event_of(TCA__EVENT__KIND__LANDING);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = &landings[i];
        tca__pair_landing__init(list[i]);
        list[i]->pair = PAIR;
        list[i]->rail = RAIL;
        list[i]->region = REGION;
        list[i]->index = list[i]->generation = first + i;
        list[i]->layout = (ProtobufCBinaryData){layout_bytes(layout), (uint8_t *)layout};
    }
    event.landings = list;
    event.n_landings = count;
    session_event(&session, &event, NULL);
}

static int memory(size_t bytes)
{
    int fd = memfd_create("targets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
    return fd;
}

static void share(uint32_t number)
{
    static int source_fd = -1, lane_fd = -1;
    Tca__Share share = TCA__SHARE__INIT;
    Tca__Event event = event_of(TCA__EVENT__KIND__SHARE);
    const bool first = number % LANE_SHARES == 1;
    if (source_fd < 0)
        source_fd = memory(BYTES);
    if (first)
        lane_fd = memory(sizeof(struct lane_segment));
    struct frame frame = {.fds = {dup(source_fd), lane_fd}, .fd_count = 2};
    share.rank = (number - 1) / LANE_SHARES;
    share.id = share.target = number;
    share.source_region = REGION + 1;
    share.source_bytes = BYTES;
    share.source_fd = 1;
    share.lane_fd = first ? 2 : 0;
    share.target_region = REGION;
    share.source_layout = (ProtobufCBinaryData){layout_bytes(layout), (uint8_t *)layout};
    event.share = &share;
    session_event(&session, &event, &frame);
    if (frame.fds[0] >= 0)
        close(frame.fds[0]);
    must(lane_in_of(&session, share.rank) && lane_in_of(&session, share.rank)->error == 0);
}

/* ---- withdrawing: what is counted ---- */

void withdraw(uint32_t *numbers, uint32_t count);
__attribute__((noinline)) void withdraw(uint32_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i += SOME) {
        Tca__Event event = event_of(TCA__EVENT__KIND__WITHDRAWN);
        event.ids = &numbers[i];
        event.n_ids = count - i < SOME ? count - i : SOME;
        session_event(&session, &event, NULL);
    }
}

int main(int argc, char **argv)
{
    must(argc == 3);
    const bool landings = strcmp(argv[1], "landings") == 0;
    const uint32_t count = (uint32_t)atoi(argv[2]);
    uint32_t *numbers = calloc(count, sizeof(*numbers));
    const struct driver_config config = {.segment_bytes = 0};
    const struct driver_events events = {.context = &session};
    must(driver_of_id(DRIVER_SHM)->open(&config, &events, &session.shm) == 0);
    session.sources = count / LANE_SHARES + 1;
    session.segment = &segment;
    session.notify = aligned_alloc(LINE_BYTES, sizeof(*session.notify));
    region.base = aligned_alloc(BYTES, BYTES);
    must(numbers && session.notify && region.base && layout_contiguous(8, &layout) == 0);
    memset(session.notify, 0, sizeof(*session.notify));
    must(pairs_expect(&session) == 0);
    session.pairs->drivers = &via;
    mapping_insert(&session, &region);
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = i + 1;
        if (!landings)
            share(i + 1);
        else if (i % SOME == 0)
            land(i + 1, count - i < SOME ? count - i : SOME);
    }
    must(session.targets.count == count && live == (landings ? count : 0));
    withdraw(numbers, count);
    must(session.targets.count == 0 && live == 0 && !region.targets);
    return 0;
}
