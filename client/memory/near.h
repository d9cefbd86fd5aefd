/*
 * Memory of this process that others on the node load and store themselves, without asking tcad
 * each time: a *directory* of its regions in shared memory, and *places* in them, which are sent
 * as plain data. For modules of this library that are built on tca.h.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "client/include/tca.h"

enum { NEAR_REGIONS = 16 };

/* In the owner's shared memory; written by it. */
struct near_directory {
    struct {
        _Atomic uint64_t id; /* of the region, never used again; 0: the entry is being changed */
        struct tca_handle handle;
    } regions[NEAR_REGIONS];
};

struct near_place {
    uint64_t region; /* its id; 0: the memory is in no region */
    uint64_t offset; /* in it */
    uint64_t entry;  /* of the directory */
};

/* ---- the owner */

struct near_owner {
    struct near_directory *directory;
    uint32_t next, last; /* entries: to replace, that was found */
};

/* The place of memory of this session; its region is entered. Of memory that is not in one region:
 * region 0. */
struct near_place near_place_of(struct tca *session, struct near_owner *owner, const void *address,
                                uint64_t bytes);

/* ---- another process */

struct mapped_region;

/* Maps the region of a handle until near_unmap(). NULL: the reason is in tca_error_text(). */
void *near_map(struct tca *session, const struct tca_handle *handle, uint64_t bytes,
               struct mapped_region **ret_region);
void near_unmap(struct tca *session, struct mapped_region *region); /* NULL is a no-op */

struct near_view {
    const struct near_directory *directory; /* of the owner */
    struct mapped_region *regions[NEAR_REGIONS];
    struct near_view *next, **link; /* of the session's; link NULL: it has mapped nothing yet */
};

/* The address here of `bytes` bytes at a place of the owner. The first call for a region asks tcad.
 * Valid until the next call, or near_view_end(). NULL: it cannot be reached, for the reason in
 * tca_error_text(). */
void *near_reach(struct tca *session, struct near_view *view, struct near_place place,
                 uint64_t bytes);
/* Copies to memory that another processor has read or written last. */
void near_copy(void *target, const void *source, uint64_t bytes);
void near_view_end(struct tca *session, struct near_view *view);
/* Unmaps the regions of all views, which map them again when they need them. Their owners may have
 * freed them, without a notice: their addresses are then given to other regions. */
void near_yield(struct tca *session);
