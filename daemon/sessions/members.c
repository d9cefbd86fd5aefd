#include "daemon/sessions/members.h"

#include <stdlib.h>

struct members *members_new(uint32_t size)
{
    struct members *members = calloc(1, members_bytes(size));
    if (members) {
        members->uses = 1;
        members->size = size;
    }
    return members;
}

struct members *members_use(struct members *members)
{
    members->uses++;
    return members;
}

struct members *members_unuse(struct members *members)
{
    if (members && --members->uses == 0)
        free(members);
    return NULL;
}
