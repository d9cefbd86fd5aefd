/* report: what a run has found, for people and for programs. */
#pragma once

#include <stdio.h>

#include "halo.h"

/* Of one rank; plain data that goes through tca_allgather(), so at most 4096 bytes. */
struct rank_report {
    double seconds;
    double halo_seconds; /* in halo_start() and halo_wait() */
    uint32_t face_count;
    struct face_report faces[FACES_MAX];
};

struct run_report {
    const struct grid_size *size;
    int parts_i, parts_j;
    uint32_t ranks;
    uint64_t sweeps;
    float gosa;
    double seconds;                 /* of the slowest rank */
    double mflops;                  /* the published formula, with those seconds */
    double halo_share;              /* of all ranks' time */
    const struct rank_report *each; /* [ranks] */
};

void report_fill(struct run_report *report);
void report_text(FILE *out, const struct run_report *report);
/* One line. */
void report_json(FILE *out, const struct run_report *report);
