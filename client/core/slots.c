#include "client/core/slots.h"

#include <stdlib.h>

#include "client/core/session.h"

uint32_t slots_take(struct tca *session, uint32_t count)
{
    struct slots *slots = &session->slots;
    for (uint32_t i = slots->returned_count; i-- > 0;) {
        const struct slots_range range = slots->returned[i];
        if (range.count != count)
            continue;
        slots->returned[i] = slots->returned[--slots->returned_count];
        return range.slot;
    }
    const uint32_t slot = SLOT_LIBRARY_FIRST + slots->used;
    slots->used += count;
    return slot;
}

void slots_return(struct tca *session, uint32_t slot, uint32_t count)
{
    struct slots *slots = &session->slots;
    if (slots->returned_count == slots->room) {
        const uint32_t room = 2 * slots->room + 8;
        struct slots_range *returned = reallocarray(slots->returned, room, sizeof(*returned));
        if (!returned)
            return;
        slots->returned = returned;
        slots->room = room;
    }
    slots->returned[slots->returned_count++] = (struct slots_range){slot, count};
}

void slots_end(struct tca *session)
{
    free(session->slots.returned);
}
