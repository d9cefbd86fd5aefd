#include "client/halo/slots.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/include/tca-halo.h"

enum {
    SLOT_END = 64, /* tca_plan_notify() */
    PAIRS = (SLOT_END - TCA_HALO_SLOT_FIRST) / HALO_SLOTS,
};

/* A session that has exchanges. */
struct owner {
    struct owner *next;
    struct tca *session;
    uint32_t taken; /* bit: pair */
};
static_assert(PAIRS <= 32, "bits of `taken`");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list and its members */
static struct owner *owners;

/* The link to the session's entry, or to the end of the list. */
static struct owner **find(struct tca *session)
{
    struct owner **link = &owners;

    while (*link && (*link)->session != session)
        link = &(*link)->next;
    return link;
}

/* From the end, so that few exchanges keep away from the slots of most programs. */
static int take(struct owner *owner, uint32_t *ret_slot)
{
    for (uint32_t pair = PAIRS; pair-- > 0;) {
        if (owner->taken & 1u << pair)
            continue;
        owner->taken |= 1u << pair;
        *ret_slot = TCA_HALO_SLOT_FIRST + pair * HALO_SLOTS;
        return 0;
    }
    return error_set(-EBUSY, "a session has at most %d halo exchanges at a time: free one", PAIRS);
}

int halo_slots_take(struct tca *session, uint32_t *ret_slot)
{
    pthread_mutex_lock(&lock);
    struct owner **link = find(session);
    if (!*link && (*link = calloc(1, sizeof(**link))))
        (*link)->session = session;
    int r = *link ? take(*link, ret_slot) : error_static(-ENOMEM, "out of memory");
    pthread_mutex_unlock(&lock);
    return r;
}

void halo_slots_return(struct tca *session, uint32_t slot)
{
    pthread_mutex_lock(&lock);
    struct owner **link = find(session), *owner = *link;
    owner->taken &= ~(1u << (slot - TCA_HALO_SLOT_FIRST) / HALO_SLOTS);
    if (!owner->taken) {
        *link = owner->next;
        free(owner);
    }
    pthread_mutex_unlock(&lock);
}
