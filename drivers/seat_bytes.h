/* What a connection of two processes (seat.h) takes in each of them, once both put over it: at
 * most, without the puts and landings. For displays; tests/unit/drivers/test_tcp_adopt.c measures
 * it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "drivers/driver.h"

enum {
    SEAT_BYTES_TCP = 900000,
    SEAT_BYTES_TCP_TLS = 1200000,
    SEAT_BYTES_HCA = 1200000,
};

static inline size_t seat_bytes(enum driver_id driver, bool encrypts)
{
    return driver == DRIVER_HCA ? SEAT_BYTES_HCA : encrypts ? SEAT_BYTES_TCP_TLS : SEAT_BYTES_TCP;
}
