/* An error of a channel, as reported in driver_op.fault. */
#pragma once

#include <stdint.h>
#include <stdio.h>

#include "drivers/peach2/registers.h"

static inline uint32_t peach2_fault(unsigned node, unsigned channel, uint32_t error)
{
    return (uint32_t)(node & 0xff) << 16 | (uint32_t)(channel & 0xff) << 8 |
           (error < PEACH2_ERRORS ? error : PEACH2_ERRORS);
}

static inline void peach2_fault_text(uint32_t fault, char *ret_text, size_t text_bytes)
{
    snprintf(ret_text, text_bytes,
             "this node's board (number %u of its sub-cluster) has stopped its channel %u: %s",
             fault >> 16 & 0xff, fault >> 8 & 0xff, peach2_error_text(fault & 0xff));
}
