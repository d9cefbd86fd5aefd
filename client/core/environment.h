/* Everything this library reads from its environment, checked once. */
#pragma once

#include <stdint.h>

#include "client/include/tca.h"
#include "proto/lane.h"

/* Indexes of the table behind tca_variables(). */
enum variable {
    VARIABLE_SOCKET,
    VARIABLE_NODE,
    VARIABLE_CLUSTER_DIR,
    VARIABLE_GROUP,
    VARIABLE_RANK,
    VARIABLE_SIZE,
    VARIABLE_TIMEOUT,
    VARIABLE_RAIL,
    VARIABLE_SEAT,
    VARIABLE_COPY,
    VARIABLE_SPIN,
    VARIABLE_YIELD,
    VARIABLE_CUDA,
    VARIABLE_COUNT,
};

/* Its value; NULL when it is unset or empty. */
const char *variable_text(enum variable variable);

/* 1 and a number from min to max, 0 when it is unset, -EINVAL. */
int variable_number(enum variable variable, uint64_t min, uint64_t max, uint64_t *ret_number);

/* Its value, or its default, as a time: a whole number and ns, us, ms or s (0 needs none). 0 or
 * -EINVAL. */
int variable_duration(enum variable variable, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns);

/* TCA_SPIN's and TCA_YIELD's. */
#define SPIN_NS_MOST UINT64_C(4000000000)

/* What a session takes from there. */
struct settings {
    int64_t timeout_ns;
    uint32_t spin_ns;
    uint32_t yield_ns;
    enum tca_rail rail;
    enum tca_seat seat;
    enum way way; /* WAY_NONE: the daemon's cost model chooses */
};
int environment_settings(struct settings *ret_settings);
