/* From the program of a rank to plans. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/coll/coll.h"
#include "client/core/error.h"
#include "client/core/seats.h"
#include "client/core/wait.h"

enum { COMMITS_MAX = 16 };

struct builder {
    struct tca_coll *coll;
    const struct gathered *met;
    const struct tca_plan_args *args;
    uint32_t set, sequence;
    struct tca_plan *plan;                 /* to which steps are added; NULL: none yet */
    struct tca_plan *commits[COMMITS_MAX]; /* whose replies tcad owes */
    unsigned commit_count;
};

static int add_item(struct builder *b, struct coll_item item)
{
    struct coll_sequence *sequence = &b->coll->sets[b->set].sequences[b->sequence];

    if (sequence->count == sequence->room) {
        uint32_t room = sequence->room ? 2 * sequence->room : 4;
        struct coll_item *items = realloc(sequence->items, room * sizeof(*items));
        if (!items)
            return error_static(-ENOMEM, "out of memory");
        sequence->items = items;
        sequence->room = room;
    }
    sequence->items[sequence->count++] = item;
    return 0;
}

int coll_plan_new(const struct tca_coll *coll, const struct tca_plan_args *args,
                  struct tca_plan **ret_plan)
{
    struct tca_plan_args named = *args;
    char name[64];

    snprintf(name, sizeof(name), "%s, %s", coll_operation_name(coll->shape.operation),
             tca_coll_algorithm_name(coll->algorithm));
    if (!named.name)
        named.name = name;
    int r = tca_plan_new(coll->session, &named, ret_plan);
    if (r >= 0)
        plan_describe_collective(*ret_plan, &coll->shown);
    return r;
}

static int begin_plan(struct builder *b)
{
    struct tca_plan *plan;
    int r = coll_plan_new(b->coll, b->args, &plan);

    if (r < 0)
        return r;
    r = add_item(b, (struct coll_item){.plan = plan});
    if (r < 0)
        tca_plan_free(plan);
    else
        b->plan = plan;
    return r;
}

/* error: what has failed meanwhile; it is the result then, with its text. */
static int end_commits(struct builder *b, int error)
{
    char text[1024];

    if (error < 0)
        snprintf(text, sizeof(text), "%s", tca_error_text());
    for (unsigned i = 0; i < b->commit_count; i++) {
        const int r = plan_commit_end(b->commits[i]);
        if (r < 0 && error >= 0) {
            error = r;
            snprintf(text, sizeof(text), "%s", tca_error_text());
        }
    }
    b->commit_count = 0;
    return error < 0 ? error_set(error, "%s", text) : 0;
}

static int end_plan(struct builder *b)
{
    struct tca_plan *plan = b->plan;
    int r = 0;

    if (!plan)
        return 0;
    b->plan = NULL;
    if (b->commit_count == COMMITS_MAX)
        r = end_commits(b, 0);
    if (r >= 0)
        r = plan_commit_begin(plan);
    if (r >= 0)
        b->commits[b->commit_count++] = plan;
    return r;
}

static uint64_t turned(const struct builder *b, struct coll_place place, uint64_t scratch_bytes)
{
    return place.offset + (place.buffer == COLL_SCRATCH ? b->set * scratch_bytes : 0);
}

static const uint8_t *source(const struct builder *b, struct coll_place place)
{
    const struct tca_coll *coll = b->coll;
    const uint8_t *memory[] = {coll->in, coll->out, coll->scratch};

    return memory[place.buffer] + turned(b, place, coll->program.scratch_bytes);
}

static int add_part(struct builder *b, const struct coll_step *step)
{
    const struct tca_coll_edge *edge = &b->coll->edges[step->part - 1];
    struct tca_put put = {
        .source_address = edge->source,
        .source_layout = edge->source_layout,
        .target = coll_met_of(b->met, step->peer)->out,
        .target_offset_bytes = edge->target_offset_bytes,
        .target_layout = edge->target_layout,
        .bytes = edge->bytes,
    };

    return tca_plan_put(b->plan, &put);
}

static int add_put(struct builder *b, const struct coll_step *step)
{
    const struct coll_met *peer = coll_met_of(b->met, step->peer);
    struct tca_put put = {
        .source_address = source(b, step->from),
        .target = step->to.buffer == COLL_SCRATCH ? peer->scratch : peer->out,
        .target_offset_bytes = turned(b, step->to, peer->scratch_bytes),
        .bytes = step->bytes,
    };

    if (step->kind == COLL_COMBINE) {
        put.combine = b->coll->reduction.combine;
        put.type = b->coll->reduction.type;
    }
    return tca_plan_put(b->plan, &put);
}

