/* What trials of rails have found, as wisdom. */
#include <string.h>

#include "client/core/session.h"
#include "client/core/wisdom.h"
#include "client/layout/layout.h"
#include "client/plan/trial_rails_internal.h"
#include "proto/handle.h"
#include "proto/siphash.h"

void trial_mix(uint64_t key[2], const void *data, size_t bytes)
{
    const uint64_t before[2] = {key[0], key[1]};
    siphash_128(before, data, bytes, key);
}

static uint32_t node_of_rank(const struct tca *session, uint32_t rank)
{
    return session->members && rank < session->sources ? session->members[rank].node : 0;
}

static void mix_step(const struct tca *session, const struct step *step, uint64_t key[2])
{
    struct handle handle = {0};
    if (step->kind == STEP_PUT)
        handle_decode(step->put.handle, &handle);
    else
        handle.node = node_of_rank(session, step->notification.rank);
    trial_mix(key, (uint32_t[]){(uint32_t)step->kind, handle.node, step->flush},
              3 * sizeof(uint32_t));
    if (step->kind != STEP_PUT)
        return;
    const struct layout *source = step->put.source_layout->program,
                        *target = step->put.target_layout->program;
    trial_mix(key, source, layout_bytes(source));
    trial_mix(key, target, layout_bytes(target));
}

void rail_trial_key(const struct tca_plan *plan, uint32_t chain, uint64_t ret_key[2])
{
    wisdom_seed(ret_key);
    trial_mix(ret_key, &plan->session->node, sizeof plan->session->node);
    for (uint32_t i = plan->chain_first[chain]; i < plan_chain_end(plan, chain); i++)
        mix_step(plan->session, &plan->steps[i], ret_key);
}

/* Identifies a choice of rails: with others, a new trial is due. */
static uint32_t hash_rails(const struct tca *session, uint32_t rails)
{
    uint64_t hash[2] = {0};
    for (uint32_t rail = 1; rail <= session->rails.count; rail++)
        if (rails & 1u << rail)
            trial_mix(hash, session->rails.at[rail].name, strlen(session->rails.at[rail].name));
    return (uint32_t)hash[0];
}

bool rail_trial_is_known(const struct tca_plan *plan, struct rail_kind *kind)
{
    const struct tca *session = plan->session;
    const struct rail_trial *trial = plan->rail_trial;
    const struct wisdom_entry *entry = wisdom_find(session->wisdom, trial->keys[kind->first], 0);
    if (!entry || entry->rails != hash_rails(session, trial->rails[kind->first]))
        return false;
    for (unsigned i = 0; i < kind->count; i++) {
        if (strcmp(session->rails.at[kind->rails[i]].name, entry->rail) != 0)
            continue;
        kind->choice = i;
        return true;
    }
    return false;
}

void trial_describe_puts(const struct tca_plan *plan, uint32_t first, uint32_t end,
                         struct wisdom_entry *entry)
{
    uint64_t blocks = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct step *step = &plan->steps[i];
        if (step->kind != STEP_PUT)
            continue;
        const struct layout *a = step->put.source_layout->program,
                            *b = step->put.target_layout->program;
        entry->bytes += a->size_bytes;
        blocks += a->block_count > b->block_count ? a->block_count : b->block_count;
    }
    entry->blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

void rail_trial_note(const struct tca_plan *plan, const struct rail_kind *kind)
{
    const struct rail_trial *trial = plan->rail_trial;
    const struct tca *session = plan->session;
    struct wisdom_entry entry = {
        .key = {trial->keys[kind->first][0], trial->keys[kind->first][1]},
        .ns = tune_quartile_ns(&trial->choose.tune, kind->choice),
        .rails = hash_rails(session, trial->rails[kind->first]),
        .way = WAY_NONE,
    };
    trial_describe_puts(plan, plan->chain_first[kind->first], plan_chain_end(plan, kind->first),
                        &entry);
    memcpy(entry.rail, session->rails.at[kind->rails[kind->choice]].name, sizeof entry.rail);
    wisdom_add(session->wisdom, &entry);
}
