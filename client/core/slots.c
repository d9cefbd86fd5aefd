#include "client/core/slots.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/session.h"

static uint32_t count_taken(const struct tca *session, uint32_t first, uint32_t count)
{
    uint32_t taken = 0;

    for (uint32_t i = first; i < first + count; i++)
        taken += session->slots_taken[i];
    return taken;
}

int slots_take(struct tca *session, uint32_t count, uint32_t *ret_slot)
{
    for (uint32_t first = 0; count > 0 && first + count <= SLOTS_LIBRARY; first++) {
        if (count_taken(session, first, count) > 0)
            continue;
        memset(session->slots_taken + first, true, count);
        *ret_slot = SLOT_LIBRARY_FIRST + first;
        return 0;
    }
    char lost[160] = "";
    if (session->slots_lost > 0)
        snprintf(lost, sizeof(lost),
                 "; %u of them cannot be used again in this session, because other ranks may still "
                 "notify them",
                 session->slots_lost);
    return error_set(-EBUSY,
                     "%u notification slots in a row are needed, and %u of the library's %d are in "
                     "use: free a halo exchange or another object that uses some%s",
                     count, count_taken(session, 0, SLOTS_LIBRARY), SLOTS_LIBRARY, lost);
}

void slots_return(struct tca *session, uint32_t slot, uint32_t count)
{
    memset(session->slots_taken + (slot - SLOT_LIBRARY_FIRST), false, count);
}

void slots_lose(struct tca *session, uint32_t slot, uint32_t count)
{
    assert(count_taken(session, slot - SLOT_LIBRARY_FIRST, count) == count);
    session->slots_lost += count;
}
