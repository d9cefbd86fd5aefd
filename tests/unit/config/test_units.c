#include <criterion/criterion.h>
#include <errno.h>

#include "config/units.h"

struct row {
    const char *text;
    int result;
    uint64_t value;
    const char *back; /* as written again; NULL: like text */
};

static const struct row sizes[] = {
    {"0", 0, 0, NULL},
    {"1", 0, 1, NULL},
    {"1023", 0, 1023, NULL},
    {"1024", 0, 1024, "1K"},
    {"128K", 0, 128 << 10, NULL},
    {"1536K", 0, 1536 << 10, NULL},
    {"1024K", 0, 1 << 20, "1M"},
    {"32T", 0, 32ull << 40, NULL},
    {"0x1000", 0, 4096, "4K"},
    {"0XfF", 0, 255, "255"},
    {"18446744073709551615", 0, UINT64_MAX, NULL},
    {"18446744073709551616", -ERANGE, 0, NULL},
    {"16777216T", -ERANGE, 0, NULL},
    {"99999999999999999999999999T", -ERANGE, 0, NULL},
    {"99999999999999999999999999x", -EINVAL, 0, NULL},
    {"", -EINVAL, 0, NULL},
    {"K", -EINVAL, 0, NULL},
    {"-1", -EINVAL, 0, NULL},
    {"+1", -EINVAL, 0, NULL},
    {" 1", -EINVAL, 0, NULL},
    {"1 K", -EINVAL, 0, NULL},
    {"1k", -EINVAL, 0, NULL},
    {"1KB", -EINVAL, 0, NULL},
    {"1.5M", -EINVAL, 0, NULL},
    {"0x", -EINVAL, 0, NULL},
    {"12a", -EINVAL, 0, NULL},
};

static const struct row durations[] = {
    {"0", 0, 0, "0ns"},
    {"0s", 0, 0, "0ns"},
    {"50us", 0, 50000, NULL},
    {"250ms", 0, 250000000, NULL},
    {"1.5s", 0, 1500000000, "1500ms"},
    {"0.000000001s", 0, 1, "1ns"},
    {"60s", 0, 60000000000, "1min"},
    {"1h", 0, 3600000000000, NULL},
    {"999999999h", -ERANGE, 0, NULL},
    {"99999999999999999999s", -ERANGE, 0, NULL},
    {"5", -EINVAL, 0, NULL},
    {"s", -EINVAL, 0, NULL},
    {"", -EINVAL, 0, NULL},
    {"5 s", -EINVAL, 0, NULL},
    {"5S", -EINVAL, 0, NULL},
    {"1.s", -EINVAL, 0, NULL},
    {".5s", -EINVAL, 0, NULL},
    {"1.5ns", -EINVAL, 0, NULL},
    {"0.0000000001s", -EINVAL, 0, NULL},
    {"-1s", -EINVAL, 0, NULL},
};

static void check(const struct row *row, int (*parse)(const char *, uint64_t *),
                  void (*show)(uint64_t, FILE *))
{
    uint64_t value = 42;
    char text[64] = "";

    cr_expect_eq(parse(row->text, &value), row->result, "\"%s\"", row->text);
    cr_expect_eq(value, row->result < 0 ? 42 : row->value, "\"%s\" gave %lu", row->text, value);
    if (row->result < 0)
        return;
    FILE *to = fmemopen(text, sizeof(text), "w");
    show(value, to);
    fclose(to);
    cr_expect_str_eq(text, row->back ? row->back : row->text);
    cr_expect_eq(parse(text, &value), 0);
    cr_expect_eq(value, row->value, "\"%s\" is not \"%s\"", text, row->text);
}

Test(units, sizes)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        check(&sizes[i], units_parse_size, units_write_size);
}

Test(units, durations)
{
    for (size_t i = 0; i < sizeof(durations) / sizeof(*durations); i++)
        check(&durations[i], units_parse_duration, units_write_duration);
}

Test(units, octal)
{
    uint64_t value = 0;

    cr_expect_eq(units_parse_octal("0666", &value), 0);
    cr_expect_eq(value, 0666);
    cr_expect_eq(units_parse_octal("600", &value), 0);
    cr_expect_eq(value, 0600);
    cr_expect_eq(units_parse_octal("0888", &value), -EINVAL);
    cr_expect_eq(units_parse_octal("", &value), -EINVAL);
    cr_expect_eq(units_parse_octal("666x", &value), -EINVAL);
    cr_expect_eq(units_parse_octal("7777777777777777777777777", &value), -ERANGE);
}
