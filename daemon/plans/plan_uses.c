/*
 * The objects that plans need: the regions that they put into, the sessions that own these, that
 * are notified or waited for, and nodes. Each object has a list of its plans (uses.h), so that only
 * those are informed when it ends.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/bindings/binding.h"
#include "daemon/plans/plan_internal.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"

/* ---- from plans ---- */

static int add(struct plan *plan, enum subject_kind kind, uint32_t node, uint64_t id)
{
    struct uses *uses = &plan->tcad->plan_uses;
    const struct subject_key key = {kind, node, id};
    if (uses_last_is(uses, key, plan))
        return 0;
    struct plan_use *use = calloc(1, sizeof(*use));
    if (!use || use_add(uses, &use->use, key, plan) < 0) {
        free(use);
        return plan_fail(plan, -ENOMEM, "out of memory for a plan of %" PRIu32 " steps",
                         plan->step_count);
    }
    use->next = plan->uses;
    plan->uses = use;
    return 0;
}

static int add_session(struct plan *plan, uint32_t node, uint64_t session)
{
    int r = session ? add(plan, SUBJECT_SESSION, node, session) : 0;
    if (r == 0)
        r = add(plan, SUBJECT_NODE, node, 0);
    return r;
}

int plan_use_wait(struct plan *plan, const struct plan_step *step)
{
    if (step->counter)
        return 0; /* anybody may add to it, now or later */
    const struct group_member *from = &plan->session->members->list[step->rank];
    return add_session(plan, from->node, from->session);
}

int plan_use_transfer(struct plan *plan, const struct plan_transfer *transfer)
{
    int r = add_session(plan, transfer->node, transfer->notify ? transfer->notify_session : 0);
    if (r == 0 && transfer->has_target)
        r = add(plan, SUBJECT_REGION, transfer->node, transfer->handle.region);
    return r;
}

int plan_use_owner(struct plan *plan, const struct plan_transfer *transfer)
{
    return transfer->owner ? add_session(plan, transfer->node, transfer->owner) : 0;
}

static int add_waits(struct plan *plan)
{
    int r = 0;
    for (uint32_t i = 0; i < plan->step_count && r == 0; i++)
        r = plan->steps[i].is_wait ? plan_use_wait(plan, &plan->steps[i]) : 0;
    return r;
}

void plans_members_known(struct session *session)
{
    for (struct plan *plan = session->plan_list; plan; plan = plan->next_of_session)
        if (add_waits(plan) < 0)
            plan_break(plan, -ENOMEM, plan->attempt.text);
}

void plan_use_less(struct plan *plan, uint32_t count)
{
    while (plan->uses && count-- > 0) {
        struct plan_use *use = plan->uses;
        plan->uses = use->next;
        use_drop(&plan->tcad->plan_uses, &use->use);
        free(use);
    }
}

/* ---- to plans ---- */

static bool transfer_needs(const struct plan_transfer *transfer, const struct subject_key *key)
{
    if (transfer->node != key->node)
        return false;
    switch (key->kind) {
    case SUBJECT_REGION:
        return transfer->has_target && transfer->handle.region == key->id;
    case SUBJECT_SESSION:
        return transfer->owner == key->id ||
               (transfer->notify && transfer->notify_session == key->id);
    default:
        return true;
    }
}

static bool wait_needs(const struct plan *plan, const struct plan_step *step,
                       const struct subject_key *key)
{
    if (step->counter)
        return false;
    const struct group_member *from = &plan->session->members->list[step->rank];
    return key->kind != SUBJECT_REGION && from->node == key->node &&
           (key->kind == SUBJECT_NODE || from->session == key->id);
}

/* Marks the steps, for a running start: it fails only if such a step is still ahead. */
static void mark(struct plan *plan, const struct subject_key *key)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (transfer_needs(&plan->transfers[i], key))
            atomic_store_explicit(&plan->transfers[i].gone, true, memory_order_relaxed);
    for (uint32_t i = 0; i < plan->step_count; i++)
        if (plan->steps[i].is_wait && wait_needs(plan, &plan->steps[i], key))
            atomic_store_explicit(&plan->steps[i].gone, true, memory_order_relaxed);
}

static void lose(struct plan *plan, const struct use_event *event, int error, const char *text)
{
    if (plan->state == PLAN_READY || plan->state == PLAN_BREAKING)
        mark(plan, &event->key);
    plan_break(plan, error, text);
}

/* "rank 2, ", or nothing if it is of another group. */
static void name_rank(const struct plan *plan, const struct subject_key *session, char *text,
                      size_t text_bytes)
{
    const struct session *own = plan->session;
    text[0] = '\0';
    for (uint32_t rank = 0; own && rank < own->members->size && !text[0]; rank++)
        if (own->members->list[rank].session == session->id &&
            own->members->list[rank].node == session->node)
            snprintf(text, text_bytes, "rank %" PRIu32 ", ", rank);
}

static void describe_end(const struct plan *plan, const struct subject_key *session, int error,
                         char *text, size_t text_bytes)
{
    char rank[32];
    name_rank(plan, session, rank, sizeof(rank));
    if (error == -EHOSTDOWN)
        snprintf(text, text_bytes, "the daemon of node %" PRIu32 ", which it needs, has ended",
                 session->node);
    else
        snprintf(text, text_bytes,
                 "%ssession %" PRIu64 " of node %" PRIu32 ", which it needs, has ended", rank,
                 session->id, session->node);
}

