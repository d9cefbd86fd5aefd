/*
 * What is kept of a group's operations, so that the next ones are made without asking tcad:
 *
 *   - Operations that have been freed, and that move data through their own memory
 *     (client/coll/copies.h). One like it takes such an operation over, with other memory.
 *   - An operation of this module's own, by which the ranks learn in one exchange whether all of
 *     them say the same. It is made when all ranks say that it would have been of use. From then
 *     on, each making and freeing begins with it, so that ranks that keep different things, or make
 *     different calls, find out.
 *
 * If the exchange fails at a rank, it forgets all of this; the others learn of that when they meet
 * next, and forget it, too.
 *
 * Nobody notifies an operation that is kept, as all ranks have completed all starts of it: a rank
 * releases it alone when there are too many, when the group is released, or when tcad has refused
 * something because of a quota: what it holds counts against these.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct coll_siblings;
struct tca;
struct tca_coll;
struct tca_group;

enum {
    COLL_KEPT_MAX = 8,            /* of a group, */
    COLL_KEPT_SESSION_MAX = 64,   /* and of all groups of the session */
    COLL_KEPT_BYTES = 256 * 1024, /* of all blocks: longer ones are not kept */
    COLL_SAME_MAX = 256           /* groups that have the module's own operation */
};

/* What a rank says of that when the ranks meet. */
enum coll_same_state { COLL_SAME_NONE, COLL_SAME_WANTED, COLL_SAME_READY };

/* Of one group. */
struct coll_kept {
    struct coll_kept *next; /* of another group */
    struct coll_siblings *siblings;
    struct tca_group *group;
    struct tca_coll *list; /* by tca_coll.next_kept; the one that was freed last is the first */
    uint32_t count, made;  /* operations: in the list, that were made in all */
    struct tca_coll *same; /* the module's own; NULL: none */
    bool refused;          /* it could not be made: not tried again */
    uint64_t words[5];     /* its memory */
};

/* What a rank is about to do when it asks whether all ranks say the same. */
enum coll_call { COLL_MAKES = 1, COLL_IS_READY, COLL_FREES };

/* Of the operation's group. NULL: out of memory. */
struct coll_kept *coll_kept_of(struct tca_coll *coll);

/* An operation like this one, with the same arguments at this rank but for the memory. NULL:
 * none. */
struct tca_coll *coll_kept_find(const struct coll_kept *kept, const struct tca_coll *like);
/* Takes it out: it uses its group again. */
void coll_kept_take(struct coll_kept *kept, struct tca_coll *coll);
/* Puts it in, as all ranks know that they have completed equally many starts; what is too much is
 * released. False: nobody else uses the group. */
bool coll_kept_put(struct coll_kept *kept, struct tca_coll *coll);

/* Whether all ranks make this call with the same value, and all of them can: 1, 0, or the error
 * with which that is not found out. Collective. */
int coll_same(struct coll_kept *kept, enum coll_call call, uint64_t value, bool can);
/* kept: may be NULL. */
enum coll_same_state coll_same_state(const struct coll_kept *kept, const struct tca_coll *coll);
/* Makes what that needs; if it fails, it does so at all ranks, and there is
 * none. Collective. */
void coll_same_make(struct coll_kept *kept, struct tca *session);
/* Ranks have forgotten what they kept. */
void coll_kept_forget(struct coll_kept *kept);

/* Releases all operations that are kept, in all groups. Returns whether there were any. */
bool coll_kept_spare(struct coll_siblings *siblings);

/* A group is about to be released; NULL: the session is closed. */
void coll_kept_drop(struct coll_siblings *siblings, struct tca_group *group);
