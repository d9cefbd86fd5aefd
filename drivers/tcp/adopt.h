/*
 * The tcp driver in a process (drivers/seat.h): an instance without a port, whose connections were
 * made and authenticated elsewhere, and are handed to it in clear. The counts of one direction
 * travel with the data of the other.
 *
 * When a connection breaks, what was put over it is kept for TCP_LOST_MS. With another connection
 * between the same peers, it goes on, each piece once; without, the peer is lost (-ENETDOWN). A
 * process that does not look at its end for long only delays what is put to it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "drivers/seat.h"

int tcp_seat_open(const struct driver_events *events, struct driver **ret_driver);

/* A peer without a connection. grant: not 0, of no other peer. -ENOBUFS: too many. */
int tcp_seat_peer(struct driver *driver, uint64_t grant, struct driver_peer **ret_peer);

/* Consumes the descriptor of a stream socket, also when it fails. The connection takes the place of
 * an earlier one. dialled: true at one end, false at the other. secret: NULL (the connection stays
 * in clear), or TCP_SECRET_BYTES that both ends know, for TLS. kernel: this end's records are the
 * kernel's if that has TLS for the socket, else they are ours; the ends may differ. */
int tcp_adopt(struct driver *driver, struct driver_peer *peer, int fd, bool dialled, bool kernel,
              const uint8_t *secret);
/* As peer_fail(), at once: the puts in flight end before it returns, and nothing more is
 * received. */
void tcp_abandon(struct driver *driver, struct driver_peer *peer, int error);
/* Call after puts: writes them, as far as the sockets take them, and reads nothing. Short puts that
 * follow others closely are left to progress(), which writes them together. */
void tcp_push(struct driver *driver);
/* Whether everything that was put over it has reached the other process's host at least, or never
 * will; asks that process for a count. */
bool tcp_delivered(struct driver *driver, struct driver_peer *peer);

/* The landing with this number, of args->grant. Generations only increase, by less than 2^31 each,
 * and the index is free: -EEXIST. */
int tcp_seat_landing(struct driver *driver, const struct driver_landing_args *args, uint32_t index,
                     uint32_t generation, struct driver_landing **ret_landing);
/* What landing_new() there would have written for put_prepare(): the size of the blob. */
size_t tcp_seat_blob(uint32_t index, uint32_t generation, uint64_t size_bytes,
                     uint8_t ret_blob[LANDING_MAX_BYTES]);
