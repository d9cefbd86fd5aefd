/* Whether a rail that was lost leads to a node again: comeback.h decides; this file asks the node
 * over it. */
#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/fabric.h"
#include "daemon/rails/link.h"
#include "daemon/tcad.h"
#include "proto/wait.h"

struct proof {
    struct engine_call call;
    struct loop_post post;
    struct driver_op op;
    struct link_wait wait;
    struct tcad *tcad;
    struct link *link;
    int status;
};

static void proved(void *context)
{
    struct proof *proof = context;
    comeback_answered(&proof->link->comeback, proof->status == 0);
    link_unref(proof->link);
    free(proof);
}

static void answered(struct driver_op *op, int status)
{
    struct proof *proof = op->owner;
    proof->status = status;
    loop_post_own(proof->tcad->loop, &proof->post, proved, proof);
}

static void ask_work(struct engine *engine, void *context)
{
    struct proof *proof = context;
    struct driver *driver = engine_driver(engine, proof->link->rail);
    proof->op = (struct driver_op){.done = answered, .owner = proof, .probe = true};
    int r = driver->ops->peer_flush(driver, proof->link->peer, &proof->op);
    if (r < 0)
        answered(&proof->op, r);
}

static void connected(void *context, int status, const char *text)
{
    struct proof *proof = context;
    if (status < 0) {
        proof->status = status;
        proved(proof);
        return;
    }
    engine_call(proof->link->engine, &proof->call, ask_work, NULL, proof);
}

static void prove(struct tcad *tcad, struct link *link)
{
    struct proof *proof = malloc(sizeof(*proof));
    if (!proof)
        return; /* the next look tries again */
    *proof =
        (struct proof){.tcad = tcad, .link = link, .wait = {.done = connected, .context = proof}};
    link->refs++;
    comeback_asked(&link->comeback);
    int r = link_connect(link, &proof->wait);
    if (r != -EINPROGRESS)
        connected(proof, r, "");
}

bool link_is_back(struct tcad *tcad, uint32_t node, unsigned rail)
{
    struct link *link = links_find(tcad->links, node, rail);
    if (!link || tcad->conf->rails.return_after_ns == 0)
        return false;
    const enum comeback_state state =
        comeback_look(&link->comeback, fabric_reaches(tcad, rail, node), clock_now_ns(),
                      tcad->conf->rails.return_after_ns);
    if (state == COMEBACK_PROVE)
        prove(tcad, link);
    return state == COMEBACK_BACK;
}
