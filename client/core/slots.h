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

/* Slots that a released object has left, and that other ranks may still notify: they are free again
 * when as many notifications have arrived as each rank has sent. The object's module finds that out
 * (`told`). */
struct slots_left {
    struct slots_left *next;
    uint64_t number; /* of the object: the same at all ranks */
    uint32_t slot, count;
    bool told;        /* what all ranks have sent is known: */
    uint32_t *wanted; /* by rank: slots_arrived() when all has arrived; before: that when they were
                         taken */
    uint32_t *sent;   /* by rank: notifications of this one to the object there; SLOTS_UNSURE */
};

#define SLOTS_UNSURE UINT32_MAX /* a start has failed, and may have notified or not */

/* Sum of the notifications of a rank to these slots so far; wraps around. */
uint32_t slots_arrived(const struct tca *session, uint32_t rank, uint32_t slot, uint32_t count);
/* Takes ownership, with its arrays, which are from malloc(). */
void slots_leave(struct tca *session, struct slots_left *left);
/* What was left so far, oldest first. */
struct slots_left *slots_left(const struct tca *session);
/* What is wanted of these is known. sure: and it will come; otherwise they are lost. */
void slots_told(struct tca *session, struct slots_left *left, bool sure);
/* Whether some of these will be free without another call of their module. */
bool slots_awaited(const struct tca *session);
/* Numbers the collective calls of a module, from 0 on. */
uint64_t slots_number(struct tca *session);
/* When the session is closed. */
void slots_end(struct tca *session);

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
