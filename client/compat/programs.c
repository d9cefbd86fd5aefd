/*
 * The programs of this process. Those that no channel uses are cached, because applications that
 * rebuild their chains in every step rebuild the same ones, and committing a plan costs far more
 * than finding it.
 */
#include <stdlib.h>
#include <string.h>

#include "client/compat/channel.h"
#include "client/compat/device/moves.h"

enum {
    KEPT_MAX = 256,
    KEPT_DESCRIPTORS_MAX = 16 * 1024, /* of all cached programs together */
};

static struct program *programs; /* the most recently used first */

static void unlink_program(struct program *program)
{
    if (program->previous)
        program->previous->next = program->next;
    else
        programs = program->next;
    if (program->next)
        program->next->previous = program->previous;
}

void programs_add(struct program *program)
{
    program->previous = NULL;
    program->next = programs;
    if (programs)
        programs->previous = program;
    programs = program;
}

static bool is_same(const struct program *program, const struct transfers *chain, int channel)
{
    return program->channel == channel && program->chain.count == chain->count &&
           !program->dropped && !program->spoiled &&
           (chain->count == 0 ||
            memcmp(program->chain.list, chain->list, chain->count * sizeof(chain->list[0])) == 0);
}

struct program *programs_find(const struct transfers *chain, int channel)
{
    struct program *program = programs;
    while (program && !is_same(program, chain, channel))
        program = program->next;
    return program;
}

/* ---- the end ---- */

/* Frees everything that belongs to the session. */
static void drop(struct program *program)
{
    program->plan = tca_plan_free(program->plan);
    for (size_t i = 0; i < program->sending_count; i++)
        place_give(program->sendings[i].place);
    moves_end(program);
    program->sending_count = program->self_count = program->source_count = 0;
    tca_free(compat.session, program->notices);
    program->notices = NULL;
    program->dropped = true;
}

void program_free(struct program *program)
{
    drop(program);
    free(program->sendings);
    free(program->selves);
    free(program->notified);
    free(program->sources);
    free(program->moves);
    free(program->chain.list);
    free(program);
}

static void end(struct program *program)
{
    unlink_program(program);
    program_free(program);
}

/* Frees the least recently used of the cached programs. */
static void limit(void)
{
    size_t kept = 0, descriptors = 0;
    for (struct program *program = programs, *next; program; program = next) {
        next = program->next;
        if (program->users > 0)
            continue;
        kept++;
        descriptors += program->chain.count;
        if (kept > KEPT_MAX || descriptors > KEPT_DESCRIPTORS_MAX)
            end(program);
    }
}

struct program *program_ref(struct program *program)
{
    program->users++;
    return program;
}

struct program *program_unref(struct program *program)
{
    if (!program || --program->users > 0)
        return NULL;
    if (program->dropped || program->spoiled || program->reaches) {
        end(program);
        return NULL;
    }
    unlink_program(program);
    programs_add(program);
    limit();
    return NULL;
}

bool program_puts_from(const struct program *program, const struct tca_region *region)
{
    for (size_t i = 0; i < program->source_count; i++)
        if (program->sources[i] == region)
            return true;
    return false;
}

void program_use(struct program *program, struct tca_region *region)
{
    if (!program_puts_from(program, region))
        program->sources[program->source_count++] = region;
}

void programs_drop(const struct tca_region *region)
{
    for (struct program *program = programs, *next; program; program = next) {
        if (program_puts_from(program, region)) {
            program_ref(program);
            channel_finish(program->channel, program);
            drop(program);
            next = program->next;
            program_unref(program);
        } else {
            next = program->next;
        }
    }
}

bool programs_trim(void)
{
    bool any = false;
    for (struct program *program = programs, *next; program; program = next) {
        next = program->next;
        if (program->users == 0) {
            any = any || program->plan;
            end(program);
        }
    }
    return any;
}
