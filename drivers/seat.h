/*
 * Drivers in processes: an instance that puts over connections of the process's own, which the
 * daemons have made (struct driver_pair_ops) or help the processes to make. Each joins two peers,
 * and carries what both put. A peer has a grant: it can write into landings with the same
 * driver_landing_args.grant, and into nothing else. An attempt ends the connection.
 *
 * Landings are numbered by somebody else, who tells the peer of them before they are made here: a
 * generation that is higher than any so far is of a landing that is to come, and what is put there
 * waits for that; one that is not, and has no landing, is of one that is gone (-ESTALE).
 *
 * What a process may not do is not in its table of operations (driver->ops): it probes, opens and
 * addresses nothing, connects no peers, and numbers no landings.
 *
 * A process loads a driver when it needs it: the library libtca-NAME exports its table as
 * tca_NAME_seat. All functions are for the thread that polls the instance. A child that is forked
 * inherits the instance, and may only release what it has.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "drivers/driver.h"

struct driver_seat {
    uint32_t version; /* PROTO_VERSION, of the release that it belongs to */
    bool asks_kernel; /* progress() makes a system call even if nothing has come */
    /* device: as the daemon's driver has described it (driver_pair_ops.device). */
    /* Whether this process can use it: 0 or an error. NULL: there is none. */
    int (*probe)(const void *device, size_t device_bytes);
    int (*open)(const void *device, size_t device_bytes, const struct driver_events *events,
                struct driver **ret_driver);
    /* A peer without a connection. Puts to it wait. grant: not 0, of no other peer. -ENOBUFS: too
     * many. */
    int (*peer_new)(struct driver *driver, uint64_t grant, struct driver_peer **ret_peer);

    /* One of these ways to connect it; the others are NULL. */
    /* The daemons connect: consumes the descriptor of a stream socket, also when it fails. The
     * connection takes the place of an earlier one. dialled: true at one end, false at the other.
     * secret: NULL (the connection stays in clear), or PAIR_SECRET_BYTES that both ends know, for
     * TLS. kernel: the kernel is to encrypt, if it can. */
    int (*adopt)(struct driver *driver, struct driver_peer *peer, int fd, bool dialled, bool kernel,
                 const uint8_t *secret);
    /* The processes connect: an offer, of at most OFFER_MAX_BYTES, for the other process, which
     * answers it by driver_ops.peer_answer(). Once for a peer. The process that has not dialled
     * answers before its own offer is answered, and sends nothing before it has heard of the other,
     * so that each is ready for what it receives. Returns the offer's size. */
    int (*offer)(struct driver *driver, struct driver_peer *peer, bool dials, void *ret_offer);

    /* As peer_fail(), at once: the puts in flight end before it returns, and nothing more is
     * received. */
    void (*abandon)(struct driver *driver, struct driver_peer *peer, int error);
    /* Call after puts: writes them, as far as the connections take them, and reads nothing. Short
     * puts that follow others closely can be left to progress(), which writes them together. */
    void (*push)(struct driver *driver);
    /* Whether everything that was put over it has reached the other process's host at least, or
     * never will; asks that process for a count. */
    bool (*delivered)(struct driver *driver, struct driver_peer *peer);
    /* The landing with this number, of args->grant. Generations only increase, by less than 2^31
     * each, and the index is free: -EEXIST. */
    int (*landing_new)(struct driver *driver, const struct driver_landing_args *args,
                       uint32_t index, uint32_t generation, struct driver_landing **ret_landing);
    /* What landing_new() there would have written for put_prepare(): the size of the blob. */
    size_t (*blob)(uint32_t index, uint32_t generation, uint64_t size_bytes,
                   uint8_t ret_blob[LANDING_MAX_BYTES]);
};

extern const struct driver_seat tca_tcp_seat __attribute__((visibility("default")));
extern const struct driver_seat tca_hca_seat __attribute__((visibility("default")));
