/* options: the command line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "grid.h"

#define SWEEPS_MAX 10000000

struct options {
    const struct grid_size *size;
    int parts_i, parts_j;
    uint64_t sweeps; /* 0: as many as fill `seconds` */
    double seconds;
    const char *prefer; /* a rail; NULL: as predicted cost decides */
    bool json, progress;
};

/* 0, 1: only help was wanted, or -EINVAL after saying why. */
int options_parse(int argc, char **argv, struct options *options);
