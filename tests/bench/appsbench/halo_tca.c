/*
 * halo_tca SIZES [here|elsewhere]: the exchanges of cases.h by tca-halo.h, with one buffer and with
 * two, by plans written by hand, with two, and, within a node, by plain loops. All of them in turn,
 * REPEATS times. Rank 0 writes a line of JSON for each; with the word, also how much of each passes
 * while the ranks compute, except for the loops, of which nothing does.
 */
#include "client/include/tca-halo.h"
#include "loops.h"
#include "tests/bench/check.h"
#include "tests/bench/overlap.h"

enum how { ONE_BUFFER, TWO_BUFFERS, PLANS, LOOPS, PACKING_LOOPS, HOWS };
static const char *const names[HOWS] = {"one buffer", "two buffers", "plans", "loops",
                                        "packing loops"};

static struct tca *session;
static uint32_t rank;
static bool overlaps;

struct bench {
    const struct bench_case *one;
    double *arrays[2];
    struct tca_halo *halos[PLANS];
    struct tca_plan *plans[2];
    uint64_t done; /* exchanges by plans */
    struct loops loops;
    enum how hows; /* loops need a common node */
};

/* ---- by tca-halo.h */

static void make_halo(struct bench *b, enum how how)
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
    check(tca_halo_new(session, &args, &b->halos[how]), "making a halo exchange");
}

/* ---- by hand: one plan for each buffer; the notification of one exchange permits the next */

static struct tca_layout *slice(const struct bench_case *one)
{
    uint64_t full[DIMENSIONS_MAX], sizes[DIMENSIONS_MAX], starts[DIMENSIONS_MAX] = {0};
    struct tca_layout *element, *layout;

    check(tca_layout_contiguous(sizeof(double), &element), "making an element");
    for (int d = 0; d < one->dimensions; d++)
        full[d] = sizes[d] = case_full(one, d);
    sizes[one->across] = 1;
    check(tca_layout_subarray(element, (uint32_t)one->dimensions, full, sizes, starts, TCA_ORDER_C,
                              &layout),
          "making a layout");
    tca_layout_free(element);
    return layout;
}

static void make_plan(struct bench *b, int buffer, const struct tca_layout *layout)
{
    struct tca_handle mine, all[2];
    struct tca_plan **plan = &b->plans[buffer];

    check(tca_handle_of(session, b->arrays[buffer], case_elements(b->one) * sizeof(double), &mine),
          "naming an array");
    check(tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT), "meeting");
    check(tca_plan_new(session, &(struct tca_plan_args){.name = "by-hand"}, plan), "making a plan");
    for (int high = 0; high < 2; high++)
        check(tca_plan_put(*plan,
                           &(struct tca_put){
                               .source_address = b->arrays[buffer] + case_sent(b->one, high),
                               .source_layout = layout,
                               .target = all[1 - rank],
                               .target_layout = layout,
                               .target_offset_bytes = case_kept(b->one, !high) * sizeof(double)}),
              "adding a put");
    check(tca_plan_notify(*plan, 1 - rank, (uint32_t)buffer), "adding a notify");
    check(tca_plan_commit(*plan, TCA_DEFAULT), "committing");
}

/* ---- measuring */

struct operation {
    struct bench *b;
    enum how how;
};

static inline void start(void *operation)
{
    const struct operation *o = operation;

    if (o->how >= LOOPS)
        return;
    if (o->how == PLANS)
        check(tca_start(o->b->plans[o->b->done & 1]), "starting");
    else
        check(tca_halo_start(o->b->halos[o->how]), "starting an exchange");
}

static inline void await(void *operation)
{
    const struct operation *o = operation;

    if (o->how >= LOOPS) {
        loops_exchange(&o->b->loops, o->how == PACKING_LOOPS);
    } else if (o->how == PLANS) {
        uint32_t buffer = o->b->done++ & 1;
        check(tca_notified_wait(session, 1 - rank, buffer, TCA_FOREVER), "waiting for faces");
        check(tca_wait(o->b->plans[buffer], TCA_FOREVER), "waiting for the end");
    } else {
        check(tca_halo_wait(o->b->halos[o->how], TCA_FOREVER), "waiting for an exchange");
    }
}

static void together(void)
{
    check(tca_barrier(session, TCA_DEFAULT), "meeting");
}

static double of_rank_0(double number)
{
    double all[2];

    check(tca_allgather(session, &number, sizeof(number), all, TCA_DEFAULT), "meeting");
    return all[0];
}

static double measure(struct operation *operation, uint64_t count)
{
    together();
    return (double)complete_all(operation, count) / 1e3 / (double)count;
}

static void make(struct bench *b)
{
    struct tca_layout *layout = slice(b->one);

    for (int buffer = 0; buffer < 2; buffer++) {
        check(
            tca_alloc(session, case_elements(b->one) * sizeof(double), (void **)&b->arrays[buffer]),
            "memory");
        case_fill(b->one, b->arrays[buffer], rank * 1e9);
    }
    make_halo(b, ONE_BUFFER);
    make_halo(b, TWO_BUFFERS);
    for (int buffer = 0; buffer < 2; buffer++)
        make_plan(b, buffer, layout);
    tca_layout_free(layout);
    b->hows = loops_init(&b->loops, session, b->one, b->arrays) && !overlaps ? HOWS : LOOPS;
}

static void release(struct bench *b)
{
    check(tca_barrier(session, TCA_DEFAULT), "meeting"); /* nobody puts any more */
    loops_deinit(&b->loops, session);
    for (int i = 0; i < 2; i++) {
        tca_halo_free(b->halos[i]);
        tca_plan_free(b->plans[i]);
    }
    for (int i = 0; i < 2; i++)
        check(tca_free(session, b->arrays[i]), "freeing an array");
}

static void run(const struct bench_case *one)
{
    struct bench b = {.one = one};
    double us[HOWS][REPEATS];
    uint64_t counts[HOWS];
    struct operation operations[HOWS];

    make(&b);
    for (enum how how = 0; how < b.hows; how++) {
        operations[how] = (struct operation){&b, how};
        counts[how] = (uint64_t)of_rank_0((double)count_for(measure(&operations[how], WARM)));
    }
    for (int n = 0; n < REPEATS; n++)
        for (enum how how = 0; how < b.hows; how++)
            us[how][n] = measure(&operations[how], counts[how]);
    for (int buffer = 0; buffer < 2; buffer++)
        if (case_wrong(one, b.arrays[buffer], (1 - rank) * 1e9)) {
            fprintf(stderr, "halo_tca: rank %u: wrong elements in buffer %d\n", rank, buffer);
            exit(1);
        }
    for (enum how how = 0; how < b.hows; how++) {
        double median = of_rank_0(median_of_doubles(us[how], REPEATS));
        double hidden = overlaps ? hidden_part(&operations[how], median) : 0;
        if (rank == 0)
            case_print(one, names[how], median, overlaps ? &hidden : NULL);
    }
    release(&b);
}

int main(int argc, char **argv)
{
    check(tca_open(NULL, &session), "opening the session");
    rank = tca_rank(session);
    overlaps = argc == 3;
    if (overlaps)
        compute_where(argv[2]);
    if (argc < 2 || argc > 3 || tca_size(session) != 2 || cases_run(argv[1], run) < 0) {
        fputs("Usage, with two ranks: halo_tca SIZES [here|elsewhere]\n", stderr);
        return 2;
    }
    tca_close(session);
    return 0;
}
