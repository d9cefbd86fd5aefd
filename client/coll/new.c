/* Making and releasing a collective operation. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/coll/coll.h"
#include "client/coll/thread.h"
#include "client/core/error.h"
#include "client/core/seats.h"
#include "client/core/slots.h"

/* ---- what this rank needs and contributes */

/* Where the ranks are, as far as this rank knows. */
static int take_places(struct tca_coll *coll)
{
    struct coll_places *places = &coll->shape.places;

    coll->nodes = calloc(places->size, sizeof(*coll->nodes));
    coll->clusters = calloc(places->size, sizeof(*coll->clusters));
    if (!coll->nodes || !coll->clusters)
        return error_static(-ENOMEM, "out of memory");
    for (uint32_t rank = 0; rank < places->size; rank++) {
        const uint32_t of_session = group_to_session(coll->group, rank);
        coll->nodes[rank] = (uint32_t)tca_node_of(coll->session, of_session);
        coll->clusters[rank] = (uint32_t)tca_subcluster_of(coll->session, of_session);
    }
    places->nodes = coll->nodes;
    return 0;
}

static int choose(struct tca_coll *coll)
{
    struct coll_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    struct coll_shape common = coll_common_shape(coll);
    struct collective *shown = &coll->shown;

    if (coll->shape.operation == COLL_NEIGHBOURS)
        return coll_schedule_neighbours(coll, coll->wanted);
    int r =
        coll_candidates(&common, coll->wanted, &coll->costs, candidates, &shown->candidate_count);
    if (r >= 0)
        r = coll_pick(&common, coll->wanted, candidates, shown->candidate_count, &coll->algorithm);
    if (r < 0)
        return r;
    coll->shape.segment_bytes = common.segment_bytes;
    for (uint32_t i = 0; i < shown->candidate_count; i++)
        shown->candidates[i] =
            (struct collective_candidate){tca_coll_algorithm_name(candidates[i].algorithm),
                                          candidates[i].ns, candidates[i].segment_bytes};
    return coll_schedule(&coll->shape, coll->algorithm, coll_rank(coll), &coll->program);
}

static int schedule(struct tca_coll *coll)
{
    int r = choose(coll);

    if (r >= 0)
        coll_show(coll);
    if (r == -EINVAL)
        return error_set(r, "the algorithm \"%s\" does not suit this operation: see tca-coll(3)",
                         tca_coll_algorithm_name(coll->wanted));
    return r < 0 ? error_static(r, "out of memory") : 0;
}

static void take_slots(struct tca_coll *coll)
{
    coll->slot_count = coll->program.chain_count * COLL_SLOTS + 1;
    coll->slot = slots_take(coll->session, coll->slot_count);
    coll->watch_slot = coll->slot + coll->slot_count - 1;
}

static int own_memory(struct tca_coll *coll, struct coll_met *met)
{
    if (coll->copies.used)
        return coll_copies_make(coll, met);
    uint64_t scratch_bytes = coll->program.scratch_bytes * coll->program.sets;
    struct tca_region *region;
    uint64_t offset;
    void *scratch;
    int r = 0;

    if (coll->out_bytes > 0)
        r = tca_handle_of(coll->session, coll->out, coll->out_bytes, &met->out);
    if (r < 0)
        return error_prefix(r, "out: ");
    if (coll->in_bytes > 0 && coll->in)
        r = tca_region_of(coll->session, coll->in, &region, &offset);
    if (r < 0)
        return error_prefix(r, "in: ");
    if (scratch_bytes == 0)
        return 0;
    r = tca_alloc(coll->session, scratch_bytes, &scratch);
    if (r < 0)
        return r;
    coll->scratch = scratch;
    return tca_handle_of(coll->session, scratch, scratch_bytes, &met->scratch);
}

#define DIGEST_BEGIN UINT64_C(0xcbf29ce484222325)

static uint64_t digest(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x100000001b3;
}

static uint64_t digest_spans(const struct tca_coll *coll)
{
    uint64_t hash = DIGEST_BEGIN;

    if (coll->shape.operation == COLL_ALLTOALL || !coll->spans || coll->shape.regular)
        return 0;
    for (uint32_t i = 0; i < coll->shape.places.size; i++)
        hash = digest(digest(hash, coll->spans[i].offset), coll->spans[i].bytes);
    return hash;
}

