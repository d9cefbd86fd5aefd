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
