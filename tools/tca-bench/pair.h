/* pair: two ranks of a group, each with memory that the other may put into, and the plans between
 * them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tca.h"
#include "tools/tca-bench/line.h"
#include "tools/tca-bench/work.h"

#define AREA_BYTES     (8u << 20) /* of what is sent, and of what is received */
#define BYTES_MAX      (4u << 20)
#define LONG_BYTES_MAX (256u << 20) /* of a put that has a region to itself */
#define PATIENCE_NS    INT64_C(30000000000)

/* Who carries a row's data, and in which form. */
struct way {
    enum tca_rail rail;
    enum tca_seat seat;
    bool strided; /* blocks of at most 512 bytes, every other one: a Himeno face */
};

struct pair {
    struct tca *session;
    uint32_t me, peer;
    bool same_node;
    bool same_clock; /* one kernel under both ranks, as on an emulated cluster: times can be
                        compared across */
    struct cpus cpus;
    double seconds; /* to spend on one row, about */
    struct tca_region *region;
    struct tca_handle target; /* the peer's region */
    char *send, *receive;
};

/* Collective. On failure says why on stderr. */
int pair_open(const struct cpus *cpus, double seconds, struct pair *ret_pair);
void pair_close(struct pair *pair);

struct shape pair_shape(bool strided, uint64_t bytes);

/* A committed plan that puts the shape from here to there, and notifies the peer on the slot (none
 * when negative). Says nothing when it fails: tca_error_text(). */
int pair_plan(struct pair *pair, const struct way *way, const struct shape *shape, int slot,
              struct tca_plan **ret_plan);

/* Where a plan leads that does not go from the pair's one region to the other. */
struct route {
    struct tca_region *source;
    struct tca_handle target;
    uint64_t target_offset;
    uint32_t channel;
};
int pair_plan_route(struct pair *pair, const struct way *way, const struct route *route,
                    const struct shape *shape, int slot, struct tca_plan **ret_plan);

/* Collective: 0 when both ranks say 0 or more, else an error of one of them. Also what has to come
 * before plans are freed: a start that is complete here may still be on its way there. */
int pair_agree(struct pair *pair, int r);
/* Collective: rank 0's number at both. */
int pair_share(struct pair *pair, uint64_t *number);
/* Collective: the line between the cores at rank 0 (0 at rank 1), measured while rank 1 sleeps. */
int pair_line(struct pair *pair, double *ret_line_ns);

/* Waits for one notification of the peer. */
int pair_wait(struct pair *pair, uint32_t slot);
