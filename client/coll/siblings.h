/* The operations of a session that are running and need this process: a wait for any operation
 * advances them all, because other ranks may be waiting for them first; or a thread does. */
#pragma once

#include <sys/types.h>

#include "client/core/wait.h"
#include "client/include/tca.h"

struct coll_kept;
struct coll_thread;
struct tca_coll;

struct coll_siblings {
    struct session_keeper keeper; /* the session's; remains as long as there is something in use */
    struct tca *session;
    pid_t process;                   /* not in one that it was forked from this one */
    uint32_t users;                  /* operations of the session that are not kept */
    uint32_t running;                /* of these */
    struct tca_coll *open;           /* running ones that need this process */
    struct coll_thread *thread;      /* advances all running ones; NULL: none, the calls do */
    struct coll_kept *kept;          /* by group */
    uint32_t kept_count, same_count; /* in these */
};

/* -ENOMEM. Each join needs a leave; NULL leaves nothing. */
int coll_siblings_join(struct tca *session, struct coll_siblings **ret_siblings);
void coll_siblings_leave(struct coll_siblings *siblings);
