/* The notification slots of exchanges: two for each, from TCA_HALO_SLOT_FIRST on. Any thread. */
#pragma once

#include <stdint.h>

#include "client/include/tca.h"

enum { HALO_SLOTS = 2 /* of one exchange */ };

/* Takes the slots *ret_slot and *ret_slot + 1 of a session: -EBUSY, -ENOMEM. */
int halo_slots_take(struct tca *session, uint32_t *ret_slot);
void halo_slots_return(struct tca *session, uint32_t slot);
