/*
 * Memory of this process that others on the node read and write themselves, without asking tcad
 * each time: a *directory* of its regions in shared memory, and *places*, which are sent as plain
 * data. Others load and store what is in a region. What is in none is *private*: they read it with
 * process_vm_readv(2), where the kernel permits that. For modules of this library that are built on
 * tca.h.
 *
 * A place comes from the other process and is used with that process only: tcad, which has it from
 * the kernel, says which one that is. Each copy also brings a number that only this process has at
 * its address, so that another one, which has got the same process ID after its end, is not read by
 * mistake.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/include/tca.h"

enum { NEAR_REGIONS = 16 };
#define NEAR_PRIVATE UINT64_MAX /* instead of a region's id */

/* In the owner's shared memory; written by it. */
struct near_directory {
    uint64_t proof, proof_address; /* the number, and where it is in the owner's private memory */
    struct {
        _Atomic uint64_t id; /* of the region, never used again; 0: the entry is being changed */
        struct tca_handle handle;
    } regions[NEAR_REGIONS];
};

struct near_place {
    uint64_t region; /* its id; 0: nobody may copy there; or NEAR_PRIVATE */
    uint64_t offset; /* in it; of private memory: its address */
    uint64_t entry;  /* of the directory */
};

/* ---- the owner */

struct near_owner {
    struct near_directory *directory;
    uint64_t proof;
    uint32_t next, last; /* entries: to replace, that was found */
};

/* The owner, itself in private memory, has a directory, which is zero. */
void near_owner_begin(struct near_owner *owner, struct near_directory *directory);
/* From now on, nobody copies from and to private places of the owner. */
void near_owner_end(struct near_owner *owner);
/* The place of memory of this session; its region is entered. Of memory that is not in one region:
 * its private place. Of a device's memory: none. */
struct near_place near_place_of(struct tca *session, struct near_owner *owner, const void *address,
                                uint64_t bytes);

/* ---- another process */

struct mapped_region;

/* Maps the region of a handle until near_unmap(). NULL: the reason is in tca_error_text(). */
void *near_map(struct tca *session, const struct tca_handle *handle, uint64_t bytes,
               struct mapped_region **ret_region);
/* The process of a rank that has made the region, for near_view.owner_pid. 0: another one has made
 * it, which the rank could otherwise name instead of itself. */
pid_t near_owner_pid(const struct tca *session, const struct mapped_region *region, uint32_t rank);
void near_unmap(struct tca *session, struct mapped_region *region); /* NULL is a no-op */

struct near_view {
    const struct near_directory *directory; /* of the owner */
    pid_t owner_pid;                        /* 0: not known */
    int refused;                            /* a negative errno: private memory is out of reach */
    struct mapped_region *regions[NEAR_REGIONS];
    struct near_view *next, **link; /* of the session's; link NULL: it has mapped nothing yet */
};

/* The address here of `bytes` bytes at a place of the owner. The first call for a region asks tcad.
 * Valid until the next call, or near_view_end(). NULL: it cannot be reached, for the reason in
 * tca_error_text(). */
void *near_reach(struct tca *session, struct near_view *view, struct near_place place,
                 uint64_t bytes);
/* Whether private memory of the owner can be reached at all: 0, or a negative errno, for the reason
 * in tca_error_text(). */
int near_check_private(struct near_view *view);
/* Copies from a private place of the owner. 0, or a negative errno: it cannot be reached, for the
 * reason in tca_error_text(); a part of the target may have been written. */
int near_read_private(struct near_view *view, struct near_place place, void *target,
                      uint64_t bytes);
/* Copies to memory that another processor has read or written last. */
void near_copy(void *target, const void *source, uint64_t bytes);
void near_view_end(struct tca *session, struct near_view *view);
/* Unmaps the regions of all views, which map them again when they need them. Their owners may have
 * freed them, without a notice: their addresses are then given to other regions. */
void near_yield(struct tca *session);
