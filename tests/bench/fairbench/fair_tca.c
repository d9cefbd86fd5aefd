/*
 * fair_tca: what a long put and 8 B puts cost each other in the daemon's seat, on one rail: the
 * long one by rank 0, the short ones, one after the other, by rank 1 (WHO: two) or by rank 0 on
 * another channel (one), into memory of the last rank, until they
 * are there. Writes lines of JSON, one for each round:
 * each alone, then both at once.
 *
 *     tca-cluster run -n 1 --ppn 3 -- fair_tca FILE one|two BYTES ROUNDS
 *     tca-cluster run -n 2 --ppn 2 -- fair_tca FILE one|two BYTES ROUNDS
 *
 * FILE: empty, for this run only; the ranks are on this machine and share it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/check.h"
#include "tests/bench/meeting.h"
#include "tools/tca-bench/work.h"

#define PATIENCE_NS INT64_C(60000000000)
enum {
    SHORTS = 400,         /* alone, in a round */
    SHORTS_MAX = 1 << 20, /* of which times are kept */
    SHORT_BYTES = 8,
};

/* The content of the file. */
struct meeting {
    _Atomic uint64_t long_ns; /* of the last long put */
    _Atomic uint32_t ended;   /* long puts beside short ones */
    _Atomic uint32_t shorts;  /* rounds of short ones that have begun beside long ones */
};

struct rank {
    struct tca *session;
    struct meeting *meeting;
    uint32_t rank, short_rank;
    uint64_t bytes;
    struct tca_plan *long_put, *short_put; /* NULL: another rank's */
    uint64_t *times_ns;
};

static struct tca_plan *plan_of(const struct rank *rank, struct tca_region *source,
                                struct tca_handle target, uint64_t offset, uint64_t bytes,
                                uint32_t channel)
{
    const struct tca_plan_args args = {.name = "fair", .seat = TCA_SEAT_DAEMON, .channel = channel};
    const struct tca_put put = {.source = source,
                                .source_offset_bytes = offset,
                                .target = target,
                                .target_offset_bytes = offset,
                                .bytes = bytes};
    struct tca_plan *plan;
    check(tca_plan_new(rank->session, &args, &plan), "making a plan");
    check(tca_plan_put(plan, &put), "adding a put");
    if (bytes == SHORT_BYTES)
        check(tca_plan_flush(plan), "adding a flush");
    check(tca_plan_commit(plan, PATIENCE_NS), "committing");
    return plan;
}

static void prepare(struct rank *rank)
{
    const uint32_t size = tca_size(rank->session), target = size - 1;
    const uint64_t bytes = rank->bytes + SHORT_BYTES;
    struct tca_handle own, *handles = calloc(size, sizeof(*handles));
    struct tca_region *region;
    if (!handles)
        check(-ENOMEM, "making room");
    check(tca_region_alloc(rank->session, bytes, &region), "making a region");
    memset(tca_region_address(region), 1, bytes);
    check(tca_region_handle(region, 0, TCA_ALL, &own), "naming the region");
    check(tca_allgather(rank->session, &own, sizeof(own), handles, PATIENCE_NS), "meeting");
    if (rank->rank == 0)
        rank->long_put = plan_of(rank, region, handles[target], 0, rank->bytes, 0);
    if (rank->rank == rank->short_rank)
        rank->short_put = plan_of(rank, region, handles[target], rank->bytes, SHORT_BYTES, 1);
    free(handles);
}

/* ---- a round ---- */

static void run(struct tca_plan *plan)
{
    check(tca_start(plan), "starting");
    check(tca_wait(plan, PATIENCE_NS), "waiting");
}

/* Until the long put has ended; so many if there is none. */
static uint64_t run_shorts(struct rank *rank, bool (*over)(const struct rank *rank, uint32_t round),
                           uint32_t round)
{
    uint64_t count = 0, total = 0;
    while (over ? !over(rank, round) : total < SHORTS) {
        const uint64_t begin_ns = now_ns();
        run(rank->short_put);
        total++;
        if (count < SHORTS_MAX)
            rank->times_ns[count++] = now_ns() - begin_ns;
    }
    rank->times_ns[count] = total;
    return count;
}

