#include "client/coll/program.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

void coll_program_init(struct coll_program *program, uint32_t rank, uint32_t chains)
{
    *program = (struct coll_program){.rank = rank, .chain_count = chains, .sets = 1};
}

void coll_program_deinit(struct coll_program *program)
{
    for (uint32_t c = 0; c < COLL_CHAINS_MAX; c++)
        free(program->chains[c].steps);
    memset(program->chains, 0, sizeof(program->chains));
}

struct coll_place coll_scratch(struct coll_program *program, uint64_t bytes)
{
    uint64_t offset = program->scratch_bytes;

    program->scratch_bytes += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return coll_at(COLL_SCRATCH, offset);
}

/* ---- steps */

static void append(struct coll_program *program, struct coll_chain *chain, struct coll_step step)
{
    if (chain->count == chain->room) {
        uint32_t room = chain->room ? 2 * chain->room : 16;
        struct coll_step *steps = realloc(chain->steps, room * sizeof(*steps));
        if (!steps) {
            program->out_of_memory = true;
            return;
        }
        chain->steps = steps;
        chain->room = room;
    }
    chain->steps[chain->count++] = step;
}

void coll_put(struct coll_program *program, uint32_t chain, uint32_t peer, struct coll_place from,
              struct coll_place to, uint64_t bytes)
{
    if (bytes > 0)
        append(program, &program->chains[chain],
               (struct coll_step){
                   .kind = COLL_PUT, .peer = peer, .from = from, .to = to, .bytes = bytes});
}

void coll_put_part(struct coll_program *program, uint32_t chain, uint32_t peer, uint32_t part)
{
    append(program, &program->chains[chain],
           (struct coll_step){.kind = COLL_PUT, .peer = peer, .part = part});
}

static struct coll_step signal_of(enum coll_kind kind, uint32_t chain, uint32_t peer, uint32_t what)
{
    return (struct coll_step){.kind = kind, .peer = peer, .slot = chain * COLL_SLOTS + what};
}

void coll_notify(struct coll_program *program, uint32_t chain, uint32_t peer)
{
    append(program, &program->chains[chain], signal_of(COLL_NOTIFY, chain, peer, COLL_DATA));
}

void coll_wait(struct coll_program *program, uint32_t chain, uint32_t peer)
{
    append(program, &program->chains[chain], signal_of(COLL_WAIT, chain, peer, COLL_DATA));
}

void coll_reduce(struct coll_program *program, uint32_t chain, struct coll_place from,
                 struct coll_place to, uint64_t bytes, bool from_left)
{
    if (bytes > 0)
        append(program, &program->chains[chain],
               (struct coll_step){.kind = COLL_COMBINE,
                                  .peer = program->rank,
                                  .from = from,
                                  .to = to,
                                  .bytes = bytes,
                                  .from_left = from_left});
}

void coll_copy(struct coll_program *program, uint32_t chain, struct coll_place from,
               struct coll_place to, uint64_t bytes)
{
    if (from.buffer != to.buffer || from.offset != to.offset)
        coll_put(program, chain, program->rank, from, to, bytes);
}

/* ---- credits */

static void append_credit(struct coll_program *program, uint32_t chain, enum coll_kind kind,
                          uint32_t peer)
{
    struct coll_step step = signal_of(kind, chain, peer, COLL_CREDIT);

    step.seldom = program->sets == COLL_SETS;
    append(program, &program->chains[chain], step);
}

static uint32_t peers_of(const struct coll_chain *chain)
{
    uint32_t end = 0;

    for (uint32_t i = 0; i < chain->count; i++)
        if (chain->steps[i].peer >= end)
            end = chain->steps[i].peer + 1;
    return end;
}

/* A chain that puts to a peer also notifies it, at the latest after its last put. */
static void add_to_chain(struct coll_program *program, uint32_t index)
{
    enum { AWAITED = 1, SENT = 2 };
    struct coll_chain old = program->chains[index], *chain = &program->chains[index];
    uint8_t *seen = calloc((size_t)peers_of(&old) + 1, sizeof(*seen)); /* + 1: not 0 bytes */

    if (!seen) {
        program->out_of_memory = true;
        return;
    }
    *chain = (struct coll_chain){0};
    for (uint32_t i = 0; i < old.count; i++) {
        const struct coll_step *step = &old.steps[i];
        if (step->kind != COLL_WAIT || seen[step->peer] & AWAITED)
            continue;
        append_credit(program, index, COLL_NOTIFY, step->peer);
        seen[step->peer] |= AWAITED;
    }
    for (uint32_t i = 0; i < old.count; i++) {
        const struct coll_step *step = &old.steps[i];
        bool to_peer =
            step->kind == COLL_NOTIFY || (step->kind == COLL_PUT && step->peer != program->rank);
        if (to_peer && !(seen[step->peer] & SENT)) {
            append_credit(program, index, COLL_WAIT, step->peer);
            seen[step->peer] |= SENT;
        }
        append(program, chain, *step);
    }
    free(seen);
    free(old.steps);
}

void coll_add_credits(struct coll_program *program)
{
    for (uint32_t c = 0; c < program->chain_count; c++)
        add_to_chain(program, c);
}
