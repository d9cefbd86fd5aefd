/* Groups of some ranks (tca-group.h), for the modules of this library. A group that is NULL
 * consists of all ranks of the session. */
#pragma once

#include "client/include/tca-group.h"

struct tca_group {
    struct tca *session;
    struct tca_group *next, *previous; /* in session->groups */
    unsigned uses;                     /* by the program, and by objects */
    uint64_t id;                       /* at tcad; 0: this rank is alone */
    uint64_t collectives;              /* completed calls */
    uint32_t size, rank;
    /* Ranks of the session: `first`, and then every `stride`-th, or a list. */
    uint32_t first, stride;
    uint32_t *ranks; /* NULL: there is no list */
};

/* What an object uses is not released before it has been freed. Return the group, and NULL. */
struct tca_group *group_use(struct tca_group *group);
struct tca_group *group_unuse(struct tca_group *group);

static inline uint32_t group_size(const struct tca *session, const struct tca_group *group)
{
    return group ? group->size : tca_size(session);
}

static inline uint32_t group_rank(const struct tca *session, const struct tca_group *group)
{
    return group ? group->rank : tca_rank(session);
}

/* The session's rank of a rank of the group, which exists. */
static inline uint32_t group_to_session(const struct tca_group *group, uint32_t rank)
{
    if (!group)
        return rank;
    return group->ranks ? group->ranks[rank] : group->first + rank * group->stride;
}

/* As tca_allgather(). */
int group_gather(struct tca *session, struct tca_group *group, const void *blob, size_t blob_bytes,
                 void *ret_all, int64_t timeout_ns);
/* When the session is closed. */
void groups_end(struct tca *session);
