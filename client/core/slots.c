#include "client/core/slots.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>

#include "client/core/error.h"
#include "client/core/session.h"

static_assert(SLOTS_LIBRARY == 64, "bits of slots_taken");

static uint64_t bits(uint32_t first, uint32_t count)
{
    return (count == SLOTS_LIBRARY ? ~0ull : (1ull << count) - 1) << first;
}

int slots_take(struct tca *session, uint32_t count, uint32_t *ret_slot)
{
    for (uint32_t first = 0; count > 0 && first + count <= SLOTS_LIBRARY; first++) {
        if (session->slots_taken & bits(first, count))
            continue;
        session->slots_taken |= bits(first, count);
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
                     "%u notification slots in a row are needed, and %d of the library's %d are in "
                     "use: free a halo exchange or another object that uses some%s",
                     count, __builtin_popcountll(session->slots_taken), SLOTS_LIBRARY, lost);
}

void slots_return(struct tca *session, uint32_t slot, uint32_t count)
{
    session->slots_taken &= ~bits(slot - SLOT_LIBRARY_FIRST, count);
}

void slots_lose(struct tca *session, uint32_t slot, uint32_t count)
{
    assert((session->slots_taken & bits(slot - SLOT_LIBRARY_FIRST, count)) ==
           bits(slot - SLOT_LIBRARY_FIRST, count));
    session->slots_lost += count;
}