static bool ended_elsewhere(const struct rank *rank, uint32_t round)
{
    return atomic_load(&rank->meeting->ended) > round;
}

static bool ended_here(const struct rank *rank, uint32_t round)
{
    const int r = tca_test(rank->long_put);
    (void)round;
    check(r, "testing");
    return r > 0;
}

static void meet(const struct rank *rank)
{
    check(tca_barrier(rank->session, PATIENCE_NS), "meeting");
}

static void long_beside(struct rank *rank, uint32_t round)
{
    while (rank->short_rank != 0 && atomic_load(&rank->meeting->shorts) <= round)
        ;
    run(rank->long_put);
    atomic_store(&rank->meeting->ended, round + 1);
}

static void run_round(struct rank *rank, uint32_t round)
{
    uint64_t alone_ns = 0, beside_ns = 0, shorts = 0, count = 0;
    meet(rank);
    if (rank->short_put) {
        count = run_shorts(rank, NULL, round);
        alone_ns = median_of(rank->times_ns, count);
    }
    meet(rank);
    if (rank->long_put) {
        const uint64_t begin_ns = now_ns();
        run(rank->long_put);
        atomic_store(&rank->meeting->long_ns, now_ns() - begin_ns);
    }
    meet(rank);
    const uint64_t begin_ns = now_ns();
    const uint64_t long_alone_ns = atomic_load(&rank->meeting->long_ns);
    if (rank->short_put && rank->long_put) {
        check(tca_start(rank->long_put), "starting");
        count = run_shorts(rank, ended_here, round);
    } else if (rank->short_put) {
        atomic_store(&rank->meeting->shorts, round + 1);
        count = run_shorts(rank, ended_elsewhere, round);
    } else if (rank->long_put) {
        long_beside(rank, round);
    }
    if (rank->short_put) {
        const uint64_t long_ns = now_ns() - begin_ns;
        shorts = rank->times_ns[count];
        beside_ns = count > 0 ? median_of(rank->times_ns, count) : 0;
        printf(
            "{\"round\":%" PRIu32 ",\"bytes\":%" PRIu64 ",\"short_us\":%.3f,"
            "\"short_beside_us\":%.3f,\"long_us\":%.3f,\"long_beside_us\":%.3f,\"shorts\":%" PRIu64
            "}\n",
            round, rank->bytes, (double)alone_ns / 1e3, (double)beside_ns / 1e3,
            (double)long_alone_ns / 1e3, (double)long_ns / 1e3, shorts);
        fflush(stdout);
    }
    meet(rank);
}

int main(int argc, char **argv)
{
    const bool one = argc == 5 && strcmp(argv[2], "one") == 0;
    struct rank rank = {.short_rank = one ? 0 : 1};
    const uint64_t rounds = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
    rank.bytes = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
    if (rounds == 0 || rank.bytes == 0 || (!one && strcmp(argv[2], "two") != 0)) {
        fputs("Usage, under tca-cluster run: fair_tca FILE one|two BYTES ROUNDS\n", stderr);
        return 2;
    }
    rank.meeting = map_meeting(argv[1], sizeof(struct meeting));
    rank.times_ns = calloc(SHORTS_MAX + 1, sizeof(*rank.times_ns));
    if (!rank.times_ns)
        check(-ENOMEM, "making room");
    check(tca_open(NULL, &rank.session), "opening the session");
    rank.rank = tca_rank(rank.session);
    if (tca_size(rank.session) < 3)
        check(-EINVAL, "it takes three ranks");
    prepare(&rank);
    for (uint32_t round = 0; round < rounds; round++)
        run_round(&rank, round);
    tca_close(rank.session);
    free(rank.times_ns);
    return 0;
}
