/* bench: the benchmarks, and the rows they give. */
#pragma once

#include <stdio.h>

#include "tools/tca-bench/pair.h"

struct row {
    const char *bench;
    struct way way;
    uint64_t bytes;
    double line_ns; /* between the cores, just before */
    uint64_t samples;
    double median_ns, p99_ns; /* of what bench says: one way, the whole window, a start, ... */
    double gbps;              /* Gbit/s; 0 where it makes no sense */
    /* overlap */
    double transfer_ns, compute_ns, hidden;
    /* beside, medians */
    double alone_ns, long_ns;
    /* breakdown, medians */
    double start_ns, ring_ns, engine_ns, wire_ns, deliver_ns;
};

/* Each is collective, fills what it measures at rank 0, and leaves the text of its error to
 * tca_error_text(). */
typedef int bench_run(struct pair *pair, const struct way *way, uint64_t bytes, struct row *row);

/* half a round trip; both sides write what they send and read what they get */
bench_run bench_pingpong;
bench_run bench_bandwidth; /* a window of puts one way, until the receiver says that it has all; the
                              time of one put */
bench_run bench_start;     /* tca_start() alone */
bench_run bench_overlap;   /* a transfer while the sender computes as long as the transfer takes */
bench_run bench_beside;    /* half a round trip of 8 bytes while a long put is under way */
bench_run bench_breakdown; /* where the time of one way goes, by receipts */

/* Samples of one row, in picoseconds: batches of many short rounds have fractions of a nanosecond.
 */
#define SAMPLES_MAX 2000

struct samples {
    uint64_t count;
    uint64_t ps[SAMPLES_MAX];
};

static inline void samples_add(struct samples *samples, uint64_t ns, uint64_t rounds)
{
    if (samples->count < SAMPLES_MAX)
        samples->ps[samples->count++] = ns * 1000 / rounds;
}

/* Sorts. */
double samples_median_ns(struct samples *samples);
void samples_into(struct samples *samples, struct row *row);

/* How the time for a row is divided: `batches` samples of `rounds` rounds. */
struct schedule {
    uint64_t rounds, batches;
};

/* From the time that one round took: at least 11 samples, each long enough for the clock.
 * Collective. */
int schedule_agree(struct pair *pair, uint64_t round_ns, struct schedule *ret_schedule);

void report_header(FILE *out);
void report_row(FILE *out, const struct row *row);
void report_json(FILE *out, const struct row *row);
