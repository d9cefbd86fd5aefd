/*
 * pattern: the communication patterns that are measured: those of DDTBench (T. Schneider, R.
 * Gerstenberger, T. Hoefler: "Micro-applications for communication data access patterns and MPI
 * datatypes", EuroMPI 2012), faces of cubes, vectors, and contiguous data.
 */
#pragma once

#include <stdbool.h>

#include "tests/bench/ddtbench/form.h"

/*
 * Ping-pong: what lies in the form `send` at send_at of one rank's area goes to the form `receive`
 * at receive_at of the other's, and the other way round.
 *
 * Exchange, of two ranks at the same time: the area has two halves; from one half each rank sends
 * to every rank (itself too) what lies at its number * send_step, into that rank's other half at
 * the sender's number * receive_step. The next time the halves have changed places.
 */
struct pattern {
    char name[32];
    uint64_t bytes; /* that a rank sends, to all ranks */
    bool exchange;
    const struct form *send, *receive;
    int64_t send_at, receive_at;
    uint64_t half_bytes;
    uint64_t send_step, receive_step;
    uint64_t area_bytes;
    struct shelf *shelf;
};

uint32_t pattern_count(void);
/* Fills it; the caller clears it with pattern_deinit(). Ends the program if the pattern is not of
 * the published size, which is an error in the table. */
void pattern_init(struct pattern *pattern, uint32_t number);
void pattern_deinit(struct pattern *pattern);

/* A pattern as a list of transfers of one rank: one in a ping-pong, one to each rank in an
 * exchange. Where in the area rank `me` sends to, or receives from, rank `other`; `half`: which
 * half is sent from. */
static inline int64_t pattern_send_at(const struct pattern *pattern, int half, uint32_t other)
{
    if (!pattern->exchange)
        return pattern->send_at;
    return (int64_t)((uint64_t)half * pattern->half_bytes + other * pattern->send_step);
}

static inline int64_t pattern_receive_at(const struct pattern *pattern, int half, uint32_t other)
{
    if (!pattern->exchange)
        return pattern->receive_at;
    return (int64_t)((uint64_t)(1 - half) * pattern->half_bytes + other * pattern->receive_step);
}

/* ---- for the tables */

typedef void pattern_make(struct pattern *pattern, const int32_t *numbers);

struct pattern_entry {
    const char *name;
    pattern_make *make;
    uint64_t bytes; /* published */
    int32_t numbers[7];
};

/* Ends with a NULL name. */
extern const struct pattern_entry ddtbench_patterns[], plain_patterns[];
