#include "tests/bench/ddtbench/arguments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/ddtbench/pattern.h"

static int add_number(struct arguments *arguments, const char *text)
{
    struct pattern pattern;
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (end == text || *end || number >= pattern_count())
        return -EINVAL;
    pattern_init(&pattern, (uint32_t)number);
    if (pattern.area_bytes > arguments->area_bytes)
        arguments->area_bytes = pattern.area_bytes;
    pattern_deinit(&pattern);
    arguments->numbers[arguments->count++] = (uint32_t)number;
    return 0;
}

int arguments_init(struct arguments *arguments, int argc, char **argv)
{
    int r = 0;

    if (argc != 5)
        return -EINVAL;
    *arguments = (struct arguments){
        .side_path = argv[1], .seconds = strtod(argv[2], NULL), .check_gaps = atoi(argv[3]) != 0};
    arguments->numbers = malloc((strlen(argv[4]) + 1) * sizeof(*arguments->numbers));
    if (!arguments->numbers)
        return -ENOMEM;
    for (char *rest, *text = strtok_r(argv[4], ",", &rest); text && r >= 0;
         text = strtok_r(NULL, ",", &rest))
        r = add_number(arguments, text);
    if (arguments->seconds <= 0 || arguments->count == 0)
        r = -EINVAL;
    if (r < 0)
        arguments_deinit(arguments);
    return r;
}

void arguments_deinit(struct arguments *arguments)
{
    free(arguments->numbers);
    *arguments = (struct arguments){0};
}
