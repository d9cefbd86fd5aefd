#include "drivers/tcp/adopt.h"
#include "proto/limits.h"

const struct tcp_seat tca_tcp_seat = {
    .version = PROTO_VERSION,
    .open = tcp_seat_open,
    .peer_new = tcp_seat_peer,
    .adopt = tcp_adopt,
    .abandon = tcp_abandon,
    .push = tcp_push,
    .delivered = tcp_delivered,
    .landing_new = tcp_seat_landing,
    .blob = tcp_seat_blob,
};
