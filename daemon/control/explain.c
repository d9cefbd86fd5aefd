/* Explains a plan. Its steps, up to 65,536, are described in slices. */
#include "daemon/control/explain.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "daemon/control/admin.h"
#include "daemon/control/inspect.h"
#include "daemon/plans/plan.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

enum { PACK_MAX = 256 }; /* longer plans are serialised by the worker */

struct explanation {
    struct tcad *tcad;
    struct admin_reply *reply;
    uint64_t session, serial;
    uint32_t plan;
    uint32_t chain, step; /* the next to be described */
    json_t *document;
    struct loop_job job;
};

static const struct plan *find(const struct explanation *explanation)
{
    const struct session *session = session_find_any(explanation->tcad, explanation->session);
    const struct plan *plan = session && session->plans ? session->plans[explanation->plan] : NULL;
    return plan && plan->serial == explanation->serial ? plan : NULL;
}

/* Returns false after the last step. */
static bool describe(struct explanation *explanation, const struct plan *plan)
{
    if (explanation->chain >= plan->chain_count)
        return false;
    json_t *chain =
        json_array_get(json_object_get(explanation->document, "chains"), explanation->chain);
    if (explanation->step < plan->chains[explanation->chain].step_count) {
        json_array_append_new(json_object_get(chain, "steps"),
                              inspect_plan_step(plan, explanation->chain, explanation->step));
        explanation->step++;
    } else {
        explanation->chain++;
        explanation->step = 0;
    }
    return true;
}

static bool describe_some(void *context)
{
    struct explanation *explanation = context;
    const struct plan *plan = find(explanation);
    while (plan && describe(explanation, plan))
        if (loop_slice_over(explanation->tcad->loop))
            return true;
    if (!plan) {
        json_decref(explanation->document);
        admin_reply_fail(explanation->reply, -ENOENT, "the plan was released in the meantime");
    } else if (plan->step_count > PACK_MAX) {
        admin_reply_packed(explanation->tcad, explanation->reply, explanation->document);
    } else {
        admin_reply_document(explanation->reply, explanation->document, false);
    }
    free(explanation);
    return false;
}

void explain_reply(struct tcad *tcad, struct admin_reply *reply, const struct plan *plan)
{
    struct explanation *explanation = malloc(sizeof(*explanation));
    json_t *document = explanation ? inspect_plan(plan) : NULL;
    if (!document) {
        free(explanation);
        admin_reply_fail(reply, -ENOMEM, "out of memory for the reply");
        return;
    }
    *explanation = (struct explanation){.tcad = tcad,
                                        .reply = reply,
                                        .session = plan->session_id,
                                        .serial = plan->serial,
                                        .plan = plan->id,
                                        .document = document};
    loop_job_begin(tcad->loop, &explanation->job, describe_some, explanation);
}
