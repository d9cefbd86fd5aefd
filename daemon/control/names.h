/* The names under which the regions of this node are published by sessions of this node. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/base/table.h"

struct tcad;

/* A zeroed one is empty. */
struct names {
    struct table by_region;
    size_t count;
};

/* Adds those that the viewer may see; as many as there is memory for. */
void names_collect(struct names *names, struct tcad *tcad, uid_t viewer);
void names_deinit(struct names *names);
/* A new list, "GROUP/NAME" each. NULL: out of memory. */
json_t *names_of(const struct names *names, uint64_t region);
