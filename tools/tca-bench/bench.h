/* The benchmarks, and the rows that they produce. */
#pragma once

#include <stdio.h>

#include "tools/tca-bench/pair.h"

struct row {
    const char *bench;
    struct variant variant;
    uint64_t bytes;
    double line_ns; /* between the cores, measured before the row */
    uint64_t samples;
    double median_ns, p99_ns; /* of the quantity that the benchmark defines */
    double gbps;              /* Gbit/s; 0: not applicable */
    /* overlap */
    double transfer_ns, compute_ns, hidden;
    /* beside, medians */
    double alone_ns, long_ns;
    /* breakdown, medians */
    double start_ns, ring_ns, engine_ns, wire_ns, deliver_ns;
};

/* Runs one benchmark. Collective; fills its members of the row at rank 0. 0 or negative errno, with
 * the message in tca_error_text(). */
typedef int bench_run(struct pair *pair, const struct variant *variant, uint64_t bytes,
                      struct row *row);

/* half a round trip; both sides write all data that they send and read all that they receive */
bench_run bench_pingpong;
bench_run bench_untouched; /* the same, but neither writes nor reads, as fi_pingpong(1) */
/* the time of one put in a window of puts, until the receiver confirms all of them */
bench_run bench_bandwidth;
bench_run bench_start;     /* tca_start() alone */
bench_run bench_overlap;   /* a transfer while the sender computes as long as the transfer takes */
bench_run bench_beside;    /* half a round trip of 8 bytes during a long put */
bench_run bench_breakdown; /* the parts of one transfer, by receipts */

#define BENCHES 7

extern const struct bench {
    const char *name;
    bench_run *run;
} benches[BENCHES];

/* Samples of one row, in picoseconds, because batches of short rounds yield fractions of a ns. */
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

/* Sorts the samples. */
double samples_median_ns(struct samples *samples);
void samples_into(struct samples *samples, struct row *row);

/* The measurement of a row: `batches` samples of `rounds` rounds each. */
struct schedule {
    uint64_t rounds, batches;
};

/* Derives the schedule from the time of one round: at least 11 samples, each long enough for the
 * clock's resolution. Collective. */
int schedule_agree(struct pair *pair, uint64_t round_ns, struct schedule *ret_schedule);

void report_header(FILE *out);
void report_row(FILE *out, const struct row *row);
void report_json(FILE *out, const struct row *row);
