#include "client/plan/route_wisdom.h"

#include "client/core/session.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"
#include "proto/siphash.h"

static void mix(uint64_t key[2], const void *data, size_t bytes)
{
    const uint64_t before[2] = {key[0], key[1]};
    siphash_128(before, data, bytes, key);
}

static void mix_step(const struct tca *session, const struct step *step, uint64_t key[2])
{
    const uint32_t node = plan_step_node(session, step);
    mix(key, (uint32_t[]){(uint32_t)step->kind, node, step->flush}, 3 * sizeof(uint32_t));
    if (step->kind != STEP_PUT)
        return;
    const struct layout *source = step->put.source_layout->program,
                        *target = step->put.target_layout->program;
    mix(key, source, layout_bytes(source));
    mix(key, target, layout_bytes(target));
}

/* Node numbers are part of it: the same rail may lead to one node better than to another. */
const uint64_t *route_key(const struct tca_plan *plan, struct route_keys *keys, uint32_t chain)
{
    uint64_t *key = keys->keys[chain];
    if (keys->made[chain])
        return key;
    keys->made[chain] = true;
    wisdom_seed(key);
    if (chain == WHOLE_PLAN) {
        mix(key, "seat", 4);
        for (uint32_t i = 0; i < plan->chain_count; i++)
            mix(key, route_key(plan, keys, i), sizeof(keys->keys[i]));
        return key;
    }
    mix(key, &plan->session->node, sizeof(plan->session->node));
    for (uint32_t i = plan->chain_first[chain]; i < plan_chain_end(plan, chain); i++)
        mix_step(plan->session, &plan->steps[i], key);
    return key;
}

struct wisdom_entry route_describe(const struct tca_plan *plan, uint32_t chain)
{
    struct wisdom_entry entry = {
        .rail = "?", .seat = chain == WHOLE_PLAN ? SEAT_CLIENT : SEAT_NONE, .method = COPY_NONE};
    const uint32_t end = chain == WHOLE_PLAN ? plan->step_count : plan_chain_end(plan, chain);
    uint64_t blocks = 0;
    for (uint32_t i = chain == WHOLE_PLAN ? 0 : plan->chain_first[chain]; i < end; i++) {
        const struct step *step = &plan->steps[i];
        if (step->kind != STEP_PUT)
            continue;
        const struct layout *a = step->put.source_layout->program,
                            *b = step->put.target_layout->program;
        entry.bytes += a->size_bytes;
        blocks += a->block_count > b->block_count ? a->block_count : b->block_count;
    }
    entry.blocks = blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
    return entry;
}

const struct wisdom_entry *route_look_up(const struct tca_plan *plan, struct route_keys *keys,
                                         uint32_t chain)
{
    const struct wisdom *wisdom = plan->session->wisdom;
    const struct wisdom_entry puts = route_describe(plan, chain);
    return wisdom_may_know(wisdom, &puts) ? wisdom_find(wisdom, route_key(plan, keys, chain), 0)
                                          : NULL;
}

uint32_t route_hash_rails(const struct tca *session, uint32_t rails)
{
    uint64_t hash[2] = {0};
    for (uint32_t rail = 1; rail <= session->rails.count; rail++)
        if (rails & 1u << rail)
            mix(hash, session->rails.at[rail].name, strlen(session->rails.at[rail].name));
    return (uint32_t)hash[0];
}
