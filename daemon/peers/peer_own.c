/* Looking up where this node listens, at the start and when a reload brings other nodes. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/addresses_own.h"
#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/peers/peer_internal.h"
#include "daemon/tcad.h"

/* Owns copies of all that it needs from the configuration. */
struct search {
    struct tcad *tcad;
    char *host;
    uint16_t port;
    char **others;
    size_t count;
    int error;
    struct addresses *found;
    char text[PEER_TEXT_MAX];
};

/* Any thread. */
static void search_free(void *context)
{
    struct search *search = context;
    for (size_t i = 0; i < search->count; i++)
        free(search->others[i]);
    free(search->others);
    free(search->host);
    free(search->found);
    free(search);
}

static bool add_other(struct search *search, const char *address)
{
    char *copy = strdup(address);
    if (copy)
        search->others[search->count++] = copy;
    return copy != NULL;
}

/* NULL: out of memory. */
static struct search *search_new(struct tcad *tcad)
{
    const struct cluster *cluster = tcad->cluster;
    struct search *search = calloc(1, sizeof(*search));
    if (!search)
        return NULL;
    search->tcad = tcad;
    search->port = tcad->conf->control.listen.port;
    search->host = strdup(tcad->conf->control.listen.host);
    search->others = calloc(cluster->count, sizeof(*search->others));
    bool good = search->host && search->others;
    for (size_t i = 0; i < cluster->count && good; i++)
        if (cluster->nodes[i].id != tcad->node)
            good = add_other(search, cluster->nodes[i].address);
    if (good)
        return search;
    search_free(search);
    return NULL;
}

static void work(void *context)
{
    struct search *search = context;
    search->error = addresses_own("control.listen", search->host, search->port,
                                  (const char *const *)search->others, search->count,
                                  &search->found, search->text, sizeof(search->text));
}

/* Two reloads can look it up at the same time. */
static void take(struct search *search)
{
    if (search->error < 0 || search->tcad->own)
        return;
    if (*search->text)
        log_warning(NULL, "%s", search->text);
    search->tcad->own = search->found;
    search->found = NULL;
}

static void done(void *context)
{
    struct search *search = context;
    struct tcad *tcad = search->tcad;
    take(search);
    if (search->error < 0)
        log_error(NULL, "other nodes cannot connect: %s", search->text);
    else if (tcad->peers)
        peers_open(tcad->peers);
    search_free(search);
}

static bool is_wanted(const struct tcad *tcad)
{
    return !tcad->own && tcad->cluster->count >= 2 && *tcad->conf->control.listen.host;
}

int peers_find_own(struct tcad *tcad, char *text, size_t text_bytes)
{
    if (!is_wanted(tcad))
        return 0;
    struct search *search = search_new(tcad);
    if (!search) {
        snprintf(text, text_bytes, "out of memory");
        return -ENOMEM;
    }
    work(search);
    take(search);
    const int r = search->error;
    if (r < 0)
        snprintf(text, text_bytes, "%s", search->text);
    search_free(search);
    return r;
}

void peers_find_own_later(struct tcad *tcad)
{
    if (!is_wanted(tcad))
        return;
    struct search *search = search_new(tcad);
    if (search && worker_submit(tcad->names, LOOKUP_LANE, work, done, search_free, search) == 0)
        return;
    if (search)
        search_free(search);
    log_error(NULL, "other nodes cannot connect: out of memory");
}
