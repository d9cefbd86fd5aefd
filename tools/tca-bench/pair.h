/* Two ranks of a group, each with memory that the other can put into, and the plans between
 * them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tca.h"
#include "tools/tca-bench/line.h"
#include "tools/tca-bench/work.h"

#define AREA_BYTES     (8u << 20) /* each for sending and for receiving */
#define BYTES_MAX      (4u << 20)
#define LONG_BYTES_MAX (256u << 20) /* of a put with its own region */
#define TIMEOUT_NS     INT64_C(30000000000)

/* The rail, seat and layout of a row. */
struct variant {
    enum tca_rail rail;
    enum tca_seat seat;
    bool strided; /* blocks of at most 512 bytes with gaps of the same size, as a Himeno face */
    const char *rail_name; /* of one rail; NULL: any rail of the driver */
};

/* For display. */
static inline const char *variant_rail(const struct variant *variant)
{
    return variant->rail_name ? variant->rail_name : tca_rail_name(variant->rail);
}

struct pair {
    struct tca *session;
    uint32_t me, peer;
    bool same_node;
    bool same_clock; /* both ranks run on one kernel, as on an emulated cluster */
    struct cpus cpus;
    double seconds; /* approximate time for one row */
    struct tca_region *region;
    struct tca_handle target; /* the peer's region */
    char *send, *receive;
};

/* Collective. 0, or negative errno after an error message. */
int pair_open(const struct cpus *cpus, double seconds, struct pair *ret_pair);
void pair_close(struct pair *pair);

struct shape pair_shape(bool strided, uint64_t bytes);

/* A committed plan that puts the shape into the peer's region and notifies the peer on the slot
 * (not if negative). 0, or negative errno with the message in tca_error_text(). */
int pair_plan(struct pair *pair, const struct variant *variant, const struct shape *shape, int slot,
              struct tca_plan **ret_plan);

/* The ends of a plan that does not put from one of the pair's regions to the other. */
struct route {
    struct tca_region *source;
    struct tca_handle target;
    uint64_t target_offset;
    uint32_t channel;
};
int pair_plan_route(struct pair *pair, const struct variant *variant, const struct route *route,
                    const struct shape *shape, int slot, struct tca_plan **ret_plan);

/* Collective: 1 if each rank can put to the other so, else 0. */
int pair_leads(struct pair *pair, const struct variant *variant);

/* Collective: the greater number if both ranks pass 0 or more, else the error of one of them, which
 * is printed. Required before plans are freed: a start that is complete here may not have arrived
 * there. */
int pair_agree(struct pair *pair, int r);
/* Collective: sets the number to rank 0's. */
int pair_share(struct pair *pair, uint64_t *number);
/* Collective: line_ns() at rank 0, measured while rank 1 sleeps; 0 at rank 1. */
int pair_line(struct pair *pair, double *ret_line_ns);

/* Waits for one notification from the peer. */
int pair_wait(struct pair *pair, uint32_t slot);
