#pragma once

#include "client/include/tca.h"
#include "client/mapping.h"
#include "proto/handle.h"

struct tca_region {
    struct tca *session;
    struct mapped_region mapped;
    struct handle handle; /* of all of it */
    struct tca_region *next;
};

/* The session ends: unmaps all of its regions. The daemon frees them. */
void region_clear(struct tca *session);
