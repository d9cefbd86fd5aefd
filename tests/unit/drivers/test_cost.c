#include <criterion/criterion.h>
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "drivers/cost.h"

static const struct cost_parameters typical = {
    .valid = true,
    .put_ns = {1000, 1000, 1100, 1500, 3000, 9000, 41000, 200000, 1000000},
    .hop_ns = 30,
    .block_ns = 2,
};

static uint64_t predict(uint64_t bytes, uint64_t blocks)
{
    struct cost_transfer transfer = {.bytes = bytes, .blocks = blocks};
    return cost_predict(&typical, &transfer);
}

Test(cost, adds_up)
{
    cr_assert(predict(0, 0) == 1000);
    cr_assert(predict(0, 1) == 1000);
    cr_assert(predict(64, 1) == 1000);
    cr_assert(predict(64 << 10, 1) == 9000);
    cr_assert(predict(64 << 10, 100) == 9000 + 200);
}

Test(cost, lies_on_lines_between_the_sizes_that_were_measured)
{
    for (unsigned size = 0; size < COST_SIZES; size++)
        cr_expect_eq(predict(cost_size_bytes(size), 1), (uint64_t)typical.put_ns[size]);
    cr_expect_eq(cost_size_bytes(COST_64_KIB), 64 << 10);
    cr_expect_eq(cost_size_bytes(COST_4_MIB), 4 << 20);
    cr_expect_eq(predict(10 << 10, 1), 2250, "half-way from 4 to 16 KiB");
    cr_expect_eq(predict(7 << 20, 1), 1800000, "as from 1 to 4 MiB");
    cr_expect_float_eq(cost_byte_ns(&typical, COST_64_KIB), 8000. / (64 << 10), 1e-9);
}

Test(cost, what_is_worth_trying)
{
    cr_assert(cost_worth_trying(1000, 1000) && cost_worth_trying(4000, 1000));
    cr_assert(!cost_worth_trying(4004, 1000) && !cost_worth_trying(UINT64_MAX - 1, 1000));
    cr_assert(cost_worth_trying(UINT64_MAX, 1000), "nothing is known about it");
    cr_assert(cost_worth_trying(1000, UINT64_MAX) && cost_worth_trying(UINT64_MAX, UINT64_MAX));
}

/* The measured latency is that to a neighbour. */
Test(cost, hops_beyond_the_neighbour_cost_more)
{
    static const uint64_t expected[] = {1000, 1000, 1030, 1060, 1090};
    for (unsigned hops = 0; hops < sizeof(expected) / sizeof(expected[0]); hops++) {
        const struct cost_transfer transfer = {.bytes = 0, .hops = hops};
        cr_assert_eq(cost_predict(&typical, &transfer), expected[hops]);
    }
}

Test(cost, is_monotonic_in_bytes)
{
    uint64_t before = 0;
    for (uint64_t bytes = 1; bytes < UINT64_C(1) << 40; bytes += bytes / 3 + 1) {
        uint64_t ns = predict(bytes, 1);
        cr_assert(ns >= before);
        before = ns;
    }
    cr_assert(predict(UINT64_MAX, UINT64_MAX) < UINT64_MAX);
}

Test(cost, not_measured_is_never_chosen)
{
    const struct cost_parameters none = {0};
    const struct cost_transfer transfer = {.bytes = 8};
    cr_assert(cost_predict(&none, &transfer) == UINT64_MAX);
}

static char directory[] = "/tmp/tcad-cost-XXXXXX";
static char path[64];

static const struct cost_table shm_only = {.rails = {[1].name = "shm"}};

static void setup(void)
{
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/cost", directory);
}

