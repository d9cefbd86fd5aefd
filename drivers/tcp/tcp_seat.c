#include "drivers/tcp/adopt.h"
#include "proto/limits.h"

static int open_seat(const void *device, size_t device_bytes, const struct driver_events *events,
                     struct driver **ret_driver)
{
    return tcp_seat_open(events, ret_driver);
}

const struct driver_seat tca_tcp_seat = {
    .version = PROTO_VERSION,
    .asks_kernel = true,
    .open = open_seat,
    .peer_new = tcp_seat_peer,
    .adopt = tcp_adopt,
    .abandon = tcp_abandon,
    .push = tcp_push,
    .delivered = tcp_delivered,
    .landing_new = tcp_seat_landing,
    .blob = tcp_seat_blob,
};
