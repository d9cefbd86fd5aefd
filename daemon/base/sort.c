#include "daemon/base/sort.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void sort_ns(int64_t *ns, size_t count)
{
    qsort(ns, count, sizeof(*ns), compare);
}

static int compare_numbers(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

size_t sort_unique(uint32_t *numbers, size_t count)
{
    size_t unique = 0;

    if (count > 0)
        qsort(numbers, count, sizeof(*numbers), compare_numbers);
    for (size_t i = 0; i < count; i++)
        if (unique == 0 || numbers[i] != numbers[unique - 1])
            numbers[unique++] = numbers[i];
    return unique;
}