static int add_step(struct builder *b, const struct coll_step *step)
{
    bool here = step->kind == COLL_COMBINE ? !b->coll->reduction.combine
                                           : step->kind == COLL_WAIT && b->coll->by_thread;
    int r = 0;

    if (here) {
        r = end_plan(b);
        return r < 0 ? r : add_item(b, (struct coll_item){.step = step});
    }
    if (!b->plan)
        r = begin_plan(b);
    if (r < 0)
        return r;
    switch (step->kind) {
    case COLL_PUT:
    case COLL_COMBINE: /* operators of tca.h commute: which operand is left does not matter */
        return step->part ? add_part(b, step) : add_put(b, step);
    case COLL_NOTIFY:
        return tca_plan_notify(b->plan, step->peer,
                               coll_met_of(b->met, step->peer)->slot + step->slot);
    default:
        return tca_plan_wait(b->plan, step->peer, b->coll->slot + step->slot, 1);
    }
}

/* Chains run side by side: in one plan (a program that combines has only one chain), or as
 * sequences of plans. */
static int build_set(struct builder *b)
{
    const struct coll_program *program = &b->coll->program;
    int r = 0;

    b->coll->sets[b->set].count = b->coll->by_thread ? program->chain_count : 1;
    for (uint32_t c = 0; r >= 0 && c < program->chain_count; c++) {
        const struct coll_chain *chain = &program->chains[c];
        if (b->coll->by_thread && c > 0) {
            r = end_plan(b);
            b->sequence = c;
        } else if (b->plan) {
            r = tca_plan_chain(b->plan);
        }
        for (uint32_t i = 0; r >= 0 && i < chain->count; i++)
            if (!chain->steps[i].seldom || b->set % COLL_LEAD == 0)
                r = add_step(b, &chain->steps[i]);
    }
    return r < 0 ? r : end_plan(b);
}

int coll_grant_credits(struct tca_coll *coll)
{
    const struct coll_program *program = &coll->program;
    struct session_slot slot;
    int r = 0;

    for (uint32_t c = 0; c < program->chain_count; c++)
        for (uint32_t i = 0; r >= 0 && i < program->chains[c].count; i++) {
            const struct coll_step *step = &program->chains[c].steps[i];
            if (step->kind != COLL_WAIT || !step->seldom)
                continue;
            r = session_slot_find(coll->session, group_to_session(coll->group, step->peer),
                                  coll->slot + step->slot, &slot);
            if (r >= 0)
                r = session_grant(&slot);
        }
    return r;
}

static bool is_quick(const struct tca_coll *coll)
{
    for (uint32_t set = 0; set < coll->program.sets; set++) {
        const struct coll_sequence *only = &coll->sets[set].sequences[0];
        if (coll->sets[set].count != 1 || only->count != 1 || !only->items[0].plan)
            return false;
    }
    return true;
}

static int build_ways(struct tca_coll *coll, const struct gathered *met,
                      const struct tca_plan_args *args)
{
    struct builder b = {.coll = coll, .met = met, .args = args};
    int r = 0;

    for (; r >= 0 && b.set < coll->program.sets; b.set++) {
        b.sequence = 0;
        r = build_set(&b);
    }
    r = end_commits(&b, r);
    coll->quick = r >= 0 && is_quick(coll);
    return r;
}

static bool leaves_node(const struct tca_coll *coll)
{
    const uint32_t *nodes = coll->shape.places.nodes;

    for (uint32_t c = 0; c < coll->program.chain_count; c++)
        for (uint32_t i = 0; i < coll->program.chains[c].count; i++)
            if (nodes[coll->program.chains[c].steps[i].peer] != nodes[coll->program.rank])
                return true;
    return false;
}

/* The plans of an operation notify the same slots, so that those to one rank must arrive in the
 * order in which they were started: between nodes, they must be in one seat. Without a request,
 * this process would run those without waits. */
static struct tca_plan_args ordered(const struct tca_coll *coll, const struct tca_plan_args *args)
{
    struct tca_plan_args result = *args;

    if (session_seat(coll->session, args) == TCA_SEAT_ANY && leaves_node(coll))
        result.seat = TCA_SEAT_DAEMON;
    return result;
}

int coll_build(struct tca_coll *coll, const struct gathered *met, const struct tca_plan_args *args)
{
    const struct tca_plan_args in_order = ordered(coll, args);
    int r = coll_leaf_make(coll, met, &in_order);

    coll->quick = coll->leaf.credit;
    return r >= 0 && !coll->leaf.credit ? build_ways(coll, met, &in_order) : r;
}