/* Sets whether there are several sub-clusters, too. */
static uint64_t digest_places(struct tca_coll *coll)
{
    struct coll_places *places = &coll->shape.places;
    uint64_t hash = DIGEST_BEGIN;
    bool several = false;

    for (uint32_t rank = 0; rank < places->size; rank++) {
        hash = digest(hash, coll->clusters[rank]);
        several |= coll->clusters[rank] != coll->clusters[0];
    }
    places->clusters = several ? coll->clusters : coll->nodes;
    return hash;
}

/* ---- rounds */

static uint64_t digest_text(uint64_t hash, const char *text)
{
    for (; text && *text; text++)
        hash = digest(hash, (uint8_t)*text);
    return digest(hash, text != NULL);
}

static uint64_t digest_own(const struct tca_coll *coll, const struct tca_coll_args *args)
{
    const struct tca_plan_args *plan = &args->plan;
    uint64_t hash = digest(DIGEST_BEGIN, plan->rail);

    hash = digest(digest(hash, session_seat(coll->session, plan)), plan->channel);
    hash = digest(digest(digest(hash, plan->flags), plan->together), coll->by_thread);
    return digest_text(digest_text(hash, plan->name), plan->rail_name);
}

/* Checks what concerns this rank alone. */
static int ask(struct tca_coll *coll, const struct tca_coll_args *args)
{
    int r = coll_copies_choose(coll, args);

    coll->wanted = args->algorithm;
    coll->wanted_segment_bytes = args->segment_bytes;
    coll->asked = (struct coll_asked){
        .operation = coll->shape.operation,
        .wanted = coll->wanted,
        .root = coll->shape.root,
        .regular = coll->is_same ? 2 : coll->shape.regular,
        .ordered = coll->shape.ordered,
        .combine = coll->reduction.combine,
        .type = coll->reduction.combine ? coll->reduction.type : 0,
        .copies = coll->copies.used,
        .bytes = coll->shape.bytes,
        .element_bytes = coll->shape.element_bytes,
        .wanted_segment_bytes = coll->wanted_segment_bytes,
        .digest = digest_spans(coll),
    };
    coll->by_thread = args->thread;
    coll->own_args = digest_own(coll, args);
    coll->any_in_place = coll->shape.in_place;
    coll->any_by_daemon = session_seat(coll->session, &args->plan) == TCA_SEAT_DAEMON;
    if (r >= 0 && coll->copies.used)
        r = coll_copies_bind(coll, coll->in, coll->out);
    if (r >= 0 && args->thread)
        r = coll_thread_begin(coll->siblings);
    return r;
}

/* What is kept of the group's operations; NULL: nothing. */
static struct coll_kept *kept_of(struct tca_coll *coll)
{
    const bool alone = coll->shape.places.size == 1 || coll->siblings->process != getpid();

    return coll->is_same || alone ? NULL : coll_kept_of(coll);
}

/* coll_same() that leaves the error of this rank as it is, if it has one. */
static int say(struct coll_kept *kept, enum coll_call call, uint64_t value, int error, bool can)
{
    char text[1024] = "";

    if (error < 0)
        snprintf(text, sizeof(text), "%s", tca_error_text());
    const int r = coll_same(kept, call, value, error >= 0 && can);
    return error < 0 ? error_set(r < 0 ? error : 0, "%s", text) : r;
}

/* What nodes have measured is what the group's coordinator told all of them when they joined. */
static int meet(struct tca_coll *coll, struct coll_met *met)
{
    met->asked = coll->asked;
    met->same = coll->same;
    met->cluster = (uint32_t)tca_subcluster_of(coll->session, tca_rank(coll->session));
    met->in_place = coll->any_in_place;
    met->by_daemon = coll->any_by_daemon;
    met->places = digest_places(coll);
    coll->shape.segment_bytes = coll->wanted_segment_bytes;
    tca_coll_costs(coll->session, coll->any_by_daemon ? TCA_SEAT_DAEMON : TCA_SEAT_ANY,
                   &coll->costs);
    met->out = met->scratch = (struct tca_handle){0};
    int r = schedule(coll);
    if (r >= 0) {
        take_slots(coll);
        r = own_memory(coll, met);
    }
    met->algorithm = coll->algorithm;
    met->segment_bytes = coll->shape.segment_bytes;
    met->slot = coll->slot;
    met->scratch_bytes = coll->program.scratch_bytes;
    return r;
}

