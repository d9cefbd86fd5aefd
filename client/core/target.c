#include "client/core/target.h"

#include <errno.h>
#include <stdlib.h>

#include "client/core/session.h"
#include "proto/list.h"

enum { CHAINS_LEAST = 64 };

/* tcad counts them, so the lowest bits spread them evenly. */
static struct target **chain_of(const struct targets *targets, uint32_t number)
{
    return &targets->chains[number & (targets->room - 1)];
}

static int grow(struct targets *targets)
{
    const uint32_t room = targets->room > 0 ? 2 * targets->room : CHAINS_LEAST;
    const struct targets larger = {calloc(room, sizeof(*larger.chains)), targets->count, room};
    if (!larger.chains)
        return -ENOMEM;
    for (uint32_t i = 0; i < targets->room; i++) {
        for (struct target *target = targets->chains[i], *next; target; target = next) {
            next = target->next;
            LIST_ADD(chain_of(&larger, target->number), target, next, link);
        }
    }
    free(targets->chains);
    *targets = larger;
    return 0;
}

int target_add(struct tca *session, struct target *target, struct target **of_region)
{
    struct targets *targets = &session->targets;
    int r = targets->count == targets->room ? grow(targets) : 0;
    if (r == 0 && target_find(session, target->number))
        r = -EEXIST;
    if (r < 0)
        return r;
    LIST_ADD(chain_of(targets, target->number), target, next, link);
    targets->count++;
    if (of_region)
        LIST_ADD(of_region, target, next_of_region, link_of_region);
    return 0;
}

void target_remove(struct tca *session, struct target *target)
{
    LIST_REMOVE(target, next, link);
    session->targets.count--;
    if (target->region)
        LIST_REMOVE(target, next_of_region, link_of_region);
}

struct target *target_find(const struct tca *session, uint32_t number)
{
    struct target *target = session->targets.room > 0 ? *chain_of(&session->targets, number) : NULL;
    while (target && target->number != number)
        target = target->next;
    return target;
}

void targets_end_in(struct tca *session, struct target *of_region, enum target_kind kind,
                    target_end *end)
{
    for (struct target *target = of_region, *next; target; target = next) {
        next = target->next_of_region;
        if (target->kind == kind)
            end(session, target, NULL);
    }
}

void targets_end(struct tca *session, enum target_kind kind, target_end *end, const void *context)
{
    for (uint32_t i = 0; i < session->targets.room; i++) {
        for (struct target *target = session->targets.chains[i], *next; target; target = next) {
            next = target->next;
            if (target->kind == kind)
                end(session, target, context);
        }
    }
}

void targets_deinit(struct targets *targets)
{
    free(targets->chains);
    *targets = (struct targets){0};
}
