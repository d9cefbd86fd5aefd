#include "daemon/base/lookup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"

enum { DOUBTFUL_LANES = LOOKUP_THREADS / 2 };

struct lookup {
    char *host;
    uint16_t port;
    int error;
    struct addresses *found;
    /* loop's thread only; NULL: cancelled */
    void (*done)(void *context, int error, struct addresses *addresses);
    void *context;
};

static void work(void *context)
{
    struct lookup *lookup = context;
    lookup->error = addresses_look_up(lookup->host, lookup->port, &lookup->found);
}

/* Any thread. */
static void lookup_free(void *context)
{
    struct lookup *lookup = context;
    free(lookup->found);
    free(lookup->host);
    free(lookup);
}

static void finish(void *context)
{
    struct lookup *lookup = context;
    if (lookup->done) {
        struct addresses *found = lookup->found;
        lookup->found = NULL;
        lookup->done(lookup->context, lookup->error, found);
    }
    lookup_free(lookup);
}

/* Doubtful names share a few lanes; every other one has its own. */
static uint64_t lane_of(const struct lookup *lookup, bool doubtful)
{
    static uint64_t turn;
    return doubtful ? LOOKUP_LANE + 1 + turn++ % DOUBTFUL_LANES : (uintptr_t)lookup;
}

int lookup_new(struct worker *names, const char *host, uint16_t port, bool doubtful,
               void (*done)(void *context, int error, struct addresses *addresses), void *context,
               struct lookup **ret_lookup)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (!lookup || !(lookup->host = strdup(host))) {
        free(lookup);
        return -ENOMEM;
    }
    lookup->port = port;
    lookup->done = done;
    lookup->context = context;
    int r = worker_submit(names, lane_of(lookup, doubtful), work, finish, lookup_free, lookup);
    if (r < 0) {
        lookup_free(lookup);
        return r;
    }
    *ret_lookup = lookup;
    return 0;
}

struct lookup *lookup_cancel(struct lookup *lookup)
{
    if (lookup)
        lookup->done = NULL; /* finish() frees it */
    return NULL;
}
