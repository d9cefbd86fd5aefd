/* A process with the driver of node 1, which puts into whatever landings of node 0 it was told of,
 * again and again, until a put fails. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "drivers/driver.h"

enum { SENDER_BYTE = 0xbb };

/* Shared with the test. */
struct sender {
    pid_t pid;
    uint8_t owner[ADDRESS_MAX_BYTES]; /* address of node 0 */
    int owner_bytes;
    const struct layout *layout; /* of all puts, to memory of the same size; from before the fork */
    uint8_t address[ADDRESS_MAX_BYTES];
    int address_bytes;
    uint8_t blob[LANDING_MAX_BYTES]; /* of the landing with this number: */
    size_t blob_bytes;
    _Atomic uint32_t told;          /* 0: none yet */
    _Atomic uint32_t ended;         /* of the last one whose put has failed */
    _Atomic uint32_t put;           /* of the last landing that a put has completed to */
    _Atomic uint32_t stale, failed; /* puts that ended because of a recall; otherwise */
    _Atomic uint32_t ready;
    _Atomic uint32_t end;
};

/* Sets the bytes of a layout in memory. */
void layout_set(const struct layout *layout, uint8_t *base, uint8_t byte);
struct sender *sender_new(const struct driver *owner, const struct layout *layout);
/* Forks. */
void sender_start(struct sender *sender);
/* Lets it end by itself; asserts that it had no errors. */
void sender_end(struct sender *sender);
void sender_kill(struct sender *sender);