static struct subject_key owner_of(const struct plan *plan, const struct subject_key *region)
{
    struct subject_key owner = {SUBJECT_SESSION, region->node, 0};
    for (uint32_t i = 0; i < plan->transfer_count && owner.id == 0; i++)
        if (transfer_needs(&plan->transfers[i], region))
            owner.id = plan->transfers[i].owner;
    return owner;
}

static bool lose_region(const struct use_event *event, void *plan)
{
    char text[128];
    const struct subject_key owner = owner_of(plan, &event->key);
    if (event->error == -ESTALE)
        snprintf(text, sizeof(text),
                 "region %" PRIu64 " of node %" PRIu32 ", which it puts into, was freed",
                 event->key.id, event->key.node);
    else /* freed at the end of its owner */
        describe_end(plan, &owner, event->error, text, sizeof(text));
    lose(plan, event, event->error, text);
    return false;
}

static bool lose_session(const struct use_event *event, void *plan)
{
    char text[128];
    describe_end(plan, &event->key, event->error, text, sizeof(text));
    lose(plan, event, event->error, text);
    return false;
}

static bool lose_node(const struct use_event *event, void *plan)
{
    char text[128];
    snprintf(text, sizeof(text), "node %" PRIu32 ", which it needs, is down", event->key.node);
    lose(plan, event, -EHOSTDOWN, text);
    return false;
}

/* The plan still needs the node. */
static bool lose_link(const struct use_event *event, void *user)
{
    struct plan *plan = user;
    const unsigned rail = event->rail;
    char text[128];
    bool used = false;
    for (uint32_t i = 0; i < plan->transfer_count; i++) {
        struct plan_transfer *transfer = &plan->transfers[i];
        if (transfer->node != event->key.node || !transfer->link || transfer->link->rail != rail ||
            transfer->link->state != LINK_FAILED) /* another engine's was lost */
            continue;
        plan_lose_rail(transfer, rail);
        used = true;
    }
    if (!used)
        return true;
    plan->lost_error = event->error;
    if (plan->state < PLAN_BREAKING) {
        plan_advance(plan); /* moves the plan, after a commit or move in progress */
        return true;
    }
    snprintf(text, sizeof(text), "rail %s to node %" PRIu32 " was lost",
             rail_name(plan->tcad, rail), event->key.node);
    plan_break(plan, event->error, text);
    return true;
}

static bool puts_over(const struct plan *plan, const struct link *link)
{
    for (uint32_t i = 0; i < plan->transfer_count; i++)
        if (plan->transfers[i].node == link->node && plan->transfers[i].link &&
            plan->transfers[i].link->rail == link->rail)
            return true;
    return false;
}

static void lose_puts(struct session *session, uint32_t channel, const struct link *link,
                      const char *text)
{
    for (struct plan *plan = session->plan_list; plan; plan = plan->next_of_session) {
        if ((channel != CHANNELS && plan->channel != channel) || plan->state < PLAN_READY ||
            plan->error < 0 || !puts_over(plan, link))
            continue;
        plan->lossy = true;
        plan_break(plan, -ENETDOWN, text);
    }
}

void plans_puts_lost(struct tcad *tcad, const struct link *link, uint64_t flow, uint32_t count)
{
    const uint64_t id = flow / CHANNELS;
    const uint32_t channel = (uint32_t)(flow % CHANNELS);
    struct session *session = flow == FLOW_ANY ? tcad->sessions : session_find(tcad, id);
    char text[160];
    if (flow == FLOW_ANY) {
        snprintf(text, sizeof(text),
                 "rail %s to node %" PRIu32
                 " was lost, and tcad is out of memory: complete puts may not have arrived",
                 rail_name(tcad, link->rail), link->node);
        log_warning(NULL, "%s", text);
        for (; session; session = session->next)
            lose_puts(session, CHANNELS, link, text);
        return;
    }
    snprintf(text, sizeof(text),
             "rail %s to node %" PRIu32 " was lost with %" PRIu32 " puts of channel %" PRIu32
             " that were complete and may not have arrived",
             rail_name(tcad, link->rail), link->node, count, channel);
    log_warning(NULL, "session %" PRIu64 ": %s", id, text);
    if (session)
        lose_puts(session, channel, link, text);
}

void plans_region_gone(struct region *region, int error)
{
    plans_remote_region_gone(region->tcad, region->tcad->node, region->id, error);
    bindings_region_gone(region->tcad, region, error);
}

void plans_remote_region_gone(struct tcad *tcad, uint32_t node, uint64_t region, int error)
{
    uses_notify(&tcad->plan_uses, &(struct use_event){.key = {SUBJECT_REGION, node, region},
                                                      .error = error,
                                                      .notify = lose_region});
}

void plans_session_gone(struct tcad *tcad, uint32_t node, uint64_t session, int error)
{
    uses_notify(&tcad->plan_uses, &(struct use_event){.key = {SUBJECT_SESSION, node, session},
                                                      .error = error,
                                                      .notify = lose_session});
}

void plans_node_gone(struct tcad *tcad, uint32_t node)
{
    uses_notify(&tcad->plan_uses,
                &(struct use_event){.key = {SUBJECT_NODE, node, 0}, .notify = lose_node});
}

void plans_link_gone(struct tcad *tcad, uint32_t node, unsigned rail, int error)
{
    uses_notify(&tcad->plan_uses, &(struct use_event){.key = {SUBJECT_NODE, node, 0},
                                                      .error = error,
                                                      .rail = rail,
                                                      .notify = lose_link});
}
