#include "daemon/rails/calibrate.h"

#include <math.h>
#include <stdlib.h>

#include "daemon/rails/calibrate_bench.h"

enum {
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

/* Extends what was measured through this node's device alone to the path to another node. */
static int count_neighbour(struct bench *bench, const struct calibrate_shared *shared,
                           struct cost_parameters *parameters)
{
    const double own_ns = cost_latency_ns(parameters);
    double latency_ns = 2 * own_ns, byte_ns = 0;
    parameters->hop_ns = own_ns;
    if (shared->neighbour) { /* else it is assumed that the other node's device costs as much */
        bench_go_far(bench);
        const int64_t tiny_ns = measure_contiguous(bench, 8),
                      small_ns = measure_contiguous(bench, cost_size_bytes(COST_64_KIB));
        if (tiny_ns < 0 || small_ns < 0)
            return (int)(tiny_ns < 0 ? tiny_ns : small_ns);
        /* A round trip: host to this node's board, cable, neighbour's board, and the same back. A
         * notification takes three of these four parts. Each further cable adds as much as this
         * one. */
        latency_ns = (double)tiny_ns * 3 / 4;
        byte_ns = (double)(small_ns - tiny_ns) / (double)cost_size_bytes(COST_64_KIB);
        parameters->hop_ns = (double)tiny_ns > own_ns ? ((double)tiny_ns - own_ns) / 2 : 0;
    }
    for (unsigned size = 0; size < COST_SIZES; size++) {
        const double own_bytes_ns = parameters->put_ns[size] - own_ns,
                     bytes_ns = (double)cost_size_bytes(size) * byte_ns;
        parameters->put_ns[size] = latency_ns + (bytes_ns > own_bytes_ns ? bytes_ns : own_bytes_ns);
    }
    return 0;
}

/* Disturbances only add time: no put takes longer than a longer one. */
static int measure_sizes(struct bench *bench, double put_ns[COST_SIZES])
{
    for (unsigned size = COST_SIZES; size-- > 0;) {
        const int64_t ns = measure_contiguous(bench, cost_size_bytes(size));
        if (ns < 0)
            return (int)ns;
        put_ns[size] = (double)ns;
        if (size + 1 < COST_SIZES && put_ns[size] > put_ns[size + 1])
            put_ns[size] = put_ns[size + 1];
    }
    return 0;
}

static int conclude(struct bench *bench, const struct calibrate_shared *shared,
                    struct cost_parameters *ret_parameters)
{
    struct cost_parameters parameters = {.valid = true};
    int r = measure_sizes(bench, parameters.put_ns);
    const int64_t strided_ns = r < 0 ? r : measure_strided(bench);
    if (strided_ns < 0)
        return (int)strided_ns;
    const double flat_ns = parameters.put_ns[COST_64_KIB];
    if ((double)strided_ns > flat_ns)
        parameters.block_ns = ((double)strided_ns - flat_ns) / STRIDED_BLOCKS;
    if (shared)
        r = count_neighbour(bench, shared, &parameters);
    if (r == 0)
        *ret_parameters = parameters;
    return r;
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

static void lower(double *one, double *other)
{
    *one = *other = *one < *other ? *one : *other;
}

void calibrate_same(struct cost_parameters *one, struct cost_parameters *other)
{
    for (unsigned size = 0; size < COST_SIZES; size++)
        lower(&one->put_ns[size], &other->put_ns[size]);
    lower(&one->hop_ns, &other->hop_ns);
    lower(&one->block_ns, &other->block_ns);
}

void calibrate_add_ns(struct cost_parameters *parameters, double ns)
{
    for (unsigned size = 0; size < COST_SIZES; size++)
        parameters->put_ns[size] = fmax(parameters->put_ns[size] + ns, 1);
}

int64_t calibrate_apart_ns(int64_t apart_ns, int64_t alone_ns)
{
    const int64_t most_ns = APART_MAX * alone_ns;
    return apart_ns < most_ns ? apart_ns : most_ns;
}
