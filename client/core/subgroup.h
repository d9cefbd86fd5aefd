/* Groups of some ranks (tca-group.h), for the modules of this library. A group that is NULL
 * consists of all ranks of the session. */
#pragma once

#include <stdbool.h>

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
/* Uses become none, as they are by what the session's keeper has (client/core/wait.h). False: there
 * are no others, and nothing has changed. */
bool group_keep(struct tca_group *group, unsigned uses);
/* And again uses. */
void group_unkeep(struct tca_group *group, unsigned uses);
/* How many collective calls of the group have been completed: the same at all ranks. */
uint64_t group_calls(const struct tca *session, const struct tca_group *group);

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

/* What all ranks have given, where it is: reading what one rank has given costs nothing for the
 * others. Zero: nothing. */
struct gathered {
    const uint8_t *all;
    size_t each_bytes;
    /* The lowest rank whose first same_bytes bytes are not those of rank 0; 0: there is none. */
    uint32_t other;
    struct gathered_memory *memory;
};

/* The same with up to 8 bytes' alignment of each blob, if blob_bytes is a multiple of 8, and
 * compares the first same_bytes bytes, once a node. blob_bytes: not 0. The blob must remain as it
 * is until gathered_deinit(). After a failure there is nothing to release. */
int group_share(struct tca *session, struct tca_group *group, const void *blob, size_t blob_bytes,
                size_t same_bytes, struct gathered *ret_gathered);
void gathered_deinit(struct gathered *gathered);

static inline const void *gathered_of(const struct gathered *gathered, uint32_t rank)
{
    return gathered->all + rank * gathered->each_bytes;
}
/* When the session is closed. */
void groups_end(struct tca *session);
