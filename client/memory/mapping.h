/*
 * Memory of others on this node, mapped once per session: regions and notification segments, by id.
 * The daemon sends each descriptor once, so what has been adopted stays until the session ends, or,
 * for a region, until it is gone and no plan uses it. Own regions and the own notification segment
 * are in the same lists.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/core/control.h"
#include "proto/notify.h"

struct tca;

struct mapped_region {
    uint64_t id;
    uint64_t bytes;
    uint64_t address; /* where its owner has it */
    uint8_t *base;    /* here; NULL: not mapped yet */
    int fd;           /* until it is mapped, else -1 */
    bool own;         /* struct tca_region owns this */
    bool attached; /* memory of its process, there before the region was: never mapped or unmapped;
                      a peer's is not here at all */
    bool gone;     /* freed, or its process has ended */
    bool shared_only; /* no plan has ever asked for it */
    uint32_t uses;    /* by steps of plans, and by what others share with us */
    struct driver_region *driver_region;
    struct mapped_region *next;
};

/* What this session has notified on one slot of another (or of itself). */
struct notify_counter {
    struct notify_line *line; /* NULL: not used yet */
    struct notify_segment *segment;
    uint64_t value;
};

struct mapped_segment {
    uint64_t session;
    uint64_t bytes;
    uint32_t sources;
    int fd; /* until it is mapped, else -1 */
    bool own;
    struct notify_segment *segment;
    struct notify_counter counters[SLOTS_PER_SOURCE];
    struct mapped_segment *next;
};

/* Takes the descriptors that an answer to a commit carries. -EPROTO, -ENOMEM. */
int mapping_adopt(struct tca *session, const Tca__PlanCommitted *committed, struct frame *frame);
/* Those for which there is no room in the answer come before it. */
void mapping_adopt_early(struct tca *session, const Tca__Event *event, struct frame *frame);

/* The notification segment of a mapping's session, mapped. */
int mapping_segment(struct tca *session, const Tca__Mapping *mapping,
                    struct mapped_segment **ret_segment);

/* The region or segment of a mapping, mapped. -ESTALE: it is gone already. */
int mapping_region(struct tca *session, const Tca__Mapping *mapping,
                   struct mapped_region **ret_region);
int mapping_counter(struct tca *session, const Tca__Mapping *mapping, uint32_t slot,
                    struct notify_counter **ret_counter);

/* One of the session's own, or NULL. */
struct mapped_region *mapping_own(const struct tca *session, uint64_t id);

/* Own memory joins and leaves the lists. */
void mapping_insert(struct tca *session, struct mapped_region *region);
void mapping_remove(struct tca *session, struct mapped_region *region);
int mapping_insert_own_segment(struct tca *session);

/* One use of a region less: unmaps a peer's that is gone, or was only shared with us, when it was
 * the last. */
void mapping_unuse(struct tca *session, struct mapped_region *region);

/* A region that others share with us, mapped, and one use of it more; its descriptor comes in every
 * such frame. If nothing else has mapped it, it is not kept after its last use: nobody would tell
 * us of its end. */
int mapping_share_region(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                         struct mapped_region **ret_region);

/* The region is gone: NULL when it is none that was ever mapped. */
struct mapped_region *mapping_gone(struct tca *session, uint64_t id);

/* The session ends: every plan has been released. */
void mapping_clear(struct tca *session);
