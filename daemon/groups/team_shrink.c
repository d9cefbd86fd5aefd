/*
 * The survivors of a group go on. Nobody needs to lead them: all nodes learn which ranks have ended
 * (daemon/groups/ends.h). From these, each makes the part of the ranks that have not, whose number
 * follows from its ranks, and their meeting there is a call of that part. If nodes know different
 * ends, their parts differ, and none is complete; the news makes those who know less try again. The
 * same happens when a rank ends meanwhile.
 *
 * Where a rank ends after the survivors have met, but before all nodes have heard of that, some
 * have got the part, and others try again. As the number of a part does not tell from which of its
 * predecessors it was made, the former meet the latter when they shrink theirs.
 *
 * A call that times out leaves its rank in the part, because the others may have counted it, and
 * the next one finds it there. A call waits for news where it knows of no end that those before it
 * did not leave behind.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/groups/group_internal.h"
#include "daemon/groups/team.h"
#include "daemon/tcad.h"

/* Ranks of the whole; NULL: of the group, only their number is wanted. */
static uint32_t find_survivors(const struct team *team, uint32_t *ret_ranks)
{
    const struct team *whole = team->whole ? team->whole : team;
    uint32_t count = 0;
    bool node_down;

    for (uint32_t rank = 0; rank < team->roster.size; rank++) {
        const uint32_t of_whole = team->whole ? team->ranks[rank] : rank;
        if (ends_know(&whole->ends, of_whole, &node_down))
            continue;
        if (ret_ranks)
            ret_ranks[count] = of_whole;
        count++;
    }
    return count;
}

static uint64_t number_of(const struct team *team, const uint32_t *ranks, uint32_t count)
{
    uint64_t number = team->whole ? team->origin : team->id;
    for (uint32_t i = 0; i < count; i++)
        number = table_mix(number, ranks[i] + UINT64_C(1));
    return number ? number : 1;
}

/* The part of these ranks at this node, in use by the caller of this. NULL: an error with its text,
 * or it has been and is gone. */
static struct team *find_part(const struct caller *caller, uint32_t *ranks, uint32_t count,
                              int *ret_error, char *text, size_t text_bytes)
{
    struct team *team = caller->team;
    const uint64_t number = number_of(team, ranks, count);
    struct team *part = table_find(&team->groups->teams, number);

    *ret_error = 0;
    if (part || caller->shrunk == count) {
        free(ranks);
        if (part)
            part->uses++;
        return part;
    }
    part = team_part_new(team, ranks, count, number, team->name, ret_error, text, text_bytes);
    if (part) {
        part->origin = team->whole ? team->origin : team->id;
        gather_again(&part->gather);
    }
    return part;
}

static void answer(struct caller *caller, const struct caller *made)
{
    caller->shrunk = made ? made->team->roster.size : 1;
    struct session *session = team_take_caller(caller);
    if (session)
        team_answer_part(session, caller->tag, made);
}

static int meet(struct caller *caller, struct team *part, char *text, size_t text_bytes)
{
    const struct team *team = caller->team;
    const uint32_t own = team->whole ? team->ranks[caller->rank] : caller->rank;
    uint32_t rank = 0;

    struct caller *before = part->callers;
    while (before && before->place != caller->place)
        before = before->next;
    if (before && before->shrunk == 0 && !before->maker) { /* its call has timed out */
        caller->made = before;
        before->maker = caller;
        if (part->met)
            team_shrunk(before);
        return 0;
    }
    if (before || part->gather.broken)
        return 0; /* somebody has ended, of whom others know more: the news comes */
    while (part->ranks[rank] != own)
        rank++;
    int r = team_part_enter(part, caller, rank, text, text_bytes);
    if (r < 0)
        return r;
    caller->made->call = CALL_SURVIVES;
    caller->made->maker = caller;
    gather_call(&part->gather, rank, GATHER_MEETS, NULL, 0);
    return 0;
}

/* Can end the call, in either way. */
static void try_it(struct caller *caller)
{
    struct team *team = caller->team;
    char text[GATHER_TEXT_BYTES];
    uint32_t *ranks = calloc(team->roster.size, sizeof(*ranks));
    int r = -ENOMEM;

    if (!ranks) {
        team_fail_caller(caller, r, "out of memory for a group of some ranks");
        return;
    }
    caller->tried = find_survivors(team, ranks);
    if (caller->tried <= 1) {
        free(ranks);
        answer(caller, NULL);
        return;
    }
    struct team *part = find_part(caller, ranks, caller->tried, &r, text, sizeof(text));
    if (part)
        r = meet(caller, part, text, sizeof(text));
    if (r < 0)
        team_fail_caller(caller, r, text);
    if (!part)
        return;
    team_settle(part);
    team_unuse(part);
}

void team_shrunk(struct caller *made)
{
    struct caller *caller = made->maker;

    made->call = CALL_NONE;
    if (!caller)
        return;
    made->maker = NULL;
    made->shrunk = made->team->roster.size;
    caller->made = NULL;
    answer(caller, made);
}

void team_not_shrunk(struct caller *made)
{
    team_drop_part(made);
}

void team_shrink_late(struct caller *caller)
{
    if (caller->made)
        caller->made->maker = NULL;
    caller->made = NULL;
}

/* A caller who waits for a part of others than those who are left now. */
static struct caller *find_waiting(const struct team *team)
{
    uint32_t survivors = 0; /* not counted yet */

    for (struct caller *caller = team->callers; caller; caller = caller->next) {
        if (caller->call != CALL_SHRINKS || caller->made)
            continue;
        if (survivors == 0)
            survivors = find_survivors(team, NULL);
        if (caller->tried != survivors)
            return caller;
    }
    return NULL;
}

void team_shrink_again(struct team *whole)
{
    struct caller *caller;

    do { /* each try can make and end parts */
        caller = find_waiting(whole);
        for (struct team *part = whole->parts; part && !caller; part = part->next_part)
            caller = find_waiting(part);
        if (caller)
            try_it(caller);
    } while (caller);
}

void team_shrink(struct caller *caller, uint32_t tag, uint64_t timeout_ns)
{
    if (team_begin_call(caller, CALL_SHRINKS, tag, 0, timeout_ns))
        try_it(caller);
}
