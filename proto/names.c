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

static const char *const methods[COPY_COUNT] = {
    [COPY_PUSH] = "push",
    [COPY_PULL] = "pull",
    [COPY_HALF] = "half",
    [COPY_RING] = "ring",
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

const char *copy_method_name(enum copy_method method)
{
    return (unsigned)method < COPY_COUNT ? methods[method] : NULL;
}

enum copy_method copy_method_from_name(const char *name)
{
    return (enum copy_method)find(methods, COPY_COUNT, name);
}
