/* Ends of ranks, between the teams of a group's nodes and for the sessions of this one. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "daemon/base/log.h"
#include "daemon/groups/group_internal.h"
#include "daemon/groups/team.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"

/* A node that cannot be reached, or has no ranks in the group any more, passes nothing on. */
static void news_failed(struct team *team, uint32_t position, int status, const char *text)
{
    if (status == -ECANCELED)
        return;
    ends_node_down(&team->ends, position);
    team_settle(team);
}

static void send_news(void *context, uint32_t position, const struct ends_news *news)
{
    struct team *team = context;
    struct tcad *tcad = team->groups->tcad;
    const uint32_t node = team->roster.node_at[position];
    Tca__PeerGroupEnds body = BODY_OF(peer_group_ends, .team = team->id, .n_ended = news->n_ended,
                                      .ended = (uint32_t *)news->ended, .n_down = news->n_down,
                                      .down = (uint32_t *)news->down);
    const Tca__Message message = MESSAGE_OF(PEER_GROUP_ENDS, peer_group_ends, &body);

    if (team_request(team->groups, team->id, node, &message, news_failed) < 0)
        log_warning(NULL, "group %s: out of memory: node %s does not learn which ranks have ended",
                    team->name, group_node_name(tcad, node));
}

static void ranks_ended(void *context, const uint32_t *ranks, size_t count, bool node_down)
{
    struct team *team = context;
    struct groups *groups = team->groups;
    struct tcad *tcad = groups->tcad;

    board_ranks_ended(team);
    for (size_t i = 0; i < count; i++)
        team_parts_lose(team, ranks[i], node_down);
    team_shrink_again(team);
    groups_begin_look(groups);
    for (struct place *place = groups->places; place; place = place->next) {
        struct session *session =
            place->left || place->caller.team != team || place->state < PLACE_MEETS
                ? NULL
                : session_find(tcad, place->session);
        if (session)
            session_sources_gone(session, ranks, count, node_down ? SOURCE_NODE_DOWN : SOURCE_DEAD);
    }
    groups_end_look(groups);
    for (size_t i = 0; i < count; i++) {
        const uint32_t node = team->roster.node_at[team->roster.positions[ranks[i]]];
        if (node != tcad->node)
            tcad->session_hooks->gone_there(tcad, node, team->members->list[ranks[i]].session,
                                            node_down ? -EHOSTDOWN : -EOWNERDEAD);
    }
}

static void tell(struct team *team)
{
    deadline_clear(&team->groups->deadlines, &team->telling);
    ends_flush(&team->ends, clock_now_ns());
}

static void tell_news(void *context)
{
    struct team *team = context;
    team->uses++;
    tell(team);
    team_settle(team);
    team_unuse(team);
}

static void tell_later(void *context)
{
    struct team *team = context;
    deadline_set(&team->groups->deadlines, &team->telling,
                 ends_due(&team->ends, clock_now_ns(), false), tell_news, team);
}

/* ---- nodes ---- */

void team_lose_node(struct team *team, uint32_t node)
{
    const uint32_t position = roster_position(&team->roster, node);
    char text[GATHER_TEXT_BYTES];
    if (position == UINT32_MAX || (team->whole && !team->met))
        return;
    const uint32_t rank = team->roster.by_position[team->roster.starts[position]];
    snprintf(text, sizeof(text),
             "rank %" PRIu32 " (session %" PRIu64 " of node %s) has ended: its node is down", rank,
             team->whole ? team->whole->members->list[team->ranks[rank]].session
                         : team->members->list[rank].session,
             group_node_name(team->groups->tcad, node));
    if (position == team->gather.place.parent)
        gather_orphan(&team->gather, -EHOSTDOWN, text);
    else
        gather_fail(&team->gather, rank, -EHOSTDOWN, true, text);
    if (!team->whole)
        ends_node_down(&team->ends, position);
    team_settle(team);
}

struct loss {
    uint32_t count;
    struct team **teams;
};

static void count_team(void *context, void *owner)
{
    struct loss *loss = context;
    struct team *team = owner;
    if (loss->teams) {
        team->uses++;
        loss->teams[loss->count] = team;
    }
    loss->count++;
}

void teams_node_down(struct groups *groups, uint32_t node)
{
    struct loss loss = {.teams = calloc(groups->teams.count + 1, sizeof(struct team *))};
    if (!loss.teams)
        return; /* calls end at their time-outs */
    table_each(&groups->teams, count_team, &loss);
    for (uint32_t i = 0; i < loss.count; i++) {
        team_lose_node(loss.teams[i], node);
        team_unuse(loss.teams[i]);
    }
    free(loss.teams);
}

/* ---- messages ---- */

const struct ends_ops team_ends_ops = {send_news, ranks_ended, tell_later};

void team_ends_rank(struct team *team, uint32_t rank)
{
    const uint64_t now_ns = clock_now_ns();
    ends_rank(&team->ends, rank);
    if (ends_due(&team->ends, now_ns, true) <= now_ns)
        tell(team);
}

void team_ends_told(struct groups *groups, uint32_t node, uint32_t tag,
                    const Tca__PeerGroupEnds *told)
{
    struct peers *peers = groups->tcad->peers;
    struct team *team = table_find(&groups->teams, told->team);
    const uint32_t position = team ? roster_position(&team->roster, node) : UINT32_MAX;
    const struct ends_news news = {told->ended, told->n_ended, told->down, told->n_down};

    if (position == UINT32_MAX || position == team->position) {
        peers_fail(peers, node, tag, -ENOENT, "node %s is in no such group with node %s",
                   group_node_name(groups->tcad, groups->tcad->node),
                   group_node_name(groups->tcad, node));
        return;
    }
    team->uses++;
    int r = ends_receive(&team->ends, position, &news);
    if (r == 0)
        peers_done(peers, node, tag);
    else
        peers_fail(peers, node, tag, r, "group %s: %s", team->name,
                   r == -EPROTO ? "these are not runs of ranks and nodes"
                                : "your node counts as down");
    if (r == -EPROTO)
        log_warning(NULL, "group %s: node %s has sent ends of ranks that do not fit: ignored",
                    team->name, group_node_name(groups->tcad, node));
    team_settle(team);
    team_unuse(team);
}

void team_settle(struct team *team)
{
    const bool over = team->whole ? team->gather.broken != 0 || (team->from == 0 && !team->met)
                                  : team->ends.left == 0 || (team->gather.broken && !team->met);
    if (!team->stays || team->callers || team->ends.news || !over)
        return;
    team->stays = false;
    team_unuse(team);
}