/* The ranks have chosen from different things: from now on, from what all of them have told. Each
 * says where it is itself: nodes whose cluster files differ place others differently. */
static void take_common(struct tca_coll *coll, const struct gathered *heads)
{
    struct coll_kept *kept = kept_of(coll);
    enum coll_same_state least = COLL_SAME_READY;

    for (uint32_t rank = 0; rank < coll->shape.places.size; rank++) {
        const struct coll_met *met = coll_met_of(heads, rank);
        coll->any_in_place |= met->in_place != 0;
        coll->any_by_daemon |= met->by_daemon != 0;
        coll->clusters[rank] = met->cluster;
        least = met->same < least ? (enum coll_same_state)met->same : least;
    }
    if (kept && kept->same && least != COLL_SAME_READY)
        coll_kept_forget(kept);
    coll->same = least;
    slots_return(coll->session, coll->slot, coll->slot_count);
    coll->slot_count = 0;
    tca_free(coll->session, coll->scratch);
    coll->scratch = NULL;
    coll_program_deinit(&coll->program);
}

/* ---- together: the same result at all ranks */

/* What the program has asked for. */
static int check_asked(const struct gathered *heads, uint32_t size)
{
    for (uint32_t rank = heads->other; rank > 0 && rank < size; rank++) {
        const struct coll_asked *a = &coll_met_of(heads, 0)->asked,
                                *b = &coll_met_of(heads, rank)->asked;
        if (a->operation != b->operation)
            return error_set(-EPROTO,
                             "the ranks 0 and %u prepare different operations: all ranks make "
                             "these calls in the same order",
                             rank);
        if (memcmp(a, b, sizeof(*a)) != 0)
            return error_set(-EPROTO,
                             "the ranks 0 and %u disagree: lengths, root, operator and algorithm "
                             "of a collective operation must be the same at all ranks",
                             rank);
    }
    return 0;
}

/* Ends a round. If all ranks learn that one has failed, none will start the operation. */
static int end_round(struct tca_coll *coll, enum coll_round round, int error,
                     struct agree_head *head, size_t head_bytes, size_t same_bytes,
                     struct gathered *heads)
{
    bool known;

    gathered_deinit(heads);
    head->round = round;
    coll->shared = round == COLL_AGREE && error >= 0; /* from here on, others may start it */
    const int r = agree(coll->session, coll->group, "collective operation", error, head, head_bytes,
                        same_bytes, heads, &known);
    coll->shared &= !known;
    return r;
}

static int meet_all(struct tca_coll *coll, int error, enum coll_round round, struct coll_met *met,
                    struct gathered *heads)
{
    int r = error < 0 ? error : meet(coll, met);

    r = end_round(coll, round, r, &met->head, sizeof(*met), COLL_SAME_BYTES, heads);
    return r < 0 ? r : check_asked(heads, coll->shape.places.size);
}

