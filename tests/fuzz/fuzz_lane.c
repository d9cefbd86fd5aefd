/*
 * A lane that the other end has written: any entries, head and drainer. Either end must return from
 * draining it, write nothing but the target of the put that it knows, and leave head and drainer in
 * a usable state.
 */
#include <errno.h>
#include <string.h>

#include "drivers/shm/lane.h"
#include "tests/fuzz/fuzz.h"

enum { SIZE = 3000, ROOM = 8192, GUARD = 0x5a };

static struct lane_segment segment;
static uint8_t notify[sizeof(struct notify_segment)] __attribute__((aligned(LINE_BYTES)));

static void check_guard(const uint8_t *memory, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        FUZZ_REQUIRE(memory[i] == GUARD);
}

static void drain(struct lane *lane, const uint8_t *data, size_t bytes)
{
    static uint8_t source[ROOM], target[ROOM];
    struct layout *layout;
    struct copy_program *program;
    FUZZ_REQUIRE(layout_contiguous(SIZE, &layout) == 0 &&
                 copy_program_new(layout, layout, &program) == 0);
    struct lane_put put = {.id = 1,
                           .size_bytes = SIZE,
                           .program = program,
                           .target = target + 1024,
                           .source = source + 1024};
    memset(&segment, 0, sizeof(segment));
    memset(target, GUARD, sizeof(target));
    memcpy(&segment, data, bytes < sizeof(segment) ? bytes : sizeof(segment));
    FUZZ_REQUIRE(lane_add(lane, &put) == 0);
    for (unsigned i = 0; i < 3; i++) {
        int r = lane_drain(lane);
        FUZZ_REQUIRE(r == 0 || r == -EAGAIN || (r == -ENOENT && lane->self == LANE_RECEIVER));
        FUZZ_REQUIRE(lane_backlog(lane) <= LANE_ENTRIES);
        FUZZ_REQUIRE(lane_published(lane) - lane->next <= LANE_ENTRIES);
    }
    check_guard(target, 0, 1024);
    check_guard(target, 1024 + SIZE, ROOM);
    lane_remove(lane, &put);
    copy_program_free(program);
    free(layout);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    for (enum lane_drainer self = LANE_RECEIVER; self <= LANE_SENDER; self++) {
        struct lane lane;
        lane_init(&lane, &segment, self);
        lane.receiver = (struct notify_segment *)notify;
        drain(&lane, data, bytes);
        lane_deinit(&lane);
    }
    return 0;
}
