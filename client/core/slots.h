/*
 * Notification slots of the modules of this library that are built on tca.h (halo exchanges,
 * messages, collectives). They take slots here and pass them to the functions of tca.h like any
 * others. Programs have the numbers below SLOT_LIBRARY_FIRST.
 */
#pragma once

#include <stdint.h>

struct tca;

#define SLOT_LIBRARY_FIRST (UINT32_C(1) << 31)

/* `count` slots that nobody can notify: the first of consecutive ones. They count notifications of
 * all ranks to this session; other ranks can be given others, so tell them which ones these are. */
uint32_t slots_take(struct tca *session, uint32_t count);
/* Nobody can notify them any more, and all notifications that were sent to them have been taken: as
 * many are given these, and need no new lines in tcad. Slots of which that is not known are
 * forgotten. */
void slots_return(struct tca *session, uint32_t slot, uint32_t count);
/* When the session is closed. */
void slots_end(struct tca *session);