/* The last round, with no more than one exchange where that is possible. */
static int agree_to_start(struct tca_coll *coll, int error)
{
    struct coll_kept *kept = kept_of(coll);
    struct gathered last = {0};
    struct agree_head agreed = {0};

    coll->shared = error >= 0;
    if (kept && kept->same) {
        const int r = say(kept, COLL_IS_READY, 0, error, true);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    const int r =
        end_round(coll, COLL_AGREE, error, &agreed, sizeof(agreed), sizeof(agreed), &last);
    gathered_deinit(&last);
    return r;
}

static int prepare(struct tca_coll *coll, const struct tca_coll_args *args, int error,
                   struct coll_met *met, struct gathered *heads)
{
    int r = error < 0 ? error : take_places(coll);

    coll->same = coll_same_state(kept_of(coll), coll);
    r = meet_all(coll, r, COLL_MEET, met, heads);
    if (r >= 0 && heads->other) {
        take_common(coll, heads);
        r = meet_all(coll, 0, COLL_MEET_AGAIN, met, heads);
        if (r >= 0 && heads->other)
            r = error_set(-EPROTO,
                          "the ranks 0 and %u choose different algorithms: do they use the same "
                          "version of the library?",
                          heads->other);
    }
    if (r < 0)
        return r;
    r = agree_to_start(coll, coll_build(coll, heads, &args->plan));
    return r < 0 ? r : coll_grant_credits(coll);
}

/* ---- from one that was freed */

static uint64_t name_of(const struct coll_asked *asked, uint64_t made)
{
    uint64_t values[sizeof(*asked) / sizeof(uint64_t)], hash = digest(DIGEST_BEGIN, made);

    memcpy(values, asked, sizeof(values));
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++)
        hash = digest(hash, values[i]);
    return hash;
}

/* Asks whether all ranks have kept the same operation that is like this one: 1, and *ret_old; 0:
 * they have not, or one has failed; or the error with which that is not found out. */
static int find_kept(struct coll_kept *kept, const struct tca_coll *coll, int error,
                     struct tca_coll **ret_old)
{
    struct tca_coll *old = error >= 0 && coll->copies.used ? coll_kept_find(kept, coll) : NULL;
    int r = say(kept, COLL_MAKES, name_of(&coll->asked, old ? old->made : 0), error, old);

    if (r > 0) {
        coll_kept_take(kept, old);
        *ret_old = old;
    }
    return r;
}

static void free_lists(struct tca_coll *coll)
{
    free(coll->nodes);
    free(coll->clusters);
    free(coll->spans);
    free(coll->targets);
    coll_free_edges(coll);
    free(coll);
}

/* `old` is in use again, and has the memory of this one, which is consumed. */
static int take_over(struct tca_coll *old, struct tca_coll *coll)
{
    group_unuse(coll->group);
    old->copies.give = coll->copies.give;
    old->copies.take = coll->copies.take;
    old->reduction = coll->reduction;
    old->taken_over++;
    free_lists(coll);
    return coll_grant_credits(old);
}

void coll_say_first(struct tca_coll *coll)
{
    struct coll_kept *kept = kept_of(coll);

    if (kept && kept->same)
        coll_same(kept, COLL_MAKES, coll->shape.operation, false);
    coll->has_said = true;
}

/* Without the other ranks, and keeping the text of the error. */
static int give_up(struct tca_coll *coll, int error)
{
    char text[1024];

    snprintf(text, sizeof(text), "%s", tca_error_text());
    coll->failed = error;
    tca_coll_free(coll);
    return error_set(error, "%s", text);
}

int coll_make(struct tca_coll *coll, int error, const struct tca_coll_args *args,
              struct tca_coll **ret_coll)
{
    static const struct tca_coll_args none = {0};
    struct coll_met met = {0};
    struct gathered heads = {0};
    struct coll_kept *kept = kept_of(coll);
    struct tca_coll *old;

    args = args ? args : &none;
    int r = error < 0 ? error : ask(coll, args);
    const bool asks = kept && kept->same && !coll->has_said;
    const int found = asks ? find_kept(kept, coll, r, &old) : 0;
    if (found > 0) {
        *ret_coll = old;
        return take_over(old, coll);
    }
    r = found < 0 ? found : prepare(coll, args, r, &met, &heads);
    gathered_deinit(&heads);
    if (r < 0)
        return give_up(coll, r);
    coll->made = group_calls(coll->session, coll->group);
    if (kept)
        kept->made++;
    if (coll->same == COLL_SAME_WANTED)
        coll_same_make(kept, coll->session);
    *ret_coll = coll;
    return 0;
}

/* ---- releasing */

/* A plan of a failed operation may wait for a rank that does not come any more: it is left to
 * tca_close(), which ends it at once. */
static void free_plan(const struct tca_coll *coll, struct tca_plan *plan)
{
    if (plan && !(coll->failed && tca_test(plan) == 0))
        tca_plan_free(plan);
}

