#include "config/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit sizes[] = {
    {"", 1}, {"K", 1ull << 10}, {"M", 1ull << 20}, {"G", 1ull << 30}, {"T", 1ull << 40}};
static const struct unit durations[] = {
    {"ns", 1},         {"us", 1000},         {"ms", 1000000},
    {"s", 1000000000}, {"min", 60000000000}, {"h", 3600000000000}};
#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static unsigned digit_value(char c)
{
    if (isdigit((unsigned char)c))
        return (unsigned)(c - '0');
    if (isxdigit((unsigned char)c))
        return (unsigned)(tolower((unsigned char)c) - 'a') + 10;
    return 16;
}

/* Parses at least one digit and advances *text. Continues after an overflow, because -EINVAL takes
 * precedence. */
static int parse_digits(const char **text, unsigned base, uint64_t *ret_value)
{
    uint64_t value = 0;
    bool overflow = false;
    const char *at = *text;

    for (; digit_value(*at) < base; at++)
        overflow |= __builtin_mul_overflow(value, base, &value) ||
                    __builtin_add_overflow(value, digit_value(*at), &value);
    if (at == *text)
        return -EINVAL;
    *text = at;
    *ret_value = value;
    return overflow ? -ERANGE : 0;
}

static const struct unit *find_unit(const struct unit *units, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(units[i].name, name) == 0)
            return &units[i];
    return NULL;
}

int units_parse_size(const char *text, uint64_t *ret_value)
{
    bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
    uint64_t value = 0;

    if (hex)
        text += 2;
    int r = parse_digits(&text, hex ? 16 : 10, &value);
    if (r == -EINVAL)
        return r;
    const struct unit *unit = find_unit(sizes, COUNT(sizes), text);
    if (!unit)
        return -EINVAL;
    if (r < 0 || __builtin_mul_overflow(value, unit->factor, &value))
        return -ERANGE;
    *ret_value = value;
    return 0;
}

int units_parse_octal(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    int r = parse_digits(&text, 8, &value);

    if (r == -EINVAL || *text)
        return -EINVAL;
    if (r == 0)
        *ret_value = value;
    return r;
}

int units_parse_duration(const char *text, uint64_t *ret_ns)
{
    uint64_t whole = 0, fraction = 0, scale = 1, value;
    int r = parse_digits(&text, 10, &whole);

    if (r == -EINVAL)
        return r;
    if (*text == '.') {
        const char *start = ++text;
        if (parse_digits(&text, 10, &fraction) < 0 || text - start > 9)
            return -EINVAL;
        for (ptrdiff_t i = text - start; i > 0; i--)
            scale *= 10;
    }
    if (whole == 0 && fraction == 0 && *text == '\0') {
        *ret_ns = 0;
        return r;
    }
    const struct unit *unit = find_unit(durations, COUNT(durations), text);
    /* A fraction must be a whole number of nanoseconds; both factors are below 2^42 and 2^30. */
    unsigned __int128 part = unit ? (unsigned __int128)fraction * unit->factor : 0;
    if (!unit || part % scale)
        return -EINVAL;
    if (r < 0 || __builtin_mul_overflow(whole, unit->factor, &value) ||
        __builtin_add_overflow(value, (uint64_t)(part / scale), &value))
        return -ERANGE;
    *ret_ns = value;
    return 0;
}

static void write_with_unit(const struct unit *units, size_t count, uint64_t value, FILE *to)
{
    size_t i = count;

    while (--i > 0)
        if (value && value % units[i].factor == 0)
            break;
    fprintf(to, "%" PRIu64 "%s", value / units[i].factor, units[i].name);
}

void units_write_size(uint64_t value, FILE *to)
{
    write_with_unit(sizes, COUNT(sizes), value, to);
}

void units_write_duration(uint64_t ns, FILE *to)
{
    write_with_unit(durations, COUNT(durations), ns, to);
}
