/*
 * Parts of a group: a split divides the ranks of a team by the colours that they choose. It is a
 * collective call of two rounds. In the first, all nodes learn what all ranks have chosen, and make
 * the parts of their own ranks; nobody needs to be told what is in a part, or its number, because
 * both follow from that. In the second, all ranks meet: if a node could not make a part, the split
 * fails at all ranks.
 *
 * A part is a team like the whole group's, with a tree of its own nodes. It exists at each of these
 * before any of its ranks can use it, and until no call of it can succeed any more. Ends of ranks
 * are told to the whole group, and each node tells its parts.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/groups/divide.h"
#include "daemon/groups/group_internal.h"
#include "daemon/groups/team.h"
#include "daemon/tcad.h"
#include "proto/list.h"

static struct team *whole_of(struct team *team)
{
    return team->whole ? team->whole : team;
}

static uint32_t rank_in_whole(const struct team *team, uint32_t rank)
{
    return team->whole ? team->ranks[rank] : rank;
}

/* ---- making parts ---- */

static uint64_t part_bytes(const struct team *part)
{
    return sizeof(*part) + part->roster.size * 3 * sizeof(uint32_t) + part->roster.nodes * 16 +
           part->gather.rank_count * 10;
}

struct team *team_part_new(struct team *team, uint32_t *ranks, uint32_t size, uint64_t id,
                           const char *name, int *ret_error, char *text, size_t text_bytes)
{
    struct groups *groups = team->groups;
    struct team *part = calloc(1, sizeof(*part)), *whole = whole_of(team);
    uint32_t *nodes = calloc(size, sizeof(*nodes));

    *ret_error = -ENOMEM;
    snprintf(text, text_bytes, "out of memory for a group of %" PRIu32, size);
    for (uint32_t i = 0; nodes && i < size; i++)
        nodes[i] = whole->roster.node_at[whole->roster.positions[ranks[i]]];
    if (!part || !nodes || roster_init(&part->roster, size, nodes) < 0)
        goto failed;
    part->position = roster_position(&part->roster, groups->tcad->node);
    if (gather_init(&part->gather, &team_gather_ops, part, &part->roster, part->position) < 0)
        goto failed;
    *ret_error = charge_take(groups->tcad, &part->charge, team->user, USER_GROUPS, part_bytes(part),
                             "a group of some ranks", text, text_bytes);
    if (*ret_error < 0)
        goto failed;
    part->groups = groups;
    part->id = part->origin = id;
    part->user = team->user;
    snprintf(part->name, sizeof(part->name), "%s", name);
    part->ranks = ranks;
    part->whole = whole;
    whole->uses++;
    LIST_ADD(&whole->parts, part, next_part, link_part);
    part->stays = true;
    part->uses = 2; /* the other one is for who has called this */
    table_add(&groups->teams, &part->entry, id, part);
    free(nodes);
    return part;

failed:
    if (part) {
        gather_deinit(&part->gather);
        roster_deinit(&part->roster);
    }
    free(ranks);
    free(part);
    free(nodes);
    return NULL;
}

struct caller *team_find_caller(const struct team *team, uint32_t rank)
{
    struct caller *caller = team->callers;
    while (caller && caller->rank != rank)
        caller = caller->next;
    return caller;
}

int team_part_enter(struct team *part, struct caller *from, uint32_t rank, char *text,
                    size_t text_bytes)
{
    struct caller *made;
    int r = charge_take(part->groups->tcad, &part->charge, part->user, USER_GROUPS, sizeof(*made),
                        "a group of some ranks", text, text_bytes);
    if (r < 0)
        return r;
    made = calloc(1, sizeof(*made));
    if (!made) {
        snprintf(text, text_bytes, "out of memory for a group of some ranks");
        return -ENOMEM;
    }
    team_enter(part, made, from->place, rank);
    LIST_ADD(&from->place->parts, made, next_part, link_part);
    from->made = made;
    return 0;
}

