/* Connecting a link: making the driver's peer and completing it, on the worker. */
#include <errno.h>
#include <string.h>

#include "daemon/base/worker.h"
#include "daemon/rails/link_internal.h"
#include "daemon/tcad.h"

void link_wake(struct link *link, int status, const char *text)
{
    while (link->waits) {
        struct link_wait *wait = link->waits;
        link->waits = wait->next;
        wait->done(wait->context, status, text);
    }
}

static struct driver *driver_of(const struct link *link)
{
    return engine_driver(link->engine, link->rail);
}

/* A job is over: the worker has done it, or has dropped it because tcad ends. */
static void job_over(struct link *link, int status)
{
    if (status < 0 && link->state != LINK_FAILED)
        link_fail(link, status, strerror(-status));
    link_unref(link);
}

static void dropped(void *context)
{
    job_over(context, -ECANCELED);
}

static int submit(struct link *link, enum link_state state, void (*work)(void *context),
                  void (*done)(void *context))
{
    int r = worker_submit(link->links->tcad->worker, WORKER_LINKS, work, done, dropped, link);
    if (r < 0)
        return r;
    link->refs++;
    link_move(link, state);
    return 0;
}

static void connected(struct link *link)
{
    link_move(link, LINK_CONNECTED);
    link->was_connected = true;
    link_reply(link, 0, "");
    link_wake(link, 0, "");
}

/* ---- ANSWERING ---- */

static void answer_work(void *context)
{
    struct link *link = context;
    struct driver *driver = driver_of(link);
    link->status =
        driver->ops->peer_answer(driver, link->peer, link->other.data, link->other.bytes);
}

static void answer_done(void *context)
{
    struct link *link = context;
    if (link->state == LINK_ANSWERING && link->status == 0)
        connected(link);
    job_over(link, link->status);
}

void link_answer(struct link *link)
{
    int r = submit(link, LINK_ANSWERING, answer_work, answer_done);
    if (r < 0)
        link_fail(link, r, strerror(-r));
}

/* ---- CONNECTING ---- */

static void connect_work(void *context)
{
    struct link *link = context;
    struct engine *engine = link->engine;
    struct driver *driver = driver_of(link);
    link->status = engine_loss_reserve(engine);
    if (link->status < 0)
        return;
    link->status = driver->ops->peer_connect(driver, link->address, link->address_bytes,
                                             &link->made, link->own.data, &link->own.bytes);
    if (link->status < 0)
        engine_loss_return(engine);
}

static void offer_ready(struct link *link)
{
    link->own.generation = ++link->links->last_generation;
    if (link->node == link->links->tcad->node)
        link->other = link->own;
    if (link->other.bytes > 0)
        link_answer(link);
    else
        link_ask(link);
}

static void connect_done(void *context)
{
    struct link *link = context;
    const int status = link->status; /* the next job may overwrite it */
    link->peer = link->made;
    if (link->state == LINK_CONNECTING && status == 0) {
        if (link->own.bytes > 0)
            offer_ready(link);
        else
            connected(link);
    }
    job_over(link, status);
}

int link_connect(struct link *link, struct link_wait *wait)
{
    if (link->was_connected)
        return 0;
    if (link->state == LINK_FAILED)
        return -ENETDOWN;
    if (link->state == LINK_IDLE) {
        link_admit(link, true);
        int r = submit(link, LINK_CONNECTING, connect_work, connect_done);
        if (r < 0)
            return r;
    }
    if (wait) {
        wait->next = link->waits;
        link->waits = wait;
    }
    return -EINPROGRESS;
}
