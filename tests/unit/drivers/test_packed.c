/* Parts of packed bytes: together they equal the result of packed_read(). */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/packed.h"
#include "tests/unit/drivers/kit.h"

enum { MEMORY = 1 << 20, PARTS = 64 };

static void check_range(const struct packed *packed, uint64_t position, uint64_t length)
{
    static uint8_t expected[MEMORY], found[MEMORY];
    struct iovec parts[PARTS + 1];
    uint64_t done = 0;
    const unsigned count = packed_parts(packed, position, length, parts, PARTS);
    cr_assert(count > 0 && count <= PARTS);
    for (unsigned i = 0; i < count; i++) {
        memcpy(found + done, parts[i].iov_base, parts[i].iov_len);
        done += parts[i].iov_len;
    }
    cr_assert(done == length || (done < length && count == PARTS));
    packed_read(packed, expected, position, done);
    cr_assert_arr_eq(found, expected, done);
}

static void check(struct layout *layout, bool has_parts)
{
    static uint8_t memory[MEMORY];
    struct packed packed;
    struct iovec part;
    uint32_t random = 7;
    fill(memory, MEMORY, 3);
    cr_assert(packed_source_init(&packed, memory, layout, NULL) == 0);
    cr_assert((packed_parts(&packed, 0, 1, &part, 1) > 0) == has_parts);
    for (int i = 0; has_parts && i < 1000; i++) {
        const uint64_t position = next_random(&random) % packed.size_bytes;
        check_range(&packed, position, 1 + next_random(&random) % (packed.size_bytes - position));
    }
    packed_deinit(&packed);
    free(layout);
}

static void check_shape(struct shape shape, bool has_parts)
{
    check(shape_layout(&shape), has_parts);
}

Test(packed, parts)
{
    check_shape((struct shape){.block = 100000, .count = 1, .outer = 1, .offset = 64}, true);
    check_shape((struct shape){.block = 1024, .count = 300, .stride = 3000, .outer = 1}, true);
    check_shape((struct shape){.block = 5000,
                               .count = 9,
                               .stride = 6000,
                               .outer = 10,
                               .outer_stride = 60000,
                               .offset = 100},
                true);
    check_shape((struct shape){.block = 1023, .count = 300, .stride = 3000, .outer = 1}, false);
    check_shape((struct shape){.block = 8, .count = 5000, .stride = 16, .outer = 1}, false);
}

/* Long and short blocks, unsorted; and a list in which a search would take long. */
Test(packed, lists)
{
    static int64_t offsets[2000];
    static uint64_t lengths[2000];
    for (uint64_t count = 200; count <= 2000; count += 1800) {
        struct layout *byte, *layout;
        const uint64_t room = MEMORY / count;
        for (uint64_t i = 0; i < count; i++) {
            offsets[i] = (int64_t)((i * 77 % count) * room);
            lengths[i] = i % 2 ? room - 24 : room - i % 32 - 1;
        }
        cr_assert(layout_contiguous(1, &byte) == 0);
        const struct layout_blocks blocks = {
            .count = count, .inner = byte, .lengths = lengths, .offsets = offsets, .unit_bytes = 1};
        cr_assert(layout_indexed(&blocks, &layout) == 0);
        free(byte);
        check(layout, count == 200);
    }
}
