/* The TCA_* variables of the environment, checked when read. */
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
    VARIABLE_HANG,
    VARIABLE_RAIL,
    VARIABLE_SEAT,
    VARIABLE_COPY,
    VARIABLE_TUNE,
    VARIABLE_WISDOM,
    VARIABLE_SPIN,
    VARIABLE_YIELD,
    VARIABLE_CUDA,
    VARIABLE_HOSTD,
    VARIABLE_MPI,
    VARIABLE_MPI_COLL,
    VARIABLE_MPI_REPORT,
    VARIABLE_COUNT,
};

/* Value of the variable; NULL when it is unset or empty. */
const char *variable_text(enum variable variable);

/* 1 and a number from min to max; 0: unset; -EINVAL. */
int variable_number(enum variable variable, uint64_t min, uint64_t max, uint64_t *ret_number);

/* The value, or else the default, as a time: a whole number with the unit ns, us, ms or s (optional
 * for 0). 0 or -EINVAL. */
int variable_duration(enum variable variable, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns);

/* Limit of TCA_SPIN and TCA_YIELD. */
#define SPIN_NS_MOST UINT64_C(4000000000)

/* How plans find the copy modes of their puts. */
enum tune_setting {
    TUNE_OFF,    /* by the distance, at each start */
    TUNE_FROZEN, /* as wisdom says, without trials */
    TUNE_ON,     /* by wisdom and trials */
};

/* Settings of a session. */
struct settings {
    int64_t timeout_ns;
    uint64_t hang_ns; /* UINT64_MAX: no reports */
    uint32_t spin_ns;
    uint32_t yield_ns;
    char rail[RAIL_NAME_MAX_BYTES]; /* "": any */
    enum tca_seat seat;
    enum copy_method
        copy_method; /* copy mode; COPY_NONE: selected by trial, or else by prediction */
    enum tune_setting tune;
};
int environment_settings(struct settings *ret_settings);

/* Says once on standard error which variables whose names begin with TCA_ nothing reads: a misspelt
 * one would have no effect. */
void environment_warn(void);
