/*
 * halo_tca SIZES: the exchanges of cases.h by tca-halo.h, with one buffer and with two, and by plans written by hand, with two.
 * All of them in turn, REPEATS times. Rank 0 writes a line of JSON for each.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "client/include/tca-halo.h"

enum how { ONE_BUFFER, TWO_BUFFERS, PLANS, HOWS };
static const char *const names[HOWS] = {"one buffer", "two buffers", "plans"};

struct bench {
    struct tca *session;
    uint32_t rank;
    const struct bench_case *one;
    double *arrays[2];
    struct tca_halo *halos[PLANS];
    struct tca_plan *plans[2];
    uint64_t done; /* exchanges by plans */
};

/* ---- by tca-halo.h */

static int make_halo(struct bench *b, enum how how)
{
    struct tca_halo_array array = {
        .memory = {b->arrays[0], how == ONE_BUFFER ? NULL : b->arrays[1]},
        .element_bytes = sizeof(double)};
    struct tca_halo_args args = {
        .dimensions = (uint32_t)b->one->dimensions, .arrays = &array, .array_count = 1};

    for (int d = 0; d < b->one->dimensions; d++) {
        array.extents[d] = b->one->extents[d];
        args.grid[d] = 1;
    }
    array.low[b->one->across] = array.high[b->one->across] = 1;
    args.grid[b->one->across] = 2;
    args.periodic[b->one->across] = 1;
    return tca_halo_new(b->session, &args, &b->halos[how]);
}

static int exchange_halo(struct bench *b, enum how how)
{
    int r = tca_halo_start(b->halos[how]);

    return r < 0 ? r : tca_halo_wait(b->halos[how], TCA_FOREVER);
}

/* ---- by hand: one plan for each buffer; the notification of one exchange permits the next */

static int slice(const struct bench_case *one, struct tca_layout **ret_layout)
{
    uint64_t full[DIMENSIONS_MAX], sizes[DIMENSIONS_MAX], starts[DIMENSIONS_MAX] = {0};
    struct tca_layout *element;
    int r = tca_layout_contiguous(sizeof(double), &element);

    for (int d = 0; d < one->dimensions; d++)
        full[d] = sizes[d] = case_full(one, d);
    sizes[one->across] = 1;
    if (r >= 0)
        r = tca_layout_subarray(element, (uint32_t)one->dimensions, full, sizes, starts,
                                TCA_ORDER_C, ret_layout);
    tca_layout_free(element);
    return r;
}

static int make_plan(struct bench *b, int buffer, const struct tca_handle *theirs,
                     const struct tca_layout *layout)
{
    uint32_t peer = 1 - b->rank;
    int r = tca_plan_new(b->session, &(struct tca_plan_args){.name = "by-hand"}, &b->plans[buffer]);

    for (int high = 0; high < 2 && r >= 0; high++)
        r = tca_plan_put(
            b->plans[buffer],
            &(struct tca_put){.source_address = b->arrays[buffer] + case_sent(b->one, high),
                              .source_layout = layout,
                              .target = *theirs,
                              .target_layout = layout,
                              .target_offset_bytes = case_kept(b->one, !high) * sizeof(double)});
    if (r >= 0)
        r = tca_plan_notify(b->plans[buffer], peer, (uint32_t)buffer);
    return r < 0 ? r : tca_plan_commit(b->plans[buffer], TCA_DEFAULT);
}

static int make_plans(struct bench *b)
{
    struct tca_layout *layout = NULL;
    int r = slice(b->one, &layout);

    for (int buffer = 0; buffer < 2 && r >= 0; buffer++) {
        struct tca_handle mine, all[2];
        r = tca_handle_of(b->session, b->arrays[buffer], case_elements(b->one) * sizeof(double),
                          &mine);
        if (r >= 0)
            r = tca_allgather(b->session, &mine, sizeof(mine), all, TCA_DEFAULT);
        if (r >= 0)
            r = make_plan(b, buffer, &all[1 - b->rank], layout);
    }
    tca_layout_free(layout);
    return r;
}

