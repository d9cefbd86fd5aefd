/* The operations of a session that are running and combine in this process: a wait for any operation
 * advances them all, because other ranks may be waiting for them first. */
#pragma once

#include "client/include/tca.h"

struct tca_coll;

struct coll_siblings {
    struct coll_siblings *next; /* of another session */
    struct tca *session;
    uint32_t users;        /* operations of the session */
    struct tca_coll *open; /* running ones that combine in this process; the session's thread */
};

/* -ENOMEM. Each join needs a leave; NULL leaves nothing. */
int coll_siblings_join(struct tca *session, struct coll_siblings **ret_siblings);
void coll_siblings_leave(struct coll_siblings *siblings);
