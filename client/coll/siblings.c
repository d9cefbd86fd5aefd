#include "client/coll/siblings.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "client/coll/thread.h"
#include "client/core/error.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of `users` */
static struct coll_siblings *all;

static struct coll_siblings *find(struct tca *session)
{
    struct coll_siblings *siblings = all;

    while (siblings && siblings->session != session)
        siblings = siblings->next;
    if (siblings || !(siblings = calloc(1, sizeof(*siblings))))
        return siblings;
    siblings->session = session;
    siblings->next = all;
    all = siblings;
    return siblings;
}

int coll_siblings_join(struct tca *session, struct coll_siblings **ret_siblings)
{
    pthread_mutex_lock(&lock);
    struct coll_siblings *siblings = find(session);
    if (siblings)
        siblings->users++;
    pthread_mutex_unlock(&lock);
    if (!siblings)
        return error_static(-ENOMEM, "out of memory");
    *ret_siblings = siblings;
    return 0;
}

void coll_siblings_leave(struct coll_siblings *siblings)
{
    struct coll_siblings **link = &all;

    if (!siblings)
        return;
    pthread_mutex_lock(&lock);
    if (--siblings->users == 0) {
        while (*link != siblings)
            link = &(*link)->next;
        *link = siblings->next;
        coll_thread_end(siblings->thread);
        free(siblings);
    }
    pthread_mutex_unlock(&lock);
}
