/* The clock of a test: for struct trial_effects. */
#pragma once

#include <stdint.h>

static uint64_t now_ns;

static uint64_t own_clock(void)
{
    return now_ns;
}
