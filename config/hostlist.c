#include "config/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hostlist_deinit(struct hostlist *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct hostlist){0};
}

/* Expansion walks the text once for every name: each range opens a loop around the rest of its
 * name. */
struct expansion {
    const char *text;
    size_t max;
    struct hostlist list;
    size_t room; /* of list.names */
    char name[HOSTLIST_NAME_MAX_BYTES];
    unsigned dimensions; /* open brackets of the current name */
    struct hostlist_problem problem;
};

static int fail(struct expansion *x, const char *at, int error, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int fail(struct expansion *x, const char *at, int error, const char *format, ...)
{
    va_list args;

    x->problem.position = (size_t)(at - x->text);
    va_start(args, format);
    vsnprintf(x->problem.text, sizeof(x->problem.text), format, args);
    va_end(args);
    return error;
}

static int emit(struct expansion *x, size_t length, const char *at)
{
    if (length == 0)
        return fail(x, at, -EINVAL, "a name is missing");
    if (x->list.count == x->max)
        return fail(x, at, -E2BIG, "more than %zu names", x->max);
    if (x->list.count == x->room) {
        size_t room = x->room ? 2 * x->room : 16;
        char **names = reallocarray(x->list.names, room, sizeof(*names));
        if (!names)
            return -ENOMEM;
        x->list.names = names;
        x->room = room;
    }
    char *name = strndup(x->name, length);
    if (!name)
        return -ENOMEM;
    x->list.names[x->list.count++] = name;
    return 0;
}

struct range {
    uint64_t first, last;
    int width; /* minimum number of digits, padded with zeros */
};

static const char *digits_end(const char *at)
{
    while (isdigit((unsigned char)*at))
        at++;
    return at;
}

static int parse_number(struct expansion *x, const char **at, uint64_t *ret_value,
                        size_t *ret_digits)
{
    const char *start = *at, *stop = digits_end(start);
    uint64_t value = 0;

    if (stop == start)
        return fail(x, start, -EINVAL, "a number is missing; ranges are written [1-3,7]");
    if (stop - start > HOSTLIST_DIGITS_MAX)
        return fail(x, start, -EINVAL, "a number has more than %d digits", HOSTLIST_DIGITS_MAX);
    for (const char *p = start; p < stop; p++)
        value = 10 * value + (uint64_t)(*p - '0');
    *at = stop;
    *ret_value = value;
    *ret_digits = (size_t)(stop - start);
    return 0;
}

/* "7" or "1-3"; advances *at past it. */
static int parse_range(struct expansion *x, const char **at, struct range *ret)
{
    const char *first = *at;
    struct range range = {0};
    size_t first_digits, last_digits;
    int r = parse_number(x, at, &range.first, &first_digits);

    if (r < 0)
        return r;
    range.last = range.first;
    range.width = (int)first_digits;
    if (**at == '-') {
        const char *last = ++*at;
        r = parse_number(x, at, &range.last, &last_digits);
        if (r < 0)
            return r;
        if (range.last < range.first)
            return fail(x, first, -EINVAL, "the range %" PRIu64 "-%" PRIu64 " is descending",
                        range.first, range.last);
        bool padded = (*first == '0' && first_digits > 1) || (*last == '0' && last_digits > 1);
        if (padded && first_digits != last_digits)
            return fail(x, first, -EINVAL,
                        "with leading zeros, both ends of a range need the same number of digits");
        if (!padded)
            range.width = 1;
    }
    *ret = range;
    return 0;
}

/* Expands the text from `at` on, appended to the `length` characters that x->name already has.
 * *ret_end: the comma or the end that follows. */
static int expand_rest(struct expansion *x, const char *at, size_t length, const char **ret_end);

static int expand_range(struct expansion *x, const struct range *range, const char *rest,
                        size_t length, const char **ret_end)
{
    for (uint64_t value = range->first; value <= range->last; value++) {
        char digits[HOSTLIST_DIGITS_MAX + 4];
        int n = snprintf(digits, sizeof(digits), "%0*" PRIu64, range->width, value);

        if (length + (size_t)n >= sizeof(x->name))
            return fail(x, rest, -EINVAL, "a name is longer than %zu characters",
                        sizeof(x->name) - 1);
        memcpy(x->name + length, digits, (size_t)n);
        int r = expand_rest(x, rest, length + (size_t)n, ret_end);
        if (r < 0)
            return r;
    }
    return 0;
}

static int expand_bracket(struct expansion *x, const char *open, size_t length,
                          const char **ret_end)
{
    const char *close = open + strcspn(open, "]"), *at = open;
    int r;

    if (!*close)
        return fail(x, open, -EINVAL, "the bracket is not closed");
    if (x->dimensions == HOSTLIST_DIMENSIONS_MAX)
        return fail(x, open, -EINVAL, "a name has more than %d brackets", HOSTLIST_DIMENSIONS_MAX);
    x->dimensions++;
    do {
        struct range range = {0};

        at++; /* the bracket or the comma */
        r = parse_range(x, &at, &range);
        if (r == 0 && *at != ',' && at != close)
            r = fail(x, at, -EINVAL, "\"%c\" is not part of a range; ranges are written [1-3,7]",
                     *at);
        if (r == 0)
            r = expand_range(x, &range, close + 1, length, ret_end);
    } while (r == 0 && at != close);
    x->dimensions--;
    return r;
}

static int expand_rest(struct expansion *x, const char *at, size_t length, const char **ret_end)
{
    for (; *at && *at != ','; at++) {
        if (*at == '[')
            return expand_bracket(x, at, length, ret_end);
        if (*at == ']')
            return fail(x, at, -EINVAL, "the bracket has no opening bracket");
        if (isspace((unsigned char)*at))
            return fail(x, at, -EINVAL, "white space inside a name");
        if (length + 1 == sizeof(x->name))
            return fail(x, at, -EINVAL, "a name is longer than %zu characters",
                        sizeof(x->name) - 1);
        x->name[length++] = *at;
    }
    *ret_end = at;
    return emit(x, length, at);
}

int hostlist_expand(const char *text, size_t max, struct hostlist *ret_list,
                    struct hostlist_problem *ret_problem)
{
    struct expansion x = {.text = text, .max = max < HOSTLIST_NAMES_MAX ? max : HOSTLIST_NAMES_MAX};
    const char *at = text;
    int r = expand_rest(&x, at, 0, &at);

    while (r == 0 && *at == ',') {
        at++;
        r = expand_rest(&x, at, 0, &at);
    }
    if (r < 0) {
        hostlist_deinit(&x.list);
        if (ret_problem)
            *ret_problem = x.problem;
        return r;
    }
    *ret_list = x.list;
    return 0;
}
