#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "proto/heartbeat.h"

static const uint64_t key[2] = {0x0123456789abcdef, 0xfedcba9876543210},
                      other[2] = {0x0123456789abcdee, 0xfedcba9876543210};
static const struct heartbeat sent = {.from = 3, .to = 65535, .sequence = 1ull << 40};

Test(heartbeat, is_what_was_sent)
{
    uint8_t bytes[HEARTBEAT_BYTES];
    struct heartbeat heartbeat;
    heartbeat_sign(&sent, key, bytes);
    cr_assert_eq(heartbeat_parse(bytes, sizeof(bytes), &heartbeat), 0);
    cr_expect_eq(heartbeat.from, sent.from);
    cr_expect_eq(heartbeat.to, sent.to);
    cr_expect_eq(heartbeat.sequence, sent.sequence);
    cr_expect(heartbeat_is_signed(bytes, key));
    cr_expect_not(heartbeat_is_signed(bytes, other));
}

Test(heartbeat, of_another_length)
{
    uint8_t bytes[HEARTBEAT_BYTES + 1] = {0};
    struct heartbeat heartbeat;
    heartbeat_sign(&sent, key, bytes);
    for (size_t count = 0; count <= sizeof(bytes); count++)
        cr_expect_eq(heartbeat_parse(bytes, count, &heartbeat),
                     count == HEARTBEAT_BYTES ? 0 : -EPROTO, "%zu bytes", count);
}

/* Every bit counts. */
Test(heartbeat, changed_on_its_way)
{
    uint8_t good[HEARTBEAT_BYTES], bytes[HEARTBEAT_BYTES];
    heartbeat_sign(&sent, key, good);
    for (unsigned bit = 0; bit < 8 * HEARTBEAT_BYTES; bit++) {
        memcpy(bytes, good, sizeof(bytes));
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        cr_expect_not(heartbeat_is_signed(bytes, key), "bit %u", bit);
    }
}
