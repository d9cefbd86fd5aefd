#include "drivers/tcp/adopt.h"
#include "proto/limits.h"

const struct tcp_seat tca_tcp_seat = {
    .version = PROTO_VERSION,
    .open = tcp_seat_open,
    .peer_new = tcp_seat_peer,
    .adopt_link = tcp_adopt_link,
    .abandon_link = tcp_abandon_link,
    .push = tcp_push,
    .delivered = tcp_link_delivered,
    .adopt_source = tcp_adopt_source,
    .drop_source = tcp_drop_source,
    .landing_new = tcp_seat_landing,
    .blob = tcp_seat_blob,
};