static void free_plans(struct tca_coll *coll)
{
    free_plan(coll, coll->leaf.credit);
    for (uint32_t set = 0; set < COLL_SETS; set++)
        for (uint32_t i = 0; i < COLL_CHAINS_MAX; i++) {
            const struct coll_sequence *sequence = &coll->sets[set].sequences[i];
            for (uint32_t j = 0; j < sequence->count; j++)
                free_plan(coll, sequence->items[j].plan);
        }
}

/* Takes the credits in advance: each peer has given as many as this rank has used, without that
 * one. */
static bool take_credits(struct tca_coll *coll)
{
    int r = 0;

    for (uint32_t c = 0; c < coll->program.chain_count; c++)
        for (uint32_t i = 0; r >= 0 && i < coll->program.chains[c].count; i++) {
            const struct coll_step *step = &coll->program.chains[c].steps[i];
            if (step->kind == COLL_WAIT && step->seldom)
                r = tca_notified_wait(coll->session, group_to_session(coll->group, step->peer),
                                      coll->slot + step->slot, TCA_DEFAULT);
        }
    return r >= 0;
}

static bool started_alike(struct tca_coll *coll)
{
    struct gathered starts = {0};
    bool alike = group_share(coll->session, coll->group, &coll->starts, sizeof(coll->starts),
                             sizeof(coll->starts), &starts) >= 0 &&
                 !starts.other;

    gathered_deinit(&starts);
    return alike;
}

void coll_forget(struct tca_coll *coll)
{
    for (uint32_t set = 0; set < COLL_SETS; set++)
        for (uint32_t i = 0; i < COLL_CHAINS_MAX; i++)
            free(coll->sets[set].sequences[i].items);
    coll_program_deinit(&coll->program);
    free_lists(coll);
}

/* Where other ranks may still put into the scratch memory, and notify, it is left to
 * tca_close(). */
void coll_release(struct tca_coll *coll, bool complete)
{
    if (!complete && !coll->failed)
        coll->failed = -ECANCELED;
    free_plans(coll);
    if (complete)
        tca_free(coll->session, coll->scratch);
    if (coll->slot_count > 0 && complete)
        slots_return(coll->session, coll->slot, coll->slot_count);
    coll_forget(coll);
}

static bool may_be_kept(const struct tca_coll *coll)
{
    return coll->copies.used && coll->shared && !coll->failed &&
           coll_common_bytes(&coll->shape) <= COLL_KEPT_BYTES;
}

/* Keeps it for one that is like it, or releases it. Returns the group if that has lost a use. */
static struct tca_group *end(struct tca_coll *coll, struct coll_kept *kept, bool complete)
{
    struct tca_group *group = coll->group;

    coll_run_end(coll);
    if (kept && complete && may_be_kept(coll) && coll_kept_put(kept, coll))
        return NULL;
    coll_release(coll, complete);
    return group;
}

/* All that was put and notified has arrived, and nobody starts it any more, if all ranks have
 * completed equally many starts. */
struct tca_coll *tca_coll_free(struct tca_coll *coll)
{
    if (!coll)
        return NULL;
    struct tca *session = coll->session;
    struct coll_siblings *siblings = coll->siblings;
    struct coll_thread *thread = siblings->thread;
    const uint64_t outer_ns = session_limit_begin(session);
    coll_thread_lock(thread); /* it may be advancing another operation */
    bool waits = !coll->failed;
    coll_thread_unlock(thread);
    waits = waits && coll->shared && tca_coll_wait(coll, TCA_DEFAULT) >= 0;
    struct coll_kept *kept = waits ? kept_of(coll) : NULL;
    const bool says = kept && kept->same;
    bool alike = says && coll_same(kept, COLL_FREES, digest(coll->made, coll->starts), true) > 0;
    coll_thread_lock(thread);
    if (waits && !says)
        alike = started_alike(coll);
    alike = alike && take_credits(coll);
    struct tca_group *group = end(coll, kept, alike || !coll->shared);
    coll_thread_unlock(thread);
    group_unuse(group);
    coll_siblings_leave(siblings);
    session_limit_end(session, outer_ns);
    return NULL;
}
