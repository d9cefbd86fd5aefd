/* The operations of a session that are running and need this process: a wait for any operation
 * advances them all, because other ranks may be waiting for them first; or a thread does. */
#pragma once

#include "client/include/tca.h"

struct coll_thread;
struct tca_coll;

struct coll_siblings {
    struct coll_siblings *next; /* of another session */
    struct tca *session;
    uint32_t users;             /* operations of the session */
    uint32_t running;           /* of these */
    struct tca_coll *open;      /* running ones that need this process */
    struct coll_thread *thread; /* advances all running ones; NULL: none, the calls do */
};

/* -ENOMEM. Each join needs a leave; NULL leaves nothing. */
int coll_siblings_join(struct tca *session, struct coll_siblings **ret_siblings);
void coll_siblings_leave(struct coll_siblings *siblings);
