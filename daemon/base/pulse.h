/*
 * Heartbeats (proto/heartbeat.h), sent and received by a thread of their own: neither a loop that
 * is busy here nor one that is busy there makes a node look dead. A loop that is stuck is dead all
 * the same: nothing is sent for a loop whose turn has lasted for PULSE_STUCK_NS.
 *
 * Who has made the connection knows where the other side is, and begins; the other side answers
 * where the first datagram with a good signature came from. Where datagrams do not get through, only
 * the connection counts.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

struct loop;
struct pulse; /* of one peer, for as long as its connection is up */
struct pulses;

#define PULSE_STUCK_NS UINT64_C(60000000000)

/* A socket at this address, with this port if it is free, and the thread. */
int pulses_new(const struct loop *loop, uint32_t node, const struct sockaddr *address,
               socklen_t address_bytes, struct pulses **ret_pulses);
struct pulses *pulses_free(struct pulses *pulses); /* no pulse is left */
uint16_t pulses_port(const struct pulses *pulses);

struct pulse_args {
    uint32_t node;
    uint64_t key_in[2], key_out[2];
    uint64_t interval_ns;
    const struct sockaddr *address; /* NULL: wait for its first one */
    socklen_t address_bytes;
};
int pulse_new(struct pulses *pulses, const struct pulse_args *args, struct pulse **ret_pulse);
struct pulse *pulse_free(struct pulse *pulse);
/* When its last heartbeat came, by clock_now_ns(); 0: none yet. */
uint64_t pulse_heard_ns(struct pulse *pulse);
