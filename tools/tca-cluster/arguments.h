/* The command line. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "tools/tca-cluster/run.h"

enum { EXIT_USAGE = 2 };

/* Sets of commands, for the options that each accepts. */
enum {
    OF_UP = 1 << 0,
    OF_RUN = 1 << 1,
    OF_MPIRUN = 1 << 2,
    OF_STATUS = 1 << 3,
    OF_OTHER = 1 << 4,
    OF_RESTART = 1 << 5,
    OF_EXEC = 1 << 6,
    OF_ALL = ~0
};

/* Of all commands. */
struct arguments {
    char dir[PATH_MAX];
    bool json;
    unsigned number; /* -n; 0: not given */
    struct run_options run;
    char **overrides, **variables;
    size_t override_count, variable_count;
    char **rest;
    int rest_count;
};

/* command: the set of the command. -1: continue; else the exit code. */
int arguments_parse(struct arguments *a, unsigned command, int argc, char **argv);
/* Names the help; returns EXIT_USAGE. */
int arguments_usage(void);
