/* The rails of this node, as its daemon lists them. */
#pragma once

#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct rail_list {
    uint32_t count; /* indexes 1 to count exist */
    struct rail {
        char name[RAIL_NAME_MAX_BYTES];
        enum driver_id driver; /* DRIVER_NONE: unknown to this library */
        /* that the driver needs in this process (drivers/seat.h) */
        uint8_t device[ADDRESS_MAX_BYTES];
        size_t device_bytes;
    } at[RAILS_MAX + 1];
};

/* 0 or -EPROTO. */
int rails_take(struct rail_list *list, const Tca__Welcome *welcome);
/* Checks a name from the environment: a rail of this node, a driver, or "" for any. 0 or
 * -EINVAL. */
int rails_check(const struct rail_list *list, const char *name);
