#include "tests/bench/ddtbench/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tca-bench/work.h"

#define GUARD       0xa5
#define SAMPLES_MAX 200
#define SAMPLES_MIN 5
#define BATCH_NS    20000u /* much longer than the clock's 50 ns */
#define WARM_UP     30
#define WARM_UP_NS  4000000u

void bench_begin(struct bench *bench, uint32_t number)
{
    pattern_init(&bench->pattern, number);
    pieces_init(&bench->send, bench->pattern.send);
    pieces_init(&bench->receive, bench->pattern.receive);
    /* where one side's blocks are multiples of 8 bytes and the other's are not */
    if (bench->send.word_bytes != bench->receive.word_bytes)
        bench->send.word_bytes = bench->receive.word_bytes = 4;
}

void bench_end(struct bench *bench)
{
    pattern_deinit(&bench->pattern);
}

/* ---- what each side does with its data: for all ranks in an exchange, else for the peer */

static void write_all(struct bench *bench, int half, uint64_t value)
{
    for (uint32_t rank = 0; rank < (bench->pattern.exchange ? 2 : 1); rank++)
        pieces_write(&bench->send, bench->area + pattern_send_at(&bench->pattern, half, rank),
                     value + (rank << 30));
}

static void read_all(const struct bench *bench, int half)
{
    for (uint32_t rank = 0; rank < (bench->pattern.exchange ? 2 : 1); rank++)
        pieces_read(&bench->receive, bench->area + pattern_receive_at(&bench->pattern, half, rank));
}

static void send_one(struct bench *bench, const struct mover *mover)
{
    write_all(bench, 0, bench->value++);
    mover->send(mover->context);
}

static void receive_one(struct bench *bench, const struct mover *mover)
{
    mover->receive(mover->context);
    read_all(bench, 0);
}

static void settle(const struct mover *mover)
{
    if (mover->settle)
        mover->settle(mover->context);
}

static void swap_one(struct bench *bench, const struct mover *mover, int half)
{
    write_all(bench, half, bench->value++);
    mover->swap(mover->context, half);
    read_all(bench, half);
}

void bench_round(struct bench *bench, const struct mover *mover)
{
    if (bench->pattern.exchange) {
        swap_one(bench, mover, 0);
        swap_one(bench, mover, 1);
        return;
    }
    if (bench->me == 0)
        send_one(bench, mover);
    receive_one(bench, mover);
    if (bench->me == 1)
        send_one(bench, mover);
    settle(mover);
}

/* ---- the check */

static uint64_t first_value(int sender)
{
    return (uint64_t)(sender + 1) << 24;
}

/* Counts wrong words in all received data; overwrites correct ones with the guard. */
static uint64_t wrong_words(struct bench *bench, int half)
{
    const struct pattern *pattern = &bench->pattern;
    uint64_t wrong = 0;

    for (uint32_t from = 0; from < 2; from++) {
        char *base = bench->area + pattern_receive_at(pattern, half, from);
        uint64_t to = pattern->exchange ? (uint64_t)bench->me : 0;

        if (!pattern->exchange && (int)from == bench->me)
            continue;
        wrong += pieces_wrong(&bench->receive, base, first_value((int)from) + (to << 30));
        pieces_fill(&bench->receive, base, GUARD);
    }
    return wrong;
}

static uint64_t written_outside(struct bench *bench, int half)
{
    uint64_t outside = 0;

    for (uint32_t rank = 0; rank < (bench->pattern.exchange ? 2 : 1); rank++)
        pieces_fill(&bench->send, bench->area + pattern_send_at(&bench->pattern, half, rank),
                    GUARD);
    for (uint64_t i = 0; i < bench->pattern.area_bytes; i++)
        outside += (unsigned char)bench->area[i] != GUARD;
    return outside;
}

