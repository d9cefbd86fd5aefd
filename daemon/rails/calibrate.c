#include "daemon/rails/calibrate.h"

#include <stdlib.h>

#include "daemon/rails/calibrate_bench.h"

enum {
    SMALL_BYTES = 64 << 10,
    LARGE_BYTES = 4 << 20,
    STRIDED_BLOCKS = 1024,
    STRIDED_BLOCK_BYTES = 64,
    STRIDED_STRIDE_BYTES = 512,
    APART_MAX = 4, /* times as long between two threads as in one */
};

static int64_t measure_contiguous(struct bench *bench, uint64_t bytes)
{
    struct layout *layout;
    int r = layout_contiguous(bytes, &layout);
    if (r < 0)
        return r;
    int64_t ns = bench_measure(bench, layout, layout);
    free(layout);
    return ns;
}

static int64_t measure_strided(struct bench *bench)
{
    struct layout *block, *layout = NULL;
    int r = layout_contiguous(STRIDED_BLOCK_BYTES, &block);
    if (r == 0)
        r = layout_repeat(block, STRIDED_BLOCKS, STRIDED_STRIDE_BYTES, &layout);
    int64_t ns = r < 0 ? r : bench_measure(bench, layout, layout);
    free(block);
    free(layout);
    return ns;
}

/* The time of the additional bytes; the whole time if disturbances make the difference negative. */
static int64_t beyond(int64_t tiny, int64_t more)
{
    return more > tiny ? more - tiny : more;
}

/* Extends what was measured through this node's device alone to the path to another node. */
static int count_neighbour(struct bench *bench, const struct calibrate_shared *shared,
                           struct cost_parameters *parameters)
{
    if (!shared->neighbour) { /* assumed: the other node's device costs as much */
        parameters->hop_ns = parameters->latency_ns;
        parameters->latency_ns *= 2;
        return 0;
    }
    bench_go_far(bench);
    int64_t tiny = measure_contiguous(bench, 8), small = measure_contiguous(bench, SMALL_BYTES);
    if (tiny < 0 || small < 0)
        return (int)(tiny < 0 ? tiny : small);
    /* A round trip: host to this node's board, cable, neighbour's board, and the same back. A
     * notification takes three of these four parts. Each further cable adds as much as this one. */
    if ((double)tiny > parameters->latency_ns)
        parameters->hop_ns = ((double)tiny - parameters->latency_ns) / 2;
    parameters->latency_ns = (double)tiny * 3 / 4;
    const double bytes_per_ns = (double)SMALL_BYTES / (double)beyond(tiny, small);
    if (parameters->small_bytes_per_ns > bytes_per_ns)
        parameters->small_bytes_per_ns = bytes_per_ns;
    if (parameters->large_bytes_per_ns > bytes_per_ns)
        parameters->large_bytes_per_ns = bytes_per_ns;
    return 0;
}

static int conclude(struct bench *bench, const struct calibrate_shared *shared,
                    struct cost_parameters *ret_parameters)
{
    int64_t tiny = measure_contiguous(bench, 8), small = measure_contiguous(bench, SMALL_BYTES),
            large = measure_contiguous(bench, LARGE_BYTES), strided = measure_strided(bench);
    if (tiny < 0 || small < 0 || large < 0 || strided < 0)
        return (int)(tiny < 0 ? tiny : small < 0 ? small : large < 0 ? large : strided);
    int64_t small_ns = beyond(tiny, small), large_ns = beyond(tiny, large);
    *ret_parameters = (struct cost_parameters){
        .valid = true,
        .latency_ns = (double)tiny,
        .block_ns = strided > small ? (double)(strided - small) / STRIDED_BLOCKS : 0,
        .small_bytes_per_ns = (double)SMALL_BYTES / (double)small_ns,
        .large_bytes_per_ns = (double)LARGE_BYTES / (double)large_ns,
    };
    return shared ? count_neighbour(bench, shared, ret_parameters) : 0;
}

int calibrate_driver(const struct calibrate_subject *subject,
                     struct cost_parameters *ret_parameters, double *spread)
{
    struct bench *bench;
    int r = bench_new(subject, &bench);
    if (r < 0)
        return r;
    r = conclude(bench, subject->shared, ret_parameters);
    if (bench_spread(bench) > *spread)
        *spread = bench_spread(bench);
    bench_free(bench);
    return r;
}

static void lower(double *a, double *b)
{
    *a = *b = *a < *b ? *a : *b;
}

static void lift(double *a, double *b)
{
    *a = *b = *a > *b ? *a : *b;
}

void calibrate_same(struct cost_parameters *client, struct cost_parameters *daemon)
{
    lower(&client->latency_ns, &daemon->latency_ns);
    lower(&client->hop_ns, &daemon->hop_ns);
    lower(&client->block_ns, &daemon->block_ns);
    lift(&client->small_bytes_per_ns, &daemon->small_bytes_per_ns);
    lift(&client->large_bytes_per_ns, &daemon->large_bytes_per_ns);
}

int64_t calibrate_apart_ns(int64_t apart_ns, int64_t alone_ns)
{
    const int64_t most_ns = APART_MAX * alone_ns;
    return apart_ns < most_ns ? apart_ns : most_ns;
}
