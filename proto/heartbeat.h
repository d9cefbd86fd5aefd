/*
 * Heartbeats between daemons: datagrams that show that the sender is alive. In its greeting, each
 * side of a connection gives the other a secret key, with which the other signs every datagram it
 * sends. Sequence numbers increase, so that a replayed datagram does not count.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HEARTBEAT_BYTES = 40, HEARTBEAT_KEY_BYTES = 16, HEARTBEAT_MAGIC = 0x48414354 /* "TCAH" */ };

struct heartbeat {
    uint32_t from, to; /* nodes */
    uint64_t sequence;
};

void heartbeat_sign(const struct heartbeat *heartbeat, const uint64_t key[2],
                    uint8_t ret_bytes[static HEARTBEAT_BYTES]);
/* Decodes a datagram; -EPROTO if it is not a heartbeat. Do not trust the result before
 * heartbeat_is_signed(). */
int heartbeat_parse(const void *bytes, size_t count, struct heartbeat *ret_heartbeat);
bool heartbeat_is_signed(const uint8_t bytes[static HEARTBEAT_BYTES], const uint64_t key[2]);
