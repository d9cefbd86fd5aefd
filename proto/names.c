#include "proto/lane.h"

#include <string.h>

static const char *const rails[RAIL_COUNT] = {
    [RAIL_SHM] = "shm",
    [RAIL_OFI] = "ofi",
    [RAIL_PEACH2] = "peach2",
    [RAIL_TCP] = "tcp",
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

/* The index of a name; 0 if unknown (entry 0 has no name). */
static unsigned find(const char *const *names, unsigned count, const char *name)
{
    for (unsigned i = 1; name && i < count; i++)
        if (names[i] && strcmp(names[i], name) == 0)
            return i;
    return 0;
}

const char *rail_name(enum rail rail)
{
    return (unsigned)rail < RAIL_COUNT ? rails[rail] : NULL;
}

enum rail rail_from_name(const char *name)
{
    return (enum rail)find(rails, RAIL_COUNT, name);
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
