/* The command line of tca-bench. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tca.h"
#include "tools/tca-bench/bench.h"

#define SIZES_ROOM 32

struct options {
    bool bench[BENCHES];
    uint64_t sizes[SIZES_ROOM];
    size_t size_count;     /* 0: each benchmark's own */
    const char *rail_name; /* as given; NULL: not given */
    enum tca_rail rail;    /* TCA_RAIL_ANY: the name is that of one rail */
    enum tca_seat seat;
    bool contiguous, strided;
    double seconds;
    struct cpus cpus;
    const char *json;
    bool line;
    bool stores;
    uint64_t memory_mib; /* 0: not asked for */
};

/* 0; 1: only help or version was requested; or -EINVAL after an error message. */
int options_parse(int argc, char **argv, struct options *ret_options);
