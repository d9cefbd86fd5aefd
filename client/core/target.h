/*
 * What tcad has announced to this session, and may withdraw: puts of others whose copying it may
 * share (client/memory/lane.h), and places where puts of other nodes' processes land
 * (client/plan/pair.h). A target is part of an object of its kind, and has a number that no other
 * target of the session ever has. All functions are called with the lock of session->standby.
 */
#pragma once

#include <stdint.h>

struct mapped_region;
struct tca;

enum target_kind { TARGET_SHARED_PUT, TARGET_LANDING };

struct target {
    enum target_kind kind;
    uint32_t number;
    struct mapped_region *region;                    /* where data goes; NULL: nowhere */
    struct target *next_of_region, **link_of_region; /* in region->targets */
    struct target *next, **link;                     /* in its chain */
};

/* By number. Zeroed: empty. */
struct targets {
    struct target **chains;
    uint32_t count, room; /* of targets; of chains, a power of two or 0 */
};

/* kind, number and region are set. of_region: &region->targets, or NULL. -EEXIST, -ENOMEM. */
int target_add(struct tca *session, struct target *target, struct target **of_region);
void target_remove(struct tca *session, struct target *target);
/* NULL: there is none. */
struct target *target_find(const struct tca *session, uint32_t number);

/* Calls end() for those of a kind, in a region or all; it may remove the target, and no other. */
typedef void target_end(struct tca *session, struct target *target, const void *context);
void targets_end_in(struct tca *session, struct target *of_region, enum target_kind kind,
                    target_end *end);
void targets_end(struct tca *session, enum target_kind kind, target_end *end, const void *context);

/* Frees the table, which is empty. */
void targets_deinit(struct targets *targets);
