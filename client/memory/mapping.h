/*
 * Regions and notification segments of other processes on this node, by id; each session maps them
 * once, when a plan needs them. Of regions that no plan uses any more, the last MAPPINGS_UNUSED_MAX
 * stay mapped for the next one: tcad sends the descriptors with each reply. A segment remains until
 * its process has ended and it is unused. The session's own regions and notification segment are
 * there, too.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/core/control.h"
#include "proto/notify.h"

struct tca;

enum { MAPPINGS_UNUSED_MAX = 32 };

struct mapped_region {
    uint64_t id;
    uint64_t bytes;
    uint64_t address;      /* in its owner */
    uint64_t offset_bytes; /* in fd; 0: it is all of its descriptor, else it was shared in place */
    uint8_t *base;         /* in this process; NULL: not mapped yet */
    int fd;                /* until it is mapped, then -1; own: of its dmabuf, for the drivers of
                         connections, or -1 */
    pid_t owner_pid; /* of a region of mapping_share_region(): its owner's process, in this one's
                      * PID namespace, as tcad has it from the kernel; 0: not known */
    uint64_t owner;  /* with owner_pid: its session */
    bool dmabuf;
    bool own;         /* part of a struct tca_region */
    bool in_place;    /* own: memory that the program had before, never unmapped here */
    bool gone;        /* freed, or its process has ended */
    bool shared_only; /* no plan has used it, only lane offers */
    bool reached;     /* by tca_reach(): stays mapped until the session ends */
    uint32_t uses;    /* by steps of plans and by lane offers */
    struct driver_region *driver_region;
    struct target *targets;           /* own: where others put (client/core/target.h) */
    struct seat_region *seat_regions; /* own: of the drivers of connections (client/plan/pair.c) */
    struct mapped_region *next, **link;  /* of all, in no order */
    struct mapped_region *older, *newer; /* of those that are kept unused */
    bool unused;                         /* it is one of them */
    struct mapped_region *child[2];      /* in the tree of all, by id (mapping.c) */
};

struct mapped_segment {
    uint64_t session;
    uint64_t bytes;
    int fd; /* until it is mapped, then -1 */
    bool own;
    bool gone;     /* its process has ended */
    uint32_t uses; /* by steps of plans and by lanes */
    struct notify_segment *segment;
    struct mapped_segment *next;
};

/* Takes the descriptors from the reply to a commit. -EPROTO, -ENOMEM. */
int mapping_adopt(struct tca *session, const Tca__PlanCommitted *committed, struct frame *frame);
/* The same for an event that precedes the reply with the descriptors that do not fit into it. */
void mapping_adopt_early(struct tca *session, const Tca__Event *event, struct frame *frame);

/* Maps the notification segment of a mapping's session. */
int mapping_segment(struct tca *session, const Tca__Mapping *mapping,
                    struct mapped_segment **ret_segment);

/* Drops one use. The last one unmaps the segment if its process has ended. */
void mapping_segment_unuse(struct tca *session, struct mapped_segment *segment);
/* The process with this session has ended: unmaps its segment, once it is unused. */
void mapping_session_gone(struct tca *session, uint64_t id);

/* Map the region or notification line of a mapping. The line adds a use of its segment. -ESTALE:
 * the region is gone. */
int mapping_region(struct tca *session, const Tca__Mapping *mapping,
                   struct mapped_region **ret_region);
int mapping_line(struct tca *session, const Tca__Mapping *mapping,
                 struct mapped_segment **ret_segment, struct notify_line **ret_line);

/* The session's own region with this id, or NULL. */
struct mapped_region *mapping_own(const struct tca *session, uint64_t id);

/* Add to and remove from what the session knows. */
void mapping_insert(struct tca *session, struct mapped_region *region);
void mapping_remove(struct tca *session, struct mapped_region *region);
int mapping_insert_own_segment(struct tca *session);

/* Adds and drops one use of a region. The last one unmaps a peer's region that is gone or
 * shared_only, and lets mapping_trim() unmap another one. */
void mapping_use(struct tca *session, struct mapped_region *region);
void mapping_unuse(struct tca *session, struct mapped_region *region);
/* Unmaps unused regions that are too many, first those that were used longest ago. Not between the
 * adoption and the use of a reply. */
void mapping_trim(struct tca *session);

/* Maps a region that this process copies from or to without a plan, such as the source of a lane
 * offer, and adds a use; the frame of each offer has its descriptor. The region is shared_only
 * unless a plan uses it, because the daemon reports the end of regions only to sessions with such
 * plans. */
int mapping_share_region(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                         struct mapped_region **ret_region);

/* Maps a region that tcad has sent for tca_reach(), until the session ends. */
int mapping_reach(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                  struct mapped_region **ret_region);

/* The region was freed: unmaps it, once no plan uses it. No effect if it is not known. */
void mapping_gone(struct tca *session, uint64_t id);

/* The session ends: unmaps everything. All plans must be released. */
void mapping_clear(struct tca *session);
