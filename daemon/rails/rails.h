/*
 * The rails of this node. A rail is an instance of a driver: one device or provider, address and
 * port. Several rails can have the same driver.
 *
 * A rail's index in the table is valid in this process and its clients; other nodes and users know
 * rails by name, or by driver and plane: the rails of two nodes that have both in common lead to
 * each other. The table does not change after rails_open().
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "drivers/driver.h"
#include "drivers/hca/config.h"
#include "drivers/ofi/config.h"
#include "drivers/peach2/config.h"
#include "drivers/tcp/config.h"
#include "proto/segment.h"
#include "proto/tca.pb-c.h"

struct nearness;
struct tcad;

enum { RAIL_NONE = 0, RAIL_SHM = 1 }; /* index 1: the rail of driver shm, even if it is not open */
enum { RAIL_KEY_MAX_BYTES = RAIL_NAME_MAX_BYTES + 19 };

struct rail {
    char name[RAIL_NAME_MAX_BYTES];  /* "ofi:tcp:lo" */
    char plane[RAIL_NAME_MAX_BYTES]; /* "ofi:tcp"; "" if it is not open */
    enum driver_id driver;
    const struct driver_ops *ops; /* NULL: this tcad has no such driver */
    struct driver_config config;  /* use rail_config() */
    union {
        struct tcp_config tcp;
        struct ofi_config ofi;
        struct hca_config hca;
        struct peach2_config peach2;
    } own;
    char host[64]; /* the address in `own`, if the configured name was looked up */
    /* the key that permits the rail without protection: "rails.ofi_unprotected" */
    char unprotected_key[RAIL_KEY_MAX_BYTES];
    int place; /* of its device: see nearness.h */
    bool open; /* the engine has opened it: engine_driver() */
    /* open: for processes that put over it by themselves (driver_pair_ops.device) */
    uint8_t device[ADDRESS_MAX_BYTES];
    size_t device_bytes;
    char off_text[96]; /* unless open: why */
    char remedy[320];  /* what to do about that; "" if there is nothing specific */
};

/* After the open rails, the table has those that could not be opened, and one for each driver
 * without a rail. */
struct rails {
    unsigned count;            /* indexes 1 to count exist */
    unsigned last;             /* the highest index of an open rail */
    struct nearness *nearness; /* NULL: the machine has one place, or no driver several rails */
    struct rail at[RAIL_SLOTS];
};

int rails_new(struct rails **ret_rails);
struct rails *rails_free(struct rails *rails);
/* Opens the rails of the configuration. A driver that refuses to work without protection leaves its
 * rail off. -ENODEV and other errors, with a text. */
int rails_open(struct tcad *tcad, char *text, size_t text_bytes);

/* For its driver's probe() and open(); valid as long as the rail. */
struct driver_config rail_config(const struct rail *rail);
/* Of a copy: lets it listen on any free port instead of the rail's own. */
void rail_leave_port(struct rail *rail);

/* NULL: no such rail. */
const struct rail *rail_at(const struct tcad *tcad, unsigned rail);
const char *rail_name(const struct tcad *tcad, unsigned rail);
const char *rail_driver(const struct tcad *tcad, unsigned rail); /* its name */
/* The open rail with this driver and plane, or RAIL_NONE. */
unsigned rail_find(const struct tcad *tcad, const char *driver, const char *plane);
/* The rails that a name selects, one bit per index: the rail with this name, or the open rails of
 * this driver (the closed ones if none is open). 0: no such rail or driver. */
unsigned rails_named(const struct tcad *tcad, const char *name);
/* For the greeting of clients: the rails by index, from 1; how many. */
unsigned rails_describe(const struct tcad *tcad, Tca__Rail ret_rails[static RAILS_MAX]);
/* How far the rail's device is from a place (nearness.h). */
uint64_t rail_distance(const struct tcad *tcad, unsigned rail, int place);
/* The first rail that is off for lack of protection, or NULL. */
const struct rail *rail_refused(const struct tcad *tcad);
/* The names of the open rails, for display. */
const char *rails_text(const struct tcad *tcad, char *ret_text, size_t text_bytes);
