/*
 * Heartbeats (proto/heartbeat.h), sent and received by a separate thread, so that a busy loop on
 * either side does not make a node appear dead. A loop whose turn has lasted PULSE_STUCK_NS counts
 * as dead: the thread then sends nothing.
 *
 * The side that made the connection knows the other's address and begins; the other side replies to
 * the source of the first datagram with a valid signature. Where datagrams do not get through, only
 * the connection is monitored.
 */
#pragma once

#include <stdint.h>
#include <sys/socket.h>

struct loop;
struct pulse; /* one peer's heartbeats, while its connection is up */
struct pulses;

#define PULSE_STUCK_NS UINT64_C(60000000000)

/* Opens a socket at this address, with this port if it is free, and starts the thread. */
int pulses_new(const struct loop *loop, uint32_t node, const struct sockaddr *address,
               socklen_t address_bytes, struct pulses **ret_pulses);
struct pulses *pulses_free(struct pulses *pulses); /* all pulses must be freed before */
uint16_t pulses_port(const struct pulses *pulses);

struct pulse_args {
    uint32_t node;
    uint64_t key_in[2], key_out[2];
    uint64_t interval_ns;
    const struct sockaddr *address; /* NULL: known from its first heartbeat */
    socklen_t address_bytes;
};
int pulse_new(struct pulses *pulses, const struct pulse_args *args, struct pulse **ret_pulse);
struct pulse *pulse_free(struct pulse *pulse);
/* Any thread: time of the last heartbeat received (clock_now_ns()); 0: none yet. */
uint64_t pulse_heard_ns(struct pulse *pulse);
