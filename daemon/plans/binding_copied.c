/* Waiting until all data that has arrived for a binding is at its final address: if a process has attached the memory, it
 * copies the data there first (bounce.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/peers/peer.h"
#include "daemon/plans/binding.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

struct copy_wait {
    struct engine_landing landing;
    struct session *session; /* of the process; NULL: allocated by tcad */
    void (*done)(void *context, int status);
    void *context;
};

static int status_of(const struct engine_landing *landing)
{
    return landing->dropped ? -EOWNERDEAD : 0;
}

static void copied(void *context)
{
    struct copy_wait *wait = context;
    wait->done(wait->context, status_of(&wait->landing));
    if (wait->session)
        session_unnotified(wait->session);
    free(wait);
}

int binding_await_copied(struct binding *binding, void (*done)(void *context, int status),
                         void *context)
{
    struct copy_wait *wait = calloc(1, sizeof *wait);
    if (!wait)
        return -ENOMEM;
    *wait = (struct copy_wait){.session = binding->bounces, .done = done, .context = context};
    if (wait->session) {
        wait->session->notified_by++;
        wait->landing.session = wait->session->engine;
    }
    engine_await_copied(binding->tcad->engine, &wait->landing, copied, wait);
    return 0;
}

/* ---- requests of other daemons ---- */

struct binding_request {
    struct binding_request *next;
    struct tcad *tcad;
    uint32_t node, tag;
};

static void reply(void *context, int status)
{
    struct binding_request *request = context;
    struct peers *peers = request->tcad->peers;
    if (status < 0)
        peers_fail(peers, request->node, request->tag, status,
                   "the process that owns the memory has ended before it took what was put there");
    else
        peers_done(peers, request->node, request->tag);
    free(request);
}

void binding_answer_requests(struct binding *binding)
{
    while (binding->requests) {
        struct binding_request *request = binding->requests;
        binding->requests = request->next;
        reply(request, status_of(&binding->target));
    }
}

/* 0: reply() is called, now or later. */
static int await(struct binding *binding, struct binding_request *request)
{
    if (!binding->ended)
        return binding_await_copied(binding, reply, request);
    request->next = binding->requests;
    binding->requests = request;
    if (binding->released)
        binding_answer_requests(binding);
    return 0;
}

void bindings_await_copied(struct tcad *tcad, uint32_t node, uint32_t tag,
                           const Tca__PeerAwaitCopied *wanted)
{
    struct binding *binding = binding_find(tcad, wanted->binding);
    struct binding_request *request;
    if (!binding || binding->node != node) {
        peers_fail(tcad->peers, node, tag, -ESTALE,
                   "the binding at node %" PRIu32 " no longer exists", tcad->node);
        return;
    }
    request = malloc(sizeof *request);
    if (request)
        *request = (struct binding_request){.tcad = tcad, .node = node, .tag = tag};
    if (!request || await(binding, request) < 0) {
        free(request);
        peers_fail(tcad->peers, node, tag, -ENOMEM, "no memory on node %" PRIu32, tcad->node);
    }
}
