/*
 * Notification slots. Programs use 0 to SLOTS_PROGRAM - 1. The rest belongs to the modules of this
 * library that are built on tca.h (halo exchanges, messages, collectives): they take slots here and
 * pass them to the functions of tca.h like any others. Their numbers are far from those of
 * programs, so that the functions of tca.h refuse a program that counts beyond its own.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca.h"
#include "proto/limits.h"

enum {
    SLOTS_PROGRAM = 64,
    SLOTS_LIBRARY = SLOTS_PER_SOURCE - SLOTS_PROGRAM,
    SLOT_LIBRARY_FIRST = 0x10000, /* as tca.h's functions are given it */
};

/* Takes `count` slots of the library: *ret_slot and those after it. They count notifications of all
 * ranks to this session; other ranks can have others free, so tell them which ones these are.
 * -EBUSY: too few are left. */
int slots_take(struct tca *session, uint32_t count, uint32_t *ret_slot);
/* Nobody can notify them any more, and all notifications that were sent to them have been taken. */
void slots_return(struct tca *session, uint32_t slot, uint32_t count);
/* Somebody may still notify them: nobody is given them again in this session. */
void slots_lose(struct tca *session, uint32_t slot, uint32_t count);

/* The index of a slot in the notification segment; false: there is no such slot. */
static inline bool slot_index(uint32_t slot, uint32_t *ret_index)
{
    uint32_t index = slot;
    if (__builtin_expect(slot >= SLOTS_PROGRAM, 0)) {
        if (slot - SLOT_LIBRARY_FIRST >= SLOTS_LIBRARY)
            return false;
        index = slot - SLOT_LIBRARY_FIRST + SLOTS_PROGRAM;
    }
    *ret_index = index;
    return true;
}
