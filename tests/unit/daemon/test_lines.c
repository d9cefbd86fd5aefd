/* The table of notification lines: against a plain list, full, with keys that collide, and with a
 * client that writes into its copy. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon/sessions/lines.h"
#include "proto/notify.h"
#include "tests/unit/proto/random.h"

enum { BINDS = 20000, RANKS = 64, SLOTS = 64, LINES = RANKS * SLOTS };

static struct lines lines;

static void set_up(void)
{
    void *memory = mmap(NULL, NOTIFY_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert(memory != MAP_FAILED);
    lines = (struct lines){.segment = memory};
}

static void tear_down(void)
{
    munmap(lines.segment, NOTIFY_SEGMENT_BYTES);
    lines_deinit(&lines);
}

TestSuite(lines, .init = set_up, .fini = tear_down);

static uint32_t bind(uint32_t rank, uint32_t slot)
{
    uint32_t line = NOTIFY_NO_LINE;
    if (!lines_find(&lines, rank, slot, &line))
        cr_assert_eq(lines_add(&lines, rank, slot, &line), 0);
    return line;
}

/* The slots of the test: near each other and far from each other. */
static uint32_t slot_of(uint32_t number)
{
    return number % 2 ? UINT32_MAX - number : number << number % 24;
}

Test(lines, agree_with_a_list)
{
    static uint32_t given[RANKS][SLOTS]; /* line + 1 */
    struct random random = {20261127};
    uint32_t count = 0, found;

    cr_assert_eq(notify_find(lines.segment, 0, 0), NOTIFY_NO_LINE);
    for (uint32_t i = 0; i < BINDS; i++) {
        const uint32_t rank = (uint32_t)random_below(&random, RANKS),
                       slot = (uint32_t)random_below(&random, SLOTS);
        if (given[rank][slot] == 0) {
            cr_assert_eq(notify_find(lines.segment, rank, slot_of(slot)), NOTIFY_NO_LINE);
            cr_assert_not(lines_find(&lines, rank, slot_of(slot), &found));
            given[rank][slot] = ++count;
        }
        cr_assert_eq(bind(rank, slot_of(slot)), given[rank][slot] - 1, "in the order of use");
        cr_assert_eq(notify_find(lines.segment, rank, slot_of(slot)), given[rank][slot] - 1);
    }
    for (uint32_t i = 0; i < LINES; i++)
        if (given[i / SLOTS][i % SLOTS] > 0)
            cr_assert_eq(notify_find(lines.segment, i / SLOTS, slot_of(i % SLOTS)),
                         given[i / SLOTS][i % SLOTS] - 1);
    cr_assert_eq(lines.count, count);
}

Test(lines, a_full_segment_refuses)
{
    uint32_t line = 0;

    for (uint32_t i = 0; i < NOTIFY_LINES_MAX; i++)
        cr_assert_eq(bind(i % 4096, i / 4096), i);
    cr_assert_eq(lines_add(&lines, 4096, 0, &line), -ENOSPC);
    cr_assert_eq(notify_find(lines.segment, 4096, 0), NOTIFY_NO_LINE);
    for (uint32_t i = 0; i < NOTIFY_LINES_MAX; i++)
        cr_assert_eq(notify_find(lines.segment, i % 4096, i / 4096), i);
    cr_assert_eq(bind(4095, 255), NOTIFY_LINES_MAX - 1, "those that exist are found");
}

/* A program that chooses its slots so gets an error when so many are in a row, the table stays in
 * proportion, and others go on. */
Test(lines, keys_that_collide_are_limited)
{
    uint32_t slot = 0, line = 0, refused = 0;

    for (uint32_t i = 0; refused == 0 && i < 2 * NOTIFY_PROBES_MAX; i++) {
        while (notify_hash(notify_key(0, slot)) << 48 != 0)
            slot++;
        if (lines_add(&lines, 0, slot++, &line) < 0)
            refused = i;
    }
    cr_assert_eq(refused, NOTIFY_PROBES_MAX);
    cr_assert(1u << lines.bits <= 16 * (lines.count + 1));
    for (uint32_t rank = 1; rank <= 1000; rank++)
        cr_assert_eq(bind(rank, 0), NOTIFY_PROBES_MAX + rank - 1);
    for (uint32_t rank = 1; rank <= 1000; rank++)
        cr_assert_eq(notify_find(lines.segment, rank, 0), NOTIFY_PROBES_MAX + rank - 1);
}

/* The client's copy has no influence on the daemon, and whatever it holds, what the client finds
 * there is a line or none. */
Test(lines, a_client_that_writes_deceives_itself)
{
    struct random random = {7};
    uint32_t line = 0;

    for (uint32_t i = 0; i < 3000; i++) {
        const uint32_t bits = lines.bits ? lines.bits : NOTIFY_TABLE_BITS_MIN;
        for (uint32_t j = 0; j < 4; j++) {
            struct notify_place *place =
                &notify_table(lines.segment, bits + j % 2)[random_below(&random, 1u << bits)];
            place->key = notify_key(0, (uint32_t)random_below(&random, 3000));
            place->line = (uint32_t)random_next(&random) >> random_below(&random, 32);
        }
        cr_assert_not(lines_find(&lines, 0, i, &line));
        cr_assert_eq(bind(0, i), i);
        lines.segment->table_bits = (uint32_t)random_next(&random) >> random_below(&random, 32);
        line = notify_find(lines.segment, 0, (uint32_t)random_below(&random, 3000));
        cr_assert(line < NOTIFY_LINES_MAX || line == NOTIFY_NO_LINE);
    }
    for (uint32_t i = 0; i < 3000; i++)
        cr_assert(lines_find(&lines, 0, i, &line) && line == i);
}
