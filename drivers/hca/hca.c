/* The driver in a daemon. */
#include <errno.h>

#include "drivers/hca/hca.h"
#include "drivers/seat.h"
#include "drivers/table.h"

static int flush(struct driver *driver, struct driver_peer *peer, struct driver_op *op)
{
    const struct hca_peer *to = (const struct hca_peer *)peer;
    return to->answered || to->error < 0 ? hca_peer_flush(driver, peer, op) : -ENOTCONN;
}

static const struct driver_pair_ops pairs = {.seat = &tca_hca_seat, .device = hca_describe_device};

const struct driver_ops hca_driver_ops = {
    .name = "hca",
    .id = DRIVER_HCA,
    .probe = hca_probe,
    .open = hca_open,
    .close = hca_close,
    .address = hca_address,
    .region_add = hca_region_add,
    .region_remove = hca_region_remove,
    .region_part = hca_region_part,
    .peer_connect = hca_peer_connect,
    .peer_answer = hca_peer_answer,
    .peer_disconnect = hca_peer_disconnect,
    .peer_fail = hca_peer_fail,
    .landing_compile = packed_landing_compile,
    .landing_new = hca_landing_new,
    .landing_free = hca_landing_free,
    .landing_bytes = hca_landing_bytes,
    .put_compile = packed_put_compile,
    .put_prepare = hca_put_prepare,
    .put_release = hca_put_release,
    .put_part = hca_put_part,
    .put_post = hca_put_post,
    .put_stop = window_put_stop,
    .peer_flush = flush,
    .progress = hca_progress,
    .event_fd = hca_event_fd,
    .arm = hca_arm,
    .pairs = &pairs,
};

const struct hca_role hca_daemon = {
    .ops = &hca_driver_ops,
    .take = {[HCA_PIECE] = hca_take_piece,
             [HCA_ASK] = hca_take_nothing,
             [HCA_COUNT] = hca_take_nothing,
             [HCA_RECALL] = hca_recalled},
};