static int exchange_plans(struct bench *b)
{
    uint32_t buffer = b->done++ & 1;
    int r = tca_start(b->plans[buffer]);

    if (r >= 0)
        r = tca_notified_wait(b->session, 1 - b->rank, buffer, TCA_FOREVER);
    return r < 0 ? r : tca_wait(b->plans[buffer], TCA_FOREVER);
}

/* ---- measuring */

static int measure(struct bench *b, enum how how, uint64_t count, double *ret_us)
{
    int r = tca_barrier(b->session, TCA_DEFAULT);
    uint64_t start_ns = now_ns();

    for (uint64_t n = 0; n < count && r >= 0; n++)
        r = how == PLANS ? exchange_plans(b) : exchange_halo(b, how);
    *ret_us = (double)(now_ns() - start_ns) / 1e3 / (double)count;
    return r;
}

/* The result of count_for() at rank 0. */
static int choose_count(struct bench *b, enum how how, uint64_t *ret_count)
{
    double us;
    int r = measure(b, how, WARM, &us);

    if (r < 0)
        return r;
    uint64_t mine = count_for(us), all[2];
    r = tca_allgather(b->session, &mine, sizeof(mine), all, TCA_DEFAULT);
    *ret_count = all[0];
    return r;
}

static int check(struct bench *b)
{
    for (int buffer = 0; buffer < 2; buffer++)
        if (case_wrong(b->one, b->arrays[buffer], (1 - b->rank) * 1e9)) {
            fprintf(stderr, "halo_tca: rank %u: wrong elements in buffer %d\n", b->rank, buffer);
            return -EIO;
        }
    return 0;
}

static int make(struct bench *b)
{
    int r = 0;

    for (int buffer = 0; buffer < 2 && r >= 0; buffer++) {
        r = tca_alloc(b->session, case_elements(b->one) * sizeof(double),
                      (void **)&b->arrays[buffer]);
        if (r >= 0)
            case_fill(b->one, b->arrays[buffer], b->rank * 1e9);
    }
    if (r >= 0)
        r = make_halo(b, ONE_BUFFER);
    if (r >= 0)
        r = make_halo(b, TWO_BUFFERS);
    return r < 0 ? r : make_plans(b);
}

static int release(struct bench *b)
{
    int r = tca_barrier(b->session, TCA_DEFAULT); /* nobody puts any more */

    for (int i = 0; i < 2; i++) {
        tca_halo_free(b->halos[i]);
        tca_plan_free(b->plans[i]);
    }
    for (int i = 0; i < 2 && r >= 0; i++)
        r = tca_free(b->session, b->arrays[i]);
    return r;
}

static int run(const struct bench_case *one, void *context)
{
    struct bench b = {.session = context, .rank = tca_rank(context), .one = one};
    double us[HOWS][REPEATS];
    uint64_t counts[HOWS];
    int r = make(&b);

    for (enum how how = 0; how < HOWS && r >= 0; how++)
        r = choose_count(&b, how, &counts[how]);
    for (int n = 0; n < REPEATS; n++)
        for (enum how how = 0; how < HOWS && r >= 0; how++)
            r = measure(&b, how, counts[how], &us[how][n]);
    if (r >= 0)
        r = check(&b);
    for (enum how how = 0; how < HOWS && r >= 0 && b.rank == 0; how++)
        case_print(one, names[how], median(us[how], REPEATS));
    return r < 0 ? r : release(&b);
}

int main(int argc, char **argv)
{
    struct tca *session;
    int r = tca_open(NULL, &session);

    if (r >= 0)
        r = argc == 2 && tca_size(session) == 2 ? cases_run(argv[1], run, session) : -EINVAL;
    if (r < 0)
        fprintf(stderr, "halo_tca: %s: %s\n", tca_strerror(r), tca_error_text());
    tca_close(r < 0 ? NULL : session);
    return r < 0;
}
