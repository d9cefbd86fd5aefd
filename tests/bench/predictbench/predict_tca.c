/*
 * predict_tca: one-way times of puts on one rail and seat, as tests/bench/predict compares them
 * with what tcad predicts. Two ranks of a group, on one node or on two; rank 0 writes lines of
 * JSON. Its plans exist until its standard input ends, so that tcactl can explain them.
 *
 *     tca-cluster run -n 2 --bind -- predict_tca RAIL client|daemon REPEATS BYTES[xBLOCKS]...
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/check.h"
#include "tools/tca-bench/work.h"

#define PATIENCE_NS INT64_C(60000000000)

enum {
    AREA_BYTES = 16 << 20,
    GAP = 2, /* blocks begin so many block lengths apart */
    CASES_MAX = 32,
    TRIAL_ROUNDS = 20,
    TRIAL_ROUNDS_MAX = 4000,
};

struct bench {
    struct tca *session;
    struct tca_region *region; /* of two areas: what is sent, what is received */
    struct tca_handle target;  /* the other rank's */
    struct tca_plan_args args;
    uint64_t repeats;
};

struct example {
    const char *name; /* also of its plan */
    struct shape shape;
    struct tca_plan *plan;
    uint64_t *round_ns;
};

static uint32_t peer_of(const struct bench *bench)
{
    return 1 - tca_rank(bench->session);
}

/* "BYTES" or "BYTESxBLOCKS"; blocks of at least a word. */
static int example_parse(const char *text, struct example *ret_example)
{
    char *end;
    const uint64_t bytes = strtoull(text, &end, 10);
    const uint64_t blocks = *end == 'x' ? strtoull(end + 1, &end, 10) : 1;
    const uint64_t block = blocks ? bytes / blocks : 0;

    if (*end || block == 0 || block % 8 || block * blocks != bytes || bytes * GAP > AREA_BYTES)
        return -1;
    *ret_example = (struct example){
        .name = text, .shape = {.count = blocks, .block = block, .stride = block * GAP}};
    return 0;
}

static void commit(const struct bench *bench, struct example *example)
{
    const struct shape *shape = &example->shape;
    struct tca_layout *layout;
    struct tca_plan_args args = bench->args;

    args.name = example->name;
    check(tca_layout_strided(shape->count, shape->block, (int64_t)shape->stride, &layout),
          "making a layout");
    check(tca_plan_new(bench->session, &args, &example->plan), "making a plan");
    check(tca_plan_put(example->plan, &(struct tca_put){.source = bench->region,
                                                        .source_layout = layout,
                                                        .target = bench->target,
                                                        .target_offset_bytes = AREA_BYTES,
                                                        .target_layout = layout}),
          "adding a put");
    check(tca_plan_notify(example->plan, peer_of(bench), 0), "adding a notify");
    check(tca_plan_commit(example->plan, PATIENCE_NS), "committing");
    tca_layout_free(layout);
}

static void send_one(const struct example *example)
{
    check(tca_start(example->plan), "starting");
}

static void receive_one(const struct bench *bench)
{
    check(tca_notified_wait(bench->session, peer_of(bench), 0, PATIENCE_NS), "receiving");
}

static void round_trip(const struct bench *bench, const struct example *example)
{
    if (tca_rank(bench->session) == 0)
        send_one(example);
    receive_one(bench);
    if (tca_rank(bench->session) == 1)
        send_one(example);
    check(tca_wait(example->plan, PATIENCE_NS), "waiting for the end");
}

/* Until the plans of both ranks have found how to copy. */
static void tune(const struct bench *bench, const struct example *example)
{
    struct tca_receipt receipt;
    uint32_t trying[2] = {1, 1};

    for (unsigned n = 0; n < TRIAL_ROUNDS_MAX && (trying[0] || trying[1]); n += TRIAL_ROUNDS) {
        for (unsigned i = 0; i < TRIAL_ROUNDS; i++)
            round_trip(bench, example);
        check(tca_plan_receipt(example->plan, &receipt), "reading a receipt");
        check(tca_allgather(bench->session, &receipt.trying, sizeof(receipt.trying), trying,
                            PATIENCE_NS),
              "agreeing");
    }
}