/* All ranks of one colour. */
static int make_part(struct team *team, const struct divided *members, uint32_t size, char *text,
                     size_t text_bytes)
{
    const uint64_t id =
        table_mix(table_mix(team->id, team->gather.round), members[0].colour + UINT64_C(1));
    char name[NAME_MAX_BYTES];
    int r = -ENOMEM;

    if (size == 1) /* needs no daemon */
        return 0;
    if (id == 0 || table_find(&team->groups->teams, id)) {
        snprintf(text, text_bytes, "the number of a group that was split off is in use: try again");
        return -EEXIST;
    }
    uint32_t *ranks = calloc(size, sizeof(*ranks));
    snprintf(text, text_bytes, "out of memory for a group of %" PRIu32, size);
    for (uint32_t i = 0; ranks && i < size; i++)
        ranks[i] = rank_in_whole(team, members[i].rank);
    snprintf(name, sizeof(name), "%.*s/%" PRIu32, NAME_MAX_BYTES - 12, team->name,
             members[0].colour);
    struct team *part =
        ranks ? team_part_new(team, ranks, size, id, name, &r, text, text_bytes) : NULL;
    if (part) {
        part->from = team->id;
        team->making++;
    }
    for (uint32_t rank = 0; part && rank < size; rank++) {
        const bool here = part->roster.positions[rank] == part->position;
        struct caller *caller = here ? team_find_caller(team, members[rank].rank) : NULL;
        if (r >= 0 && caller && caller->call == CALL_MEETS)
            r = team_part_enter(part, caller, rank, text, text_bytes);
    }
    if (part)
        team_unuse(part);
    return r;
}

static int make_parts(struct team *team, const uint8_t *choices, char *text, size_t text_bytes)
{
    const struct roster *roster = &team->roster;
    const uint32_t *own = roster->by_position + roster->starts[team->position],
                   count = roster->starts[team->position + 1] - roster->starts[team->position];
    struct divided *divided = calloc((size_t)roster->size + count, sizeof(*divided));
    int r = 0;

    if (!divided) {
        snprintf(text, text_bytes, "out of memory for a split");
        return -ENOMEM;
    }
    const uint32_t found = divide(choices, roster->size, own, count, divided);
    for (uint32_t i = 0, size; r >= 0 && i < found; i += size) {
        size = divide_part(divided + i, found - i);
        r = make_part(team, divided + i, size, text, text_bytes);
    }
    free(divided);
    return r;
}

void team_divide(struct team *team, const uint8_t *choices)
{
    char text[GATHER_TEXT_BYTES];
    const uint64_t sequence = (team->gather.sequence & GATHER_CALLS_MAX) | GATHER_MEETS;
    struct caller *caller;

    for (caller = team->callers; caller; caller = caller->next)
        caller->call = caller->call ? CALL_MEETS : CALL_NONE;
    const int r = make_parts(team, choices, text, sizeof(text));
    if (r < 0) {
        gather_fail(&team->gather, team->callers->rank, r, false, text);
        return;
    }
    const uint32_t *ranks = team->gather.ranks;
    for (uint32_t at = 0; at < team->gather.rank_count; at++)
        if (team->gather.is_own[at] && (caller = team_find_caller(team, ranks[at])) &&
            caller->call == CALL_MEETS)
            gather_call(&team->gather, ranks[at], sequence, NULL, 0);
}

/* ---- whether they meet ---- */

static void fail(struct team *part, uint32_t rank, int error, const char *why)
{
    const uint32_t of_whole = part->ranks[rank];
    const struct roster *roster = &part->whole->roster;
    char text[GATHER_TEXT_BYTES];

    snprintf(text, sizeof(text), "rank %" PRIu32 " (session %" PRIu64 " of node %s) has %s", rank,
             part->whole->members->list[of_whole].session,
             group_node_name(part->groups->tcad, roster->node_at[roster->positions[of_whole]]),
             why);
    gather_fail(&part->gather, rank, error, true, text);
}

/* A rank of the whole has ended. The node on which it was has said so along the part's tree, unless
 * that was before all nodes knew the part: then the root does. */
static void lose(struct team *part, uint32_t of_whole, bool node_down)
{
    const struct roster *roster = &part->roster, *all = &part->whole->roster;
    const uint32_t node = all->node_at[all->positions[of_whole]];
    const uint32_t position = roster_position(roster, node);

    if (part->gather.broken || position == UINT32_MAX)
        return;
    if (node_down) {
        team_lose_node(part, node); /* which need not be a neighbour */
        return;
    }
    for (uint32_t i = roster->starts[position]; i < roster->starts[position + 1]; i++)
        if (part->position == 0 && part->ranks[roster->by_position[i]] == of_whole)
            fail(part, roster->by_position[i], -EOWNERDEAD, "ended");
}

/* All nodes that try to shrink a group learn this by themselves, and go on without the rank. */
static void lose_survivor(struct team *part, uint32_t of_whole)
{
    char text[GATHER_TEXT_BYTES];
    for (uint32_t rank = 0; rank < part->roster.size; rank++)
        if (part->ranks[rank] == of_whole) {
            snprintf(text, sizeof(text), "rank %" PRIu32 " has ended", rank);
            gather_orphan(&part->gather, -EOWNERDEAD, text);
        }
}

