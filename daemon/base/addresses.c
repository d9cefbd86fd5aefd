#include "daemon/base/addresses.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"

enum { DOUBTFUL_LANES = ADDRESSES_THREADS / 2 };

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
    return doubtful ? ADDRESSES_LANE + 1 + turn++ % DOUBTFUL_LANES : (uintptr_t)lookup;
}

int lookup_new(struct worker *names, const char *host, uint16_t port, bool doubtful,
               void (*done)(void *context, int error, struct addresses *addresses), void *context,
               struct lookup **ret_lookup)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
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
