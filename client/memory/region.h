#pragma once

#include "client/include/tca.h"
#include "client/memory/mapping.h"
#include "proto/handle.h"

struct tca_region {
    struct tca *session;
    struct mapped_region mapped;
    uint64_t lead_bytes;  /* before what the program asked for */
    uint64_t bytes;       /* which is so long */
    struct handle handle; /* of the whole region */
    uint64_t secret[2];   /* signs handles of parts */
    bool heap;            /* a chunk of tca_alloc() */
    struct tca_region *next;
};

static inline uint8_t *region_base(const struct tca_region *region)
{
    return region->mapped.base + region->lead_bytes;
}

/* This session's own region that a handle names, or NULL: a use of it keeps it from being freed. */
struct mapped_region *region_of_handle(const struct tca *session, const struct tca_handle *handle);

/* As tca_region_free(), also for regions of tca_alloc(). */
int region_free(struct tca_region *region);

/* The session ends: unmaps all of its regions. The daemon frees them. */
void region_clear(struct tca *session);