/* Step 0 and 1: both directions, or the two halves of an exchange. */
static void check_step(struct bench *bench, const struct mover *mover, int step, bool gaps,
                       uint64_t *wrong, uint64_t *outside)
{
    bool exchange = bench->pattern.exchange;
    int half = exchange ? step : 0;

    if (gaps)
        memset(bench->area, GUARD, bench->pattern.area_bytes);
    for (uint32_t rank = 0; rank < (exchange ? 2 : 1) && !gaps; rank++)
        pieces_fill(&bench->receive, bench->area + pattern_receive_at(&bench->pattern, half, rank),
                    GUARD);
    if (exchange || bench->me == step)
        write_all(bench, half, first_value(bench->me));
    side_meet(bench->side);
    if (exchange)
        mover->swap(mover->context, half);
    else if (bench->me == step)
        mover->send(mover->context);
    else
        mover->receive(mover->context);
    if (exchange || bench->me != step)
        *wrong += wrong_words(bench, half);
    else
        settle(mover);
    side_meet(bench->side);
    if (gaps)
        *outside += written_outside(bench, half);
    side_meet(bench->side);
}

void bench_check(struct bench *bench, const struct mover *mover, const char *what, bool gaps)
{
    uint64_t wrong = 0;
    uint64_t outside = 0;

    for (int step = 0; step < 2; step++)
        check_step(bench, mover, step, gaps, &wrong, &outside);
    if (!wrong && !outside)
        return;
    fprintf(stderr,
            "ddt: %s, %" PRIu64 " bytes, %s: rank %d got %" PRIu64 " wrong words, and %" PRIu64
            " bytes beside them are not what they were\n",
            bench->pattern.name, bench->pattern.bytes, what, bench->me, wrong, outside);
    exit(1);
}

/* ---- the clock */

static uint64_t rounds_ns(struct bench *bench, const struct mover *mover, uint64_t count)
{
    uint64_t start_ns = now_ns();

    while (count--)
        bench_round(bench, mover);
    return now_ns() - start_ns;
}

/* The time of a warm round trip. */
static uint64_t warm_up(struct bench *bench, const struct mover *mover)
{
    uint64_t first_ns = rounds_ns(bench, mover, 2) / 2 + 1;
    uint64_t count = WARM_UP_NS / first_ns;

    count = side_share(bench->side, count < 2 ? 2 : count > WARM_UP ? WARM_UP : count);
    return rounds_ns(bench, mover, count) / count + 1;
}

struct timing bench_time(struct bench *bench, const struct mover *mover)
{
    uint64_t samples[SAMPLES_MAX];
    struct timing timing = {.before = side_probe(bench->side)};
    uint64_t round_ns = warm_up(bench, mover);
    uint64_t count = side_share(bench->side, round_ns < BATCH_NS ? BATCH_NS / round_ns : 1);
    uint64_t batches = (uint64_t)(bench->seconds * 1e9) / (count * round_ns);

    batches = batches < SAMPLES_MIN ? SAMPLES_MIN : batches > SAMPLES_MAX ? SAMPLES_MAX : batches;
    batches = side_share(bench->side, batches);
    for (uint64_t batch = 0; batch < batches; batch++)
        samples[batch] = rounds_ns(bench, mover, count) * 1000 / (2 * count);
    timing.after = side_probe(bench->side);
    timing.one_way_us = (double)median_of(samples, batches) / 1e6; /* sorts */
    timing.least_us = (double)samples[0] / 1e6;
    timing.samples = batches;
    return timing;
}

void bench_report(const struct bench *bench, const char *how, const char *way,
                  const struct timing *timing)
{
    if (bench->me != 0)
        return;
    printf("{\"pattern\":\"%s\",\"bytes\":%" PRIu64 ",\"how\":\"%s\",\"way\":\"%s\",\"us\":%.4f,"
           "\"least_us\":%.4f,\"samples\":%" PRIu64 ",\"starts\":%" PRIu64
           ",\"line_ns\":[%.1f,%.1f],\"pull_us\":[%.2f,%.2f]}\n",
           bench->pattern.name, bench->pattern.bytes, how, way, timing->one_way_us,
           timing->least_us, timing->samples, timing->starts, timing->before.line_ns,
           timing->after.line_ns, timing->before.pull_us, timing->after.pull_us);
    fflush(stdout);
}
