#include "client/core/slots.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "proto/notify.h"

static uint32_t count_taken(const struct tca *session, uint32_t first, uint32_t count)
{
    uint32_t taken = 0;

    for (uint32_t i = first; i < first + count; i++)
        taken += session->slots_taken[i];
    return taken;
}

static int find(struct tca *session, uint32_t count, uint32_t *ret_slot)
{
    for (uint32_t first = 0; count > 0 && first + count <= SLOTS_LIBRARY; first++) {
        if (count_taken(session, first, count) > 0)
            continue;
        memset(session->slots_taken + first, true, count);
        *ret_slot = SLOT_LIBRARY_FIRST + first;
        return 0;
    }
    return -EBUSY;
}

static bool reclaim(struct tca *session);

int slots_take(struct tca *session, uint32_t count, uint32_t *ret_slot)
{
    char lost[160] = "", left[160] = "";
    uint32_t left_count = 0;
    if (find(session, count, ret_slot) == 0 ||
        (reclaim(session) && find(session, count, ret_slot) == 0))
        return 0;
    for (const struct slots_left *one = session->slots_left; one; one = one->next)
        left_count += one->count;
    if (left_count > 0)
        snprintf(left, sizeof(left),
                 "; %u of them are free again once all ranks have released their messengers, "
                 "called tca_msg_new(), and what they have sent has arrived",
                 left_count);
    if (session->slots_lost > 0)
        snprintf(lost, sizeof(lost),
                 "; %u of them cannot be used again in this session, because other ranks may still "
                 "notify them",
                 session->slots_lost);
    return error_set(-EBUSY,
                     "%u notification slots in a row are needed, and %u of the library's %d are in "
                     "use: free a halo exchange or another object that uses some%s%s",
                     count, count_taken(session, 0, SLOTS_LIBRARY), SLOTS_LIBRARY, left, lost);
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

/* ---- slots that were left ---- */

static uint64_t arrived_in(const struct tca *session, uint32_t rank, uint32_t slot)
{
    uint32_t index = 0;
    slot_index(slot, &index);
    const uint32_t line = notify_find(session->notify, rank, index);
    return line == NOTIFY_NO_LINE ? 0 : notify_arrived(notify_line_at(session->notify, line));
}

uint32_t slots_arrived(const struct tca *session, uint32_t rank, uint32_t slot, uint32_t count)
{
    uint64_t arrived = 0;
    for (uint32_t i = 0; i < count; i++)
        arrived += arrived_in(session, rank, slot + i);
    return (uint32_t)arrived;
}

void slots_leave(struct tca *session, struct slots_left *left)
{
    struct slots_left **end = &session->slots_left;
    while (*end)
        end = &(*end)->next;
    left->next = NULL;
    *end = left;
}

struct slots_left *slots_left(const struct tca *session)
{
    return session->slots_left;
}

static void drop(struct slots_left *left)
{
    free(left->wanted);
    free(left->sent);
    free(left);
}

static void remove_left(struct tca *session, struct slots_left *left)
{
    struct slots_left **link = &session->slots_left;
    while (*link != left)
        link = &(*link)->next;
    *link = left->next;
    drop(left);
}

void slots_told(struct tca *session, struct slots_left *left, bool sure)
{
    left->told = true;
    if (sure)
        return;
    slots_lose(session, left->slot, left->count);
    remove_left(session, left);
}

bool slots_awaited(const struct tca *session)
{
    const struct slots_left *left = session->slots_left;
    while (left && !left->told)
        left = left->next;
    return left;
}

uint64_t slots_number(struct tca *session)
{
    return session->slots_number++;
}

void slots_end(struct tca *session)
{
    while (session->slots_left)
        remove_left(session, session->slots_left);
}

static bool all_arrived(const struct tca *session, const struct slots_left *left)
{
    for (uint32_t rank = 0; rank < session->sources; rank++)
        if (slots_arrived(session, rank, left->slot, left->count) != left->wanted[rank])
            return false;
    return true;
}

/* Nobody waits for them: whoever takes the slots next finds none. */
static void take_all(struct tca *session, const struct slots_left *left)
{
    for (uint32_t rank = 0; rank < session->sources; rank++)
        for (uint32_t slot = left->slot; slot < left->slot + left->count; slot++)
            while (tca_notified_count(session, rank, slot) > 0 &&
                   tca_notified(session, rank, slot) > 0)
                ;
}

/* True: some are free again. */
static bool reclaim(struct tca *session)
{
    bool some = false;
    for (struct slots_left *left = session->slots_left, *next; left; left = next) {
        next = left->next;
        if (!left->told || !all_arrived(session, left))
            continue;
        take_all(session, left);
        slots_return(session, left->slot, left->count);
        remove_left(session, left);
        some = true;
    }
    return some;
}
