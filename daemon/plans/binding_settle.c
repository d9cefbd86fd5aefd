/* When what has landed for a binding is where it belongs: the process whose memory it is may have
 * attached it, and has to copy that first (bounce.h). */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/peers/peer.h"
#include "daemon/plans/binding.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

struct settling {
    struct engine_landing landing;
    struct session *session; /* NULL: the memory is ours */
    void (*done)(void *context, int status);
    void *context;
};

static int status_of(const struct engine_landing *landing)
{
    return landing->dropped ? -EOWNERDEAD : 0;
}

static void settled(void *context)
{
    struct settling *settling = context;
    settling->done(settling->context, status_of(&settling->landing));
    if (settling->session)
        session_unnotified(settling->session);
    free(settling);
}

int binding_settle(struct binding *binding, void (*done)(void *context, int status), void *context)
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

struct binding_question {
    struct binding_question *next;
    struct tcad *tcad;
    uint32_t node, tag;
};

static void answer(void *context, int status)
{
    struct binding_question *question = context;
    struct peers *peers = question->tcad->peers;
    Tca__Done done = TCA__DONE__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_DONE;
    message.done = &done;
    if (status < 0)
        peers_fail(peers, question->node, question->tag, status,
                   "the process that owns the memory has ended before it took what was put there");
    else
        peers_answer(peers, question->node, question->tag, &message);
    free(question);
}

void binding_answer_questions(struct binding *binding)
{
    while (binding->questions) {
        struct binding_question *question = binding->questions;
        binding->questions = question->next;
        answer(question, status_of(&binding->target));
    }
}

/* 0: answer() follows, or was called. */
static int ask(struct binding *binding, struct binding_question *question)
{
    if (!binding->ended)
        return binding_settle(binding, answer, question);
    question->next = binding->questions;
    binding->questions = question;
    if (binding->released)
        binding_answer_questions(binding);
    return 0;
}

void bindings_settle(struct tcad *tcad, uint32_t node, uint32_t tag, const Tca__PeerSettle *settle)
{
    struct binding *binding = binding_find(tcad, settle->binding);
    struct binding_question *question;
    if (!binding || binding->node != node) {
        peers_fail(tcad->peers, node, tag, -ESTALE,
                   "what was put to node %" PRIu32 " has gone there", tcad->node);
        return;
    }
    question = malloc(sizeof *question);
    if (question)
        *question = (struct binding_question){.tcad = tcad, .node = node, .tag = tag};
    if (!question || ask(binding, question) < 0) {
        free(question);
        peers_fail(tcad->peers, node, tag, -ENOMEM, "no memory on node %" PRIu32, tcad->node);
    }
}
