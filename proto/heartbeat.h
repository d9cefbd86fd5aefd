/*
 * Heartbeats between daemons: datagrams that say that the sender lives. Each side of a connection
 * gives the other, in its greeting, a secret for what that sends; with it every datagram is signed.
 * None counts twice: their numbers grow.
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
/* What these bytes say they are; -EPROTO when they cannot be a heartbeat. Nothing of it is to be
 * believed before heartbeat_is_signed(). */
int heartbeat_parse(const void *bytes, size_t count, struct heartbeat *ret_heartbeat);
bool heartbeat_is_signed(const uint8_t bytes[static HEARTBEAT_BYTES], const uint64_t key[2]);
