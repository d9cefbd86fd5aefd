#include "daemon/base/addresses.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "proto/thread.h"

enum {
    THREADS_MAX = 16,
    DOUBTFUL_MAX = 8, /* of them, for names that were not found the last time */
};

/* ---- addresses ---- */

/* 0 or an error of getaddrinfo(). */
static int look_up(const char *host, uint16_t port, int flags, struct addresses **ret_addresses)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *found;
    char number[8];
    snprintf(number, sizeof number, "%u", port);
    int r = getaddrinfo(host, number, &hints, &found);
    if (r != 0)
        return r;
    struct addresses *addresses =
        calloc(1, sizeof *addresses + ADDRESSES_MAX * sizeof addresses->list[0]);
    if (!addresses) {
        freeaddrinfo(found);
        return EAI_MEMORY;
    }
    for (const struct addrinfo *one = found; one && addresses->count < ADDRESSES_MAX;
         one = one->ai_next) {
        struct address *address = &addresses->list[addresses->count++];
        memcpy(&address->at, one->ai_addr, one->ai_addrlen);
        address->bytes = one->ai_addrlen;
    }
    freeaddrinfo(found);
    *ret_addresses = addresses;
    return 0;
}

int addresses_parse(const char *host, uint16_t port, struct addresses **ret_addresses)
{
    int r = look_up(host, port, AI_NUMERICHOST, ret_addresses);
    return r == 0 ? 0 : r == EAI_MEMORY ? -ENOMEM : -EINVAL;
}

int addresses_look_up(const char *host, uint16_t port, struct addresses **ret_addresses)
{
    return look_up(host, port, AI_ADDRCONFIG, ret_addresses);
}

bool address_is_loopback(const struct address *address)
{
    if (address->at.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&address->at)->sin_addr.s_addr) >> 24 == 127;
    return address->at.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&address->at)->sin6_addr);
}

void address_text(const struct address *address, char *ret_text, size_t text_bytes)
{
    if (getnameinfo((const struct sockaddr *)&address->at, address->bytes, ret_text,
                    (socklen_t)text_bytes, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(ret_text, text_bytes, "?");
}

/* ---- look-ups ---- */

struct queue {
    struct lookup *first, **last;
};

/* Shared by the loop's thread and those that look names up; the last one frees it. */
struct lookups {
    pthread_mutex_t mutex;
    struct loop *loop;          /* NULL: it has ended */
    struct queue queues[2];     /* the second one: doubtful names */
    unsigned threads, doubtful; /* running, and how many of them with doubtful names */
};

struct lookup {
    struct lookup *next;
    struct lookups *lookups;
    char *host;
    uint16_t port;
    bool doubtful;
    int error;
    struct addresses *found;
    struct loop_post post;
    /* loop's thread only; NULL: cancelled */
    void (*done)(void *context, int error, struct addresses *addresses);
    void *context;
};

static void lookup_free(struct lookup *lookup)
{
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

/* NULL: there is none for another thread. Under the mutex. */
static struct lookup *take(struct lookups *lookups)
{
    const bool doubtful = !lookups->queues[0].first;
    struct queue *queue = &lookups->queues[doubtful];
    struct lookup *lookup = queue->first;
    if (!lookup || (doubtful && lookups->doubtful == DOUBTFUL_MAX))
        return NULL;
    queue->first = lookup->next;
    if (!queue->first)
        queue->last = &queue->first;
    lookups->doubtful += lookup->doubtful;
    return lookup;
}

static void destroy(struct lookups *lookups)
{
    pthread_mutex_destroy(&lookups->mutex);
    free(lookups);
}

static void *run(void *argument)
{
    struct lookups *lookups = argument;
    struct lookup *lookup;
    pthread_mutex_lock(&lookups->mutex);
    while ((lookup = take(lookups))) {
        const bool doubtful = lookup->doubtful;
        pthread_mutex_unlock(&lookups->mutex);
        lookup->error = addresses_look_up(lookup->host, lookup->port, &lookup->found);
        pthread_mutex_lock(&lookups->mutex);
        lookups->doubtful -= doubtful;
        if (lookups->loop)
            loop_post_own(lookups->loop, &lookup->post, finish, lookup);
        else
            lookup_free(lookup);
    }
    lookups->threads--;
    const bool last = !lookups->loop && lookups->threads == 0;
    pthread_mutex_unlock(&lookups->mutex);
    if (last)
        destroy(lookups);
    return NULL;
}

int lookups_new(struct loop *loop, struct lookups **ret_lookups)
{
    struct lookups *lookups = calloc(1, sizeof *lookups);
    if (!lookups)
        return -ENOMEM;
    pthread_mutex_init(&lookups->mutex, NULL);
    lookups->loop = loop;
    for (unsigned i = 0; i < 2; i++)
        lookups->queues[i].last = &lookups->queues[i].first;
    *ret_lookups = lookups;
    return 0;
}

struct lookups *lookups_free(struct lookups *lookups)
{
    if (!lookups)
        return NULL;
    pthread_mutex_lock(&lookups->mutex);
    struct loop *loop = lookups->loop;
    lookups->loop = NULL;
    for (unsigned i = 0; i < 2; i++) {
        struct queue *queue = &lookups->queues[i];
        while (queue->first) {
            struct lookup *lookup = queue->first;
            queue->first = lookup->next;
            lookup_free(lookup);
        }
        queue->last = &queue->first;
    }
    const bool last = lookups->threads == 0;
    pthread_mutex_unlock(&lookups->mutex);
    loop_finish_posts(loop); /* finish() of those that had an answer */
    if (last)
        destroy(lookups);
    return NULL;
}

static int begin_thread(struct lookups *lookups)
{
    pthread_t thread;
    lookups->threads++;
    int r = thread_begin(&thread, "tcad-names", run, lookups); /* which waits for the mutex */
    if (r == 0)
        pthread_detach(thread);
    else
        lookups->threads--;
    return r;
}

int lookup_new(struct lookups *lookups, const char *host, uint16_t port, bool doubtful,
               void (*done)(void *context, int error, struct addresses *addresses), void *context,
               struct lookup **ret_lookup)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup || !(lookup->host = strdup(host))) {
        free(lookup);
        return -ENOMEM;
    }
    lookup->lookups = lookups;
    lookup->port = port;
    lookup->doubtful = doubtful;
    lookup->done = done;
    lookup->context = context;
    int r = 0;
    pthread_mutex_lock(&lookups->mutex);
    if (lookups->threads < THREADS_MAX && (!doubtful || lookups->doubtful < DOUBTFUL_MAX))
        r = begin_thread(lookups);
    if (r == 0 || lookups->threads > 0) { /* else there is none to do it */
        struct queue *queue = &lookups->queues[doubtful];
        *queue->last = lookup;
        queue->last = &lookup->next;
        r = 0;
    }
    pthread_mutex_unlock(&lookups->mutex);
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