static void teardown(void)
{
    unlink(path);
    cr_assert(rmdir(directory) == 0, "something was left behind");
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

TestSuite(cost_file, .init = setup, .fini = teardown);

static bool alike(double a, double b)
{
    return a > b ? a - b <= a * 1e-8 : b - a <= b * 1e-8;
}

Test(cost_file, comes_back)
{
    struct cost_table table = {.rails = {[1].name = "shm", [4].name = "ofi:tcp;ofi_rxm:eth0.7"}},
                      back = table;
    const char *why = NULL;
    unsigned line = 0;
    table.rails[1].at[SEAT_CLIENT] = typical;
    table.rails[4].at[SEAT_DAEMON] = typical;
    table.rails[4].at[SEAT_DAEMON].put_ns[COST_4_MIB] = 12345678.901;
    table.load = 2.5;
    table.spread = 1.25;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* if installed, its decimal comma must not matter */
    cr_assert(cost_write(path, &table) == 0);
    cr_assert(cost_read(path, &back, &why, &line) == 0, "%s in line %u", why, line);
    for (int rail = 0; rail < RAIL_SLOTS; rail++)
        for (int seat = 0; seat < SEAT_COUNT; seat++) {
            const struct cost_parameters *a = &table.rails[rail].at[seat],
                                         *b = &back.rails[rail].at[seat];
            cr_assert(a->valid == b->valid);
            cr_assert(alike(a->hop_ns, b->hop_ns) && alike(a->block_ns, b->block_ns));
            for (unsigned size = 0; size < COST_SIZES; size++)
                cr_assert(alike(a->put_ns[size], b->put_ns[size]));
        }
    cr_assert(back.load == 2.5 && back.spread == 1.25);
    cr_assert(cost_write(path, &table) == 0, "over an old one");
}

/* A rail keeps its parameters when others come or go and its index changes. */
Test(cost_file, is_read_by_name)
{
    struct cost_table table =
                          {.rails = {[1].name = "shm", [2].name = "ofi:tcp:lo", [3].name = "x"}},
                      back = {.rails = {[2].name = "tcp:eth0", [5].name = "ofi:tcp:lo"}};
    const char *why = NULL;
    unsigned line = 0;
    table.rails[2].at[SEAT_DAEMON] = table.rails[3].at[SEAT_DAEMON] = typical;
    cr_assert(cost_write(path, &table) == 0);
    cr_assert(cost_read(path, &back, &why, &line) == 0, "%s in line %u", why, line);
    cr_assert(back.rails[5].at[SEAT_DAEMON].valid);
    cr_assert(!back.rails[2].at[SEAT_DAEMON].valid && !back.rails[3].at[SEAT_DAEMON].valid);
    cr_assert_str_eq(back.rails[5].name, "ofi:tcp:lo");
}

Test(cost_file, is_not_there)
{
    struct cost_table table = shm_only;
    const char *why;
    unsigned line;
    cr_assert(cost_read(path, &table, &why, &line) == -ENOENT);
    cr_assert(cost_write("/proc/nonexistent/cost", &table) == -ENOENT);
}

#define HEAD "tcad-cost 10\n"
#define PUTS(from, first)                                                                          \
    from "64_ns = " first "\n" from "256_ns = 2\n" from "1K_ns = 2\n" from "4K_ns = 3\n" from      \
         "16K_ns = 4\n" from "64K_ns = 5\n" from "256K_ns = 6\n" from "1M_ns = 7\n" from           \
         "4M_ns = 8\n"

Test(cost_file, says_what_is_wrong_and_where)
{
    const struct {
        const char *text;
        unsigned line;
    } cases[] = {
        {"", 1},
        {"tcad-cost 1\n", 1},
        {"tcad-cost 2\n", 1}, /* an older version without copy modes: must be measured again */
        {"tcad-cost 4\n", 1}, /* an older version without hops */
        {HEAD "shm client hop_ns = -1\n", 2},
        {HEAD "nonsense\n", 2},
        {HEAD "colour = 1\n", 2}, /* no note */
        {HEAD "load = -1\n", 2},
        {HEAD "load = high\n", 2},
        {HEAD "# fine\n\nshm.client.block_ns = fast\n", 4},
        {HEAD "shm client block_ns =\n", 2},
        {HEAD "shm client block_ns = 1 2\n", 2},
        {HEAD "shm client put_64_ns = -1\n", 2},
        {HEAD "shm client block_ns = nan\n", 2},
        {HEAD "shm client block_ns = 1e999\n", 2},
        {HEAD "tube client block_ns = fast\n", 2}, /* an unknown rail's too */
        {HEAD "ofi:tcp:a_very_long_name_of_a_rail client block_ns = 1\n", 2},
        {"tcad-cost 5\n", 1}, /* an older version with drivers instead of rails */
        {"tcad-cost 6\n", 1}, /* an older version with copy modes */
        {"tcad-cost 7\n", 1}, /* an older version with times per descriptor */
        {"tcad-cost 9\n", 1}, /* an older version with two bandwidths */
        {HEAD "shm couch block_ns = 1\n", 2},
        {HEAD "shm client colour = 1\n", 2},
        {HEAD "shm client block_ns = 1\nshm client block_ns = 1\n", 3},
        {HEAD "shm client block_ns = 1\n", 2},
        /* a longer put cannot take less time */
        {HEAD "shm client hop_ns = 0\nshm client block_ns = 0\n" PUTS("shm client put_", "3"), 12},
    };
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cost_table table = shm_only;
        const char *why = NULL;
        unsigned line = 0;
        write_text(cases[i].text);
        cr_assert(cost_read(path, &table, &why, &line) == -EINVAL, "case %u", i);
        cr_assert(why && why[0] != '\0');
        cr_assert(line == cases[i].line, "case %u: line %u", i, line);
    }
    char text[600];
    memset(text, 'x', sizeof(text));
    memcpy(text, HEAD, strlen(HEAD));
    text[sizeof(text) - 1] = '\0';
    write_text(text);
    struct cost_table table = shm_only;
    const char *why;
    unsigned line;
    cr_assert(cost_read(path, &table, &why, &line) == -EINVAL);
}

Test(cost_file, replaces_files_only)
{
    struct cost_table table = {0};
    struct stat status;
    cr_assert(cost_write(path, &table) == 0);
    cr_assert(cost_write(path, &table) == 0);
    cr_assert(unlink(path) == 0 && mkfifo(path, 0600) == 0);
    cr_assert(cost_write(path, &table) == -EEXIST);
    cr_assert(stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
    cr_assert(unlink(path) == 0 && symlink("/dev/null", path) == 0);
    cr_assert(cost_write(path, &table) == -EEXIST);
}
