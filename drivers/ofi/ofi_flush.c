/* Flushes: has everything that was put to a peer landed there? It has when all of it was counted. */
#include <errno.h>
#include <stdlib.h>

#include "drivers/ofi/ofi.h"

int ofi_peer_flush(struct driver *driver, struct driver_peer *driver_peer, struct driver_op *op)
{
    struct ofi_driver *ofi = ofi_of(driver);
    struct ofi_peer *peer = (struct ofi_peer *)driver_peer;
    if (peer->error < 0)
        return peer->error;
    struct ofi_flush *flush = malloc(sizeof(*flush));
    if (!flush)
        return -ENOMEM;
    *flush =
        (struct ofi_flush){.next = ofi->flushes, .peer = peer, .op = op, .count = peer->link.sent};
    ofi->flushes = flush;
    peer->link.ask = true;
    ofi_peer_activate(ofi, peer);
    return 0;
}

bool ofi_flushes_of(const struct ofi_driver *ofi, const struct ofi_peer *peer)
{
    const struct ofi_flush *flush = ofi->flushes;
    while (flush && flush->peer != peer)
        flush = flush->next;
    return flush;
}

/* Ending one may lead to anything, so that the list is looked at anew after each. */
static struct ofi_flush *take(struct ofi_driver *ofi)
{
    for (struct ofi_flush **at = &ofi->flushes; *at; at = &(*at)->next) {
        struct ofi_flush *flush = *at;
        if (flush->peer->error == 0 && flush->peer->link.counted < flush->count)
            continue;
        *at = flush->next;
        return flush;
    }
    return NULL;
}

int ofi_flushes_settle(struct ofi_driver *ofi)
{
    int ended = 0;
    struct ofi_flush *flush;
    while ((flush = take(ofi))) {
        struct driver_op *op = flush->op;
        int status = flush->peer->error;
        free(flush);
        op->done(op, status);
        ended++;
    }
    return ended;
}
