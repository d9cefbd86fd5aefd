#include "client/coll/siblings.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/coll/kept.h"
#include "client/coll/thread.h"
#include "client/core/error.h"

static void free_unused(struct coll_siblings *siblings)
{
    if (siblings->users > 0 || siblings->kept)
        return;
    *session_keeper(siblings->session) = NULL;
    free(siblings);
}

static void drop(struct session_keeper *keeper, struct tca_group *group)
{
    struct coll_siblings *siblings = (struct coll_siblings *)keeper;

    coll_kept_drop(siblings, group);
    free_unused(siblings);
}

static bool spare(struct session_keeper *keeper)
{
    return coll_kept_spare((struct coll_siblings *)keeper);
}

int coll_siblings_join(struct tca *session, struct coll_siblings **ret_siblings)
{
    struct session_keeper **keeper = session_keeper(session);
    struct coll_siblings *siblings = (struct coll_siblings *)*keeper;

    if (!siblings) {
        siblings = calloc(1, sizeof(*siblings));
        if (!siblings)
            return error_static(-ENOMEM, "out of memory");
        siblings->keeper.drop = drop;
        siblings->keeper.spare = spare;
        siblings->session = session;
        siblings->process = getpid();
        *keeper = &siblings->keeper;
    }
    siblings->users++;
    *ret_siblings = siblings;
    return 0;
}

void coll_siblings_leave(struct coll_siblings *siblings)
{
    if (!siblings || --siblings->users > 0)
        return;
    coll_thread_end(siblings->thread);
    siblings->thread = NULL;
    free_unused(siblings);
}
