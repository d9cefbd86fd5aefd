/* arguments: the command line of both programs: SIDE_FILE SECONDS CHECK NUMBER[,NUMBER...] */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct arguments {
    const char *side_path;
    double seconds;
    bool check_gaps;
    uint32_t count;
    uint32_t *numbers;   /* of patterns */
    uint64_t area_bytes; /* the largest of theirs */
};

#define ARGUMENTS_USAGE "SIDE_FILE SECONDS CHECK NUMBER[,NUMBER...]"

/* -EINVAL, -ENOMEM. */
int arguments_init(struct arguments *arguments, int argc, char **argv);
void arguments_deinit(struct arguments *arguments);
