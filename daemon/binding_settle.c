/* When what has landed for a binding is where it belongs: the process whose memory it is may have
 * attached it, and has to copy that first (bounce.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/binding.h"
#include "daemon/peer.h"
#include "daemon/session.h"
#include "daemon/tcad.h"

struct settling {
    struct engine_landing landing;
    struct session *session; /* NULL: the memory is ours */
    void (*done)(void *context);
    void *context;
};

static void settled(void *context)
{
    struct settling *settling = context;
    settling->done(settling->context);
    if (settling->session)
        session_unnotified(settling->session);
    free(settling);
}

int binding_settle(struct binding *binding, void (*done)(void *context), void *context)
{
    struct settling *settling = calloc(1, sizeof *settling);
    if (!settling)
        return -ENOMEM;
    *settling = (struct settling){.session = binding->bounces, .done = done, .context = context};
    if (settling->session) {
        settling->session->notified_by++;
        settling->landing.session = settling->session->engine;
    }
    engine_settle(binding->tcad->engine, &settling->landing, settled, settling);
    return 0;
}

/* ---- of another daemon ---- */

struct question {
    struct tcad *tcad;
    uint32_t node, tag;
};

static void answer(void *context)
{
    struct question *question = context;
    Tca__Done done = TCA__DONE__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_DONE;
    message.done = &done;
    peers_answer(question->tcad->peers, question->node, question->tag, &message);
    free(question);
}

void bindings_settle(struct tcad *tcad, uint32_t node, uint32_t tag, const Tca__PeerSettle *settle)
{
    struct binding *binding = binding_find(tcad, settle->binding);
    struct question *question;
    if (!binding || binding->node != node) {
        peers_fail(tcad->peers, node, tag, -ESTALE,
                   "what was put to node %" PRIu32 " has gone there", tcad->node);
        return;
    }
    question = malloc(sizeof *question);
    if (question)
        *question = (struct question){tcad, node, tag};
    if (!question || binding_settle(binding, answer, question) < 0) {
        free(question);
        peers_fail(tcad->peers, node, tag, -ENOMEM, "no memory on node %" PRIu32, tcad->node);
    }
}
