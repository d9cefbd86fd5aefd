/* The input of fuzz_board.c: records that store bytes somewhere, or pull or plug a cable. */
#pragma once

#include <stdint.h>

enum board_place { IN_BAR0, IN_BAR2, IN_HOST, IN_CABLE, PULL = IN_CABLE + 3, PLUG, BOARD_PLACES };

struct board_record { /* followed by its bytes; the offset counts modulo the size of the target,
                         or its ports */
    uint8_t place;
    uint8_t bytes;
    uint16_t offset_low, offset_high;
};
_Static_assert(sizeof(struct board_record) == 6, "as it lies in files");

enum { BOARD_NODE = 3, BOARD_HOST_BUS = 1 << 20, BOARD_HOST_BYTES = 64 << 10 };
