#include "cases.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* A face of 2^k doubles: 2^k long in two dimensions, as square as can be in three. */
static struct bench_case make(int dimensions, int across, uint64_t bytes)
{
    struct bench_case one = {.dimensions = dimensions, .across = across, .bytes = bytes};
    int bits = __builtin_ctzll(bytes / sizeof(double));
    int left = dimensions - 1;

    for (int d = 0; d < dimensions; d++) {
        one.extents[d] = WIDTH_ACROSS;
        if (d == across)
            continue;
        one.extents[d] = 1ull << (bits / left);
        bits -= bits / left;
        left--;
    }
    return one;
}

int cases_run(const char *sizes, void (*run)(const struct bench_case *one))
{
    for (const char *at = sizes; *at;) {
        char *end;
        uint64_t bytes = strtoull(at, &end, 10);
        if (end == at || (*end && *end != ',') || bytes < 64 || bytes > 1 << 24 ||
            (bytes & (bytes - 1)))
            return -EINVAL;
        for (int dimensions = 2; dimensions <= DIMENSIONS_MAX; dimensions++)
            for (int across = 0; across < dimensions; across++) {
                struct bench_case one = make(dimensions, across, bytes);
                run(&one);
            }
        at = *end ? end + 1 : end;
    }
    return 0;
}

uint64_t case_full(const struct bench_case *one, int dimension)
{
    return one->extents[dimension] + (dimension == one->across ? 2 : 0);
}

uint64_t case_elements(const struct bench_case *one)
{
    uint64_t elements = 1;

    for (int d = 0; d < one->dimensions; d++)
        elements *= case_full(one, d);
    return elements;
}

uint64_t case_stride(const struct bench_case *one)
{
    uint64_t elements = 1;

    for (int d = one->across + 1; d < one->dimensions; d++)
        elements *= case_full(one, d);
    return elements;
}

uint64_t case_sent(const struct bench_case *one, int high)
{
    return (high ? WIDTH_ACROSS : 1) * case_stride(one);
}

uint64_t case_kept(const struct bench_case *one, int high)
{
    return (high ? WIDTH_ACROSS + 1 : 0) * case_stride(one);
}

uint64_t count_for(double us)
{
    double count = BATCH_US / us;

    return count < 3 ? 3 : count > 5000 ? 5000 : (uint64_t)count;
}

static uint64_t index_across(const struct bench_case *one, uint64_t element)
{
    return element / case_stride(one) % case_full(one, one->across);
}

void case_fill(const struct bench_case *one, double *array, double seed)
{
    for (uint64_t n = 0; n < case_elements(one); n++) {
        uint64_t at = index_across(one, n);
        array[n] = at == 0 || at == WIDTH_ACROSS + 1 ? -1 : seed + (double)n;
    }
}

uint64_t case_wrong(const struct bench_case *one, const double *array, double seed)
{
    uint64_t wrong = 0, inner = WIDTH_ACROSS * case_stride(one);

    for (uint64_t n = 0; n < case_elements(one); n++) {
        uint64_t at = index_across(one, n);
        if (at == 0)
            wrong += array[n] != seed + (double)(n + inner);
        else if (at == WIDTH_ACROSS + 1)
            wrong += array[n] != seed + (double)(n - inner);
    }
    return wrong;
}

void case_print(const struct bench_case *one, const char *how, double us, const double *hidden)
{
    printf("{\"dimensions\":%d,\"across\":%d,\"bytes\":%llu,\"how\":\"%s\",\"us\":%.4f",
           one->dimensions, one->across, (unsigned long long)one->bytes, how, us);
    if (hidden)
        printf(",\"hidden\":%.4f", *hidden);
    puts("}");
    fflush(stdout);
}