static void measure(const struct bench *bench, struct example *example)
{
    struct tca_receipt receipt;

    commit(bench, example);
    check(tca_barrier(bench->session, PATIENCE_NS), "meeting");
    tune(bench, example);
    for (uint64_t n = 0; n < warm_up_rounds(&example->shape); n++)
        round_trip(bench, example);
    for (uint64_t n = 0; n < bench->repeats; n++) {
        const uint64_t begin_ns = now_ns();
        round_trip(bench, example);
        example->round_ns[n] = now_ns() - begin_ns;
    }
    check(tca_plan_receipt(example->plan, &receipt), "reading a receipt");
    qsort(example->round_ns, bench->repeats, sizeof(*example->round_ns), by_size);
    if (tca_rank(bench->session) == 0)
        printf("{\"plan\":\"%s\",\"bytes\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"rail\":\"%s\","
               "\"seat\":\"%s\",\"least_ns\":%" PRIu64 ",\"quartile_ns\":%" PRIu64
               ",\"median_ns\":%" PRIu64 "}\n",
               example->name, shape_bytes(&example->shape), example->shape.count, receipt.rail_name,
               tca_seat_name(receipt.seat), example->round_ns[0] / 2,
               example->round_ns[bench->repeats / 4] / 2,
               example->round_ns[bench->repeats / 2] / 2);
    fflush(stdout);
}

static void open_bench(struct bench *bench)
{
    struct tca_handle own, both[2];

    check(tca_open(NULL, &bench->session), "opening the session");
    if (tca_size(bench->session) != 2) {
        fputs("predict: it takes two ranks\n", stderr);
        exit(2);
    }
    check(tca_region_alloc(bench->session, 2 * AREA_BYTES, &bench->region), "making a region");
    memset(tca_region_address(bench->region), 1, (size_t)2 * AREA_BYTES); /* no page faults later */
    check(tca_region_handle(bench->region, 0, TCA_ALL, &own), "naming the region");
    check(tca_allgather(bench->session, &own, sizeof(own), both, PATIENCE_NS), "meeting");
    bench->target = both[peer_of(bench)];
}

int main(int argc, char **argv)
{
    struct example examples[CASES_MAX];
    struct bench bench = {0};
    const int count = argc - 4;
    bool good = count > 0 && count <= CASES_MAX;

    if (good) {
        bench.args.rail_name = argv[1];
        bench.args.seat = strcmp(argv[2], "client") == 0 ? TCA_SEAT_CLIENT : TCA_SEAT_DAEMON;
        bench.repeats = strtoull(argv[3], NULL, 10);
        good = bench.repeats > 0;
    }
    for (int i = 0; good && i < count; i++)
        good = example_parse(argv[4 + i], &examples[i]) == 0;
    if (!good) {
        fputs("Usage, under tca-cluster run with two ranks: predict_tca RAIL client|daemon REPEATS "
              "BYTES[xBLOCKS]...\n",
              stderr);
        return 2;
    }
    open_bench(&bench);
    for (int i = 0; i < count; i++) {
        examples[i].round_ns = calloc(bench.repeats, sizeof(*examples[i].round_ns));
        if (!examples[i].round_ns)
            check(-ENOMEM, "making room for samples");
        measure(&bench, &examples[i]);
    }
    if (tca_rank(bench.session) == 0) {
        puts("{}"); /* all measured */
        fflush(stdout);
        while (getchar() != EOF)
            ;
    }
    check(tca_barrier(bench.session, PATIENCE_NS), "leaving");
    tca_close(bench.session);
    return 0;
}