void team_parts_lose(struct team *whole, uint32_t rank, bool node_down)
{
    for (struct team *part = whole->parts, *next; part; part = next) {
        part->uses++;
        if (part->met)
            lose(part, rank, node_down);
        else if (part->from == 0)
            lose_survivor(part, rank);
        team_settle(part);
        next = part->next_part;
        team_unuse(part);
    }
}

/* What has happened since it was made. */
static void catch_up(struct team *part)
{
    const struct roster *roster = &part->roster;
    const struct ends *ends = &part->whole->ends;
    bool node_down;

    for (uint32_t i = roster->starts[part->position]; i < roster->starts[part->position + 1]; i++)
        if (!team_find_caller(part, roster->by_position[i]))
            fail(part, roster->by_position[i], -EOWNERDEAD, "ended, or its split has failed");
    for (uint32_t rank = 0; ends->left < part->whole->roster.size && rank < roster->size; rank++)
        if (ends_know(ends, part->ranks[rank], &node_down))
            lose(part, part->ranks[rank], node_down);
}

void team_parts_met(struct team *team)
{
    struct team *part = whole_of(team)->parts, *next; /* those made last are the first */
    for (; part && team->making > 0; part = next) {
        part->uses++;
        if (part->from == team->id && !part->met) {
            team->making--;
            part->met = true;
            catch_up(part);
            team_settle(part);
        }
        next = part->next_part;
        team_unuse(part);
    }
    team->making = 0;
}

void team_parts_unmade(struct team *team)
{
    struct team *part = whole_of(team)->parts, *next;
    for (; part && team->making > 0; part = next) {
        next = part->next_part;
        if (part->from == team->id && !part->met) {
            team->making--;
            if (part->stays) {
                part->stays = false;
                team_unuse(part);
            }
        }
    }
    team->making = 0;
}

static void drop(struct caller *caller)
{
    if (caller->maker)
        caller->maker->made = NULL;
    LIST_REMOVE(caller, next_part, link_part);
    free(caller);
}

void team_answer_part(struct session *session, uint32_t tag, const struct caller *made)
{
    Tca__GroupPart body = TCA__GROUP_PART__INIT;
    const Tca__Message message = MESSAGE_OF(GROUP_PART, group_part, &body);

    if (made) {
        body.group = made->team->id;
        body.n_ranks = made->team->roster.size;
        body.ranks = made->team->ranks;
    }
    session_answer(session, tag, &message, NULL, 0);
}

void team_made(struct caller *caller, struct session *session)
{
    const struct caller *made = caller->made;

    caller->made = NULL;
    team_answer_part(session, caller->tag, made);
}

void team_not_made(struct caller *caller)
{
    if (caller->made)
        team_drop_part(caller->made);
    caller->made = NULL;
}

void team_drop_part(struct caller *made)
{
    team_withdraw(made, -ECANCELED, "not got the group");
    drop(made);
}

/* ---- a session's parts ---- */

struct caller *team_find_part(const struct place *place, uint64_t id)
{
    struct team *team = table_find(&place->groups->teams, id);
    struct caller *caller = team && team->whole && team->met ? team->callers : NULL;
    while (caller && caller->place != place)
        caller = caller->next;
    return caller;
}

void team_leave_parts(struct place *place)
{
    for (struct caller *caller; (caller = place->parts);) {
        team_leave(caller);
        drop(caller);
    }
}

void team_forget_parts(struct place *place)
{
    for (struct caller *caller; (caller = place->parts);) {
        team_forget(caller);
        drop(caller);
    }
}

void team_split(struct caller *caller, uint32_t tag, const Tca__GroupSplit *split)
{
    const struct divide_choice choice = {split->colour, split->key};
    team_call(caller, CALL_SPLITS, tag, split->sequence | GATHER_SPLITS, (const uint8_t *)&choice,
              sizeof(choice), 0, split->timeout_ns);
}

void team_release(struct caller *caller, uint32_t tag)
{
    struct session *session = session_find(caller->team->groups->tcad, caller->place->session);

    if (caller->call) {
        session_fail(session, tag, -EBUSY, "group %s: rank %" PRIu32 " is in a collective call",
                     caller->team->name, caller->rank);
        return;
    }
    team_withdraw(caller, -ECANCELED, "released the group");
    drop(caller);
    session_done(session, tag);
}
