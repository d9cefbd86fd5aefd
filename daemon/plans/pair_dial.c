/* Pairs of processes that send: their daemon dials. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/plans/pairs_internal.h"
#include "daemon/rails/link.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

#define DIAL_NS UINT64_C(2000000000)

struct dial {
    struct tcad *tcad;
    uint64_t id;
    struct driver *driver;
    uint8_t address[ADDRESS_MAX_BYTES], secret[PAIR_SECRET_BYTES];
    size_t address_bytes;
    bool encrypts;
    int fd; /* or why not */
};

static void dial_work(void *context)
{
    struct dial *dial = context;
    dial->fd = dial->driver->ops->pairs->dial(dial->driver, dial->address, dial->address_bytes,
                                              dial->id, dial->secret, DIAL_NS, &dial->encrypts);
}

static void dialled(void *context)
{
    struct dial *dial = context;
    struct pair *pair = pair_find(dial->tcad, dial->id);
    if (pair && pair->sends && dial->fd >= 0) {
        pair->encrypts = dial->encrypts;
        pair_event(pair, TCA__EVENT__KIND__PAIR, 0, dial->fd);
    } else if (pair && pair->sends) {
        log_warning(NULL,
                    "session %" PRIu64 ": no connection to session %" PRIu64 " of node %" PRIu32
                    ": %s",
                    pair->session, pair->other, pair->node, strerror(-dial->fd));
        pair_tell_other(pair, -ENETDOWN);
        pair_end(pair, -ENETDOWN);
    }
    if (dial->fd >= 0)
        close(dial->fd);
    free(dial);
}

static void not_dialled(void *context)
{
    free(context);
}

static int dial_later(struct pair *pair)
{
    const struct link *link = links_find(pair->tcad->links, pair->node, pair->rail);
    struct dial *dial = calloc(1, sizeof *dial);
    if (!dial || !link) {
        free(dial);
        return link ? -ENOMEM : -ENETDOWN;
    }
    *dial = (struct dial){.tcad = pair->tcad, .id = pair->id, .address_bytes = link->address_bytes};
    dial->driver = engine_driver(pair->tcad->engine, pair->rail);
    memcpy(dial->address, link->address, link->address_bytes);
    memcpy(dial->secret, pair->secret, sizeof dial->secret);
    int r = worker_submit(pair->tcad->worker, dial_work, dialled, not_dialled, dial);
    if (r < 0)
        free(dial);
    return r;
}

int pair_to(struct tcad *tcad, struct session *from, uint32_t node, unsigned rail,
            const Tca__BoundPut *bound, char *text, size_t text_bytes)
{
    struct pair *pair = pair_find(tcad, bound->pair);
    struct pair values = {.id = bound->pair,
                          .sends = true,
                          .node = node,
                          .session = from->id,
                          .other = bound->owner,
                          .rail = rail};
    if (pair && pair->sends && pair->node == node && pair->session == from->id)
        return 0;
    if (pair || bound->pair == 0 || bound->secret.len != PAIR_SECRET_BYTES) {
        snprintf(text, text_bytes, "node %" PRIu32 " has named a pair that cannot be", node);
        return -EPROTO;
    }
    memcpy(values.secret, bound->secret.data, PAIR_SECRET_BYTES);
    int r = pair_new(tcad, &values, &pair, text, text_bytes);
    if (r < 0)
        return r;
    r = dial_later(pair);
    if (r < 0) {
        snprintf(text, text_bytes, "no connection to node %" PRIu32 ": %s", node, strerror(-r));
        pair_tell_other(pair, r);
        pair_drop(pair);
    }
    return r;
}

void pair_lost(struct session *session, uint64_t id)
{
    struct pair *pair = pair_find(session->tcad, id);
    if (!pair || !pair->sends || pair->session != session->id)
        return;
    pair_tell_other(pair, -ENETDOWN);
    pair_drop(pair);
}
