#include "drivers/tcp/tcp.h"

#include "drivers/table.h"

static const struct driver_pair_ops pair_ops = {
    .expect = tcp_pair_expect,
    .forget = tcp_pair_forget,
    .dial = tcp_pair_dial,
};

const struct driver_ops tcp_driver_ops = {
    .name = "tcp",
    .id = DRIVER_TCP,
    .probe = tcp_probe,
    .open = tcp_open,
    .close = tcp_close,
    .address = tcp_address,
    .region_add = tcp_region_add,
    .region_remove = tcp_region_remove,
    .peer_connect = tcp_peer_connect,
    .peer_disconnect = tcp_peer_disconnect,
    .peer_fail = tcp_peer_fail,
    .landing_compile = packed_landing_compile,
    .landing_new = tcp_landing_new,
    .landing_free = tcp_landing_free,
    .landing_bytes = tcp_landing_bytes,
    .put_compile = packed_put_compile,
    .put_prepare = tcp_put_prepare,
    .put_release = tcp_put_release,
    .put_part = tcp_put_part,
    .put_post = tcp_put_post,
    .put_stop = window_put_stop,
    .peer_flush = tcp_peer_flush,
    .progress = tcp_progress,
    .event_fd = tcp_event_fd,
    .arm = tcp_arm,
    .door = tcp_door,
    .admit = tcp_admit,
    .shut = tcp_shut,
    .encrypts = tcp_encrypts,
    .pairs = &pair_ops,
};
