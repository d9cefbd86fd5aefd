#include "proto/lane.h"

#include <string.h>

static const char *const drivers[DRIVER_COUNT] = {
    [DRIVER_SHM] = "shm",       [DRIVER_OFI] = "ofi", [DRIVER_HCA] = "hca",
    [DRIVER_PEACH2] = "peach2", [DRIVER_TCP] = "tcp",
};

static const char *const seats[SEAT_COUNT] = {
    [SEAT_CLIENT] = "client",
    [SEAT_DAEMON] = "daemon",
};

static const char *const ways[WAY_COUNT] = {
    [WAY_PUSH] = "push",
    [WAY_PULL] = "pull",
    [WAY_HALF] = "half",
    [WAY_RING] = "ring",
};

static const char *const encryptions[ENCRYPTION_COUNT] = {
    [ENCRYPTION_LOCAL] = "local",
    [ENCRYPTION_TLS] = "tls",
    [ENCRYPTION_NONE] = "none",
};

/* The index of a name; 0 if unknown (entry 0 has no name). */
static unsigned find(const char *const *names, unsigned count, const char *name)
{
    for (unsigned i = 1; name && i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return i;
    return 0;
}

const char *driver_name(enum driver_id driver)
{
    return (unsigned)driver < DRIVER_COUNT ? drivers[driver] : NULL;
}

enum driver_id driver_from_name(const char *name)
{
    return (enum driver_id)find(drivers, DRIVER_COUNT, name);
}

const char *encryption_name(enum encryption encryption)
{
    return (unsigned)encryption < ENCRYPTION_COUNT ? encryptions[encryption] : NULL;
}

const char *seat_name(enum seat seat)
{
    return (unsigned)seat < SEAT_COUNT ? seats[seat] : NULL;
}

enum seat seat_from_name(const char *name)
{
    return (enum seat)find(seats, SEAT_COUNT, name);
}

const char *way_name(enum way way)
{
    return (unsigned)way < WAY_COUNT ? ways[way] : NULL;
}

enum way way_from_name(const char *name)
{
    return (enum way)find(ways, WAY_COUNT, name);
}
