/* Addresses of peers. Numeric ones are parsed at once; names are looked up by the worker thread,
 * because that can take seconds. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

struct resolve {
    struct peer *peer; /* NULL: no longer needed */
    char *host;
    char port[8];
    int error; /* of getaddrinfo() */
    struct addrinfo *found;
};

static int look_up(const char *host, const char *port, int flags, struct addrinfo **ret_found)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    return getaddrinfo(host, port, &hints, ret_found);
}

static void resolve_free(struct resolve *resolve)
{
    if (resolve->found)
        freeaddrinfo(resolve->found);
    free(resolve->host);
    free(resolve);
}

static void work(void *context)
{
    struct resolve *resolve = context;
    resolve->error = look_up(resolve->host, resolve->port, AI_ADDRCONFIG, &resolve->found);
}

static void done(void *context)
{
    struct resolve *resolve = context;

    if (resolve->peer && resolve->error == 0)
        peer_resolved(resolve->peer, 0, resolve->found->ai_addr, resolve->found->ai_addrlen, NULL);
    else if (resolve->peer)
        peer_resolved(resolve->peer, -EHOSTUNREACH, NULL, 0, gai_strerror(resolve->error));
    resolve_free(resolve);
}

static void dropped(void *context)
{
    struct resolve *resolve = context;
    if (resolve->peer)
        resolve->peer->resolve = NULL;
    resolve_free(resolve);
}

int resolve_start(struct peer *peer, struct sockaddr_storage *ret_address, socklen_t *ret_bytes)
{
    struct addrinfo *found;
    char port[8];

    snprintf(port, sizeof port, "%u", peer->port);
    if (look_up(peer->address, port, AI_NUMERICHOST, &found) == 0) {
        memcpy(ret_address, found->ai_addr, found->ai_addrlen);
        *ret_bytes = found->ai_addrlen;
        freeaddrinfo(found);
        return 1;
    }

    struct resolve *resolve = calloc(1, sizeof *resolve);
    if (!resolve)
        return -ENOMEM;
    resolve->peer = peer;
    memcpy(resolve->port, port, sizeof port);
    resolve->host = strdup(peer->address);
    int r = resolve->host ? worker_submit(peer->peers->tcad->worker, work, done, dropped, resolve)
                          : -ENOMEM;
    if (r < 0) {
        resolve_free(resolve);
        return r;
    }
    peer->resolve = resolve;
    return 0;
}

struct resolve *resolve_cancel(struct resolve *resolve)
{
    if (resolve)
        resolve->peer = NULL; /* done() frees it */
    return NULL;
}
