#pragma once

#include "client/memory/mapping.h"

/* Asks tcad for the region of a handle, and maps it with one of the functions of mapping.h. */
int region_reach(struct tca *session, const struct tca_handle *handle,
                 int (*map)(struct tca *session, const Tca__Mapping *mapping, struct frame *frame,
                            struct mapped_region **ret_region),
                 struct mapped_region **ret_region);
