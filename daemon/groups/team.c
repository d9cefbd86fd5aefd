#include "daemon/groups/team.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/cluster.h"
#include "daemon/base/log.h"
#include "daemon/groups/gathered.h"
#include "daemon/groups/group_internal.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"
#include "proto/frame.h"
#include "proto/list.h"

enum { GATHERED_MAX_BYTES = PEER_BURST_MAX_BYTES - 4096 };
#define PATIENCE_NS UINT64_C(500000000) /* for nodes that are asked who is missing */

void team_unuse(struct team *team)
{
    if (--team->uses > 0)
        return;
    deadline_clear(&team->groups->deadlines, &team->patience);
    deadline_clear(&team->groups->deadlines, &team->telling);
    table_remove(&team->groups->teams, &team->entry);
    gather_deinit(&team->gather);
    board_deinit(team);
    ends_deinit(&team->ends);
    roster_deinit(&team->roster);
    members_unuse(team->members);
    free(team->ranks);
    charge_drop(&team->charge);
    struct team *whole = team->whole;
    if (whole)
        LIST_REMOVE(team, next_part, link_part);
    free(team);
    if (whole)
        team_unuse(whole);
}

void team_enter(struct team *team, struct caller *caller, struct place *place, uint32_t rank)
{
    caller->team = team;
    caller->place = place;
    caller->rank = rank;
    LIST_ADD(&team->callers, caller, next, link);
    team->uses++;
}

static struct tcad *tcad_of(const struct team *team)
{
    return team->groups->tcad;
}

/* ---- messages ---- */

/* A request about a team that is on its way to a node. */
struct asking {
    struct groups *groups;
    uint64_t team;
    uint32_t node;
    team_failed *failed;
};

static void asked(void *context, int status, const Tca__Message *reply, const char *text)
{
    const struct asking asking = *(struct asking *)context;
    free(context);
    struct team *team = table_find(&asking.groups->teams, asking.team);
    if (status >= 0 || !team)
        return;
    team->uses++;
    asking.failed(team, roster_position(&team->roster, asking.node), status, text);
    team_unuse(team);
}

int team_request(struct groups *groups, uint64_t team, uint32_t node, const Tca__Message *message,
                 team_failed *failed)
{
    struct asking *asking = malloc(sizeof(*asking));
    if (!asking)
        return -ENOMEM;
    *asking = (struct asking){groups, team, node, failed};
    peers_request(groups->tcad->peers, node, message,
                  groups->tcad->conf->control.request_timeout_ns, asked, asking);
    return 0;
}

/* A neighbour does not know what it is to know: no call can succeed. */
static void unreached(struct team *team, uint32_t position, int status, const char *text)
{
    char why[GATHER_TEXT_BYTES];

    if (status == -ECANCELED)
        return; /* this daemon ends */
    snprintf(why, sizeof(why), "node %s has not got a message of the group: %s",
             group_node_name(tcad_of(team), team->roster.node_at[position]), text);
    if (position == team->gather.place.parent)
        gather_orphan(&team->gather, status, why);
    else
        gather_fail(&team->gather, team->roster.by_position[team->roster.starts[position]], status,
                    true, why);
    team_settle(team);
}

/* Nodes of a whole group have been connected by the list of members; of a part, they need not. */
static void send_message(void *context, uint32_t position, const struct gather_message *message)
{
    struct team *team = context;
    uint32_t runs[2 * GATHER_RUNS_MAX];
    Tca__PeerTeam body =
        BODY_OF(peer_team, .team = team->id, .kind = (uint32_t)message->kind,
                .round = message->round, .sequence = message->sequence, .rank = message->rank,
                .bytes = message->bytes, .error = message->error, .final = message->final);
    const Tca__Message out = MESSAGE_OF(PEER_TEAM, peer_team, &body);

    body.data = (ProtobufCBinaryData){.len = message->data_bytes, .data = (uint8_t *)message->data};
    if (message->text)
        body.text = (char *)message->text;
    for (uint32_t i = 0; i < message->run_count; i++) {
        runs[2 * i] = message->runs[i].first;
        runs[2 * i + 1] = message->runs[i].count;
    }
    body.runs = runs;
    body.n_runs = 2 * (size_t)message->run_count;
    const uint32_t node = team->roster.node_at[position];
    if (team->whole && !peers_is_up(tcad_of(team)->peers, node))
        team_request(team->groups, team->id, node, &out, unreached); /* or callers give up */
    else
        peers_tell(tcad_of(team)->peers, node, &out);
}

/* False: these are not runs of ranks of the group. */
static bool read_runs(const struct team *team, const Tca__PeerTeam *told,
                      struct gather_run *ret_runs)
{
    if (told->n_runs > 2 * GATHER_RUNS_MAX || told->n_runs % 2 != 0)
        return false;
    for (size_t i = 0; i < told->n_runs / 2; i++) {
        ret_runs[i] = (struct gather_run){told->runs[2 * i], told->runs[2 * i + 1]};
        if (ret_runs[i].count == 0 || ret_runs[i].first >= team->roster.size ||
            ret_runs[i].count > team->roster.size - ret_runs[i].first)
            return false;
    }
    return true;
}

void team_told(struct groups *groups, uint32_t node, const Tca__PeerTeam *told)
{
    struct team *team = table_find(&groups->teams, told->team);
    struct gather_run runs[GATHER_RUNS_MAX];
    if (!team)
        return; /* its ranks here have ended */
    const uint32_t position = roster_position(&team->roster, node);
    const struct gather_message message = {.kind = (enum gather_kind)told->kind,
                                           .round = told->round,
                                           .sequence = told->sequence,
                                           .rank = told->rank,
                                           .bytes = told->bytes,
                                           .data = told->data.data,
                                           .data_bytes = told->data.len,
                                           .error = told->error,
                                           .final = told->final,
                                           .text = told->text,
                                           .runs = runs,
                                           .run_count = (uint32_t)told->n_runs / 2};
    team->uses++;
    if (position == UINT32_MAX || !read_runs(team, told, runs) ||
        !gather_receive(&team->gather, position, &message))
        log_warning(NULL, "group %s: node %s has sent a message that does not fit: ignored",
                    team->name, group_node_name(groups->tcad, node));
    team_settle(team);
    team_unuse(team);
}

/* ---- calls ---- */

static int call_begins(void *context, uint64_t bytes, char *text, size_t text_bytes)
{
    struct team *team = context;
    const uint64_t all = (team->gather.rank_count + (uint64_t)team->roster.size) * bytes;
    int r = charge_take(tcad_of(team), &team->charge, team->user, USER_GROUPS, all, "a gather",
                        text, text_bytes);
    if (r == 0)
        team->call_bytes += all;
    return r;
}

static void call_over(struct team *team)
{
    charge_lower(&team->charge, team->call_bytes);
    team->call_bytes = 0;
}

struct session *team_take_caller(struct caller *caller)
{
    struct groups *groups = caller->team->groups;
    deadline_clear(&groups->deadlines, &caller->deadline);
    caller->call = CALL_NONE;
    struct session *session = session_find(groups->tcad, caller->place->session);
    if (session)
        session->group_requests--;
    return session;
}

static void call_done(void *context, const uint8_t *data, uint64_t bytes)
{
    struct team *team = context;
    struct gathered gathered = gathered_of(data, team->roster.size, bytes);
    int members_fd = -1;

    team->uses++;
    team->met = true;
    call_over(team);
    if (team->making > 0)
        team_parts_met(team);
    for (struct caller *caller = team->callers, *next; caller; caller = next) {
        const enum call call = caller->call;
        next = caller->next;
        if (call == CALL_SURVIVES) {
            team_shrunk(caller);
            continue;
        }
        if (call == CALL_SPLITS) { /* so do all others */
            team_divide(team, data);
            break;
        }
        struct session *session = call ? team_take_caller(caller) : NULL;
        if (session && call == CALL_JOINS)
            join_done(session, caller->place, &members_fd);
        else if (session && call == CALL_MEETS)
            team_made(caller, session);
        else if (session)
            gathered_send(&gathered, session, caller);
    }
    gathered_end(&gathered);
    if (members_fd >= 0)
        close(members_fd);
    team_unuse(team);
}

void team_fail_caller(struct caller *caller, int error, const char *text)
{
    const enum call call = caller->call;
    struct session *session = team_take_caller(caller);
    team_not_made(caller);
    if (!session)
        return;
    session_fail(session, caller->tag, error, "%s", text);
    if (call == CALL_JOINS)
        join_failed(session, caller->place);
}

static void call_failed(void *context, int error, const char *reason)
{
    struct team *team = context;
    char text[NAME_MAX_BYTES + GATHER_TEXT_BYTES + 300];

    snprintf(text, sizeof(text), "group %s: %s", team->name, reason);
    team->uses++;
    call_over(team);
    for (struct caller *caller = team->callers, *next; caller; caller = next) {
        next = caller->next;
        if (caller->call == CALL_SURVIVES)
            team_not_shrunk(caller);
        else if (caller->call && caller->call != CALL_SHRINKS)
            team_fail_caller(caller, error, text);
    }
    if (team->making > 0)
        team_parts_unmade(team);
    team_unuse(team);
}

static void patience_over(void *context)
{
    struct team *team = context;
    team->uses++;
    gather_ask_expired(&team->gather);
    team_unuse(team);
}

static void set_patience(void *context, bool on)
{
    struct team *team = context;
    if (on)
        deadline_set(&team->groups->deadlines, &team->patience, clock_now_ns() + PATIENCE_NS,
                     patience_over, team);
    else
        deadline_clear(&team->groups->deadlines, &team->patience);
}

const struct gather_ops team_gather_ops = {send_message, call_begins, call_done, call_failed,
                                           set_patience};

/* A rank waits no longer: then all ranks' call fails. The root may be cut off: it ends at the
 * second time-out. */
static void call_expires(void *context)
{
    struct caller *caller = context;
    struct team *team = caller->team;
    char text[GATHER_TEXT_BYTES];

    team->uses++;
    snprintf(text, sizeof(text), "rank %" PRIu32 " has waited for %.3g s", caller->rank,
             (double)(clock_now_ns() - caller->since_ns) / 1e9);
    if (caller->call == CALL_SHRINKS) {
        snprintf(text, sizeof(text),
                 "group %s: rank %" PRIu32
                 " has waited for %.3g s: other survivors have not called "
                 "tca_group_shrink(), or no further rank has ended",
                 team->name, caller->rank, (double)(clock_now_ns() - caller->since_ns) / 1e9);
        team_shrink_late(caller);
        team_fail_caller(caller, -ETIMEDOUT, text);
    } else if (!caller->overdue) {
        caller->overdue = true;
        deadline_set(&team->groups->deadlines, &caller->deadline, clock_now_ns() + 2 * PATIENCE_NS,
                     call_expires, caller);
        gather_fail(&team->gather, caller->rank, -ETIMEDOUT, false, text);
    } else {
        snprintf(text, sizeof(text),
                 "group %s: rank %" PRIu32 " has waited for %.3g s, and node %s does not answer",
                 team->name, caller->rank, (double)(clock_now_ns() - caller->since_ns) / 1e9,
                 group_node_name(tcad_of(team), team->roster.node_at[0]));
        team_fail_caller(caller, -ETIMEDOUT, text);
    }
    team_unuse(team);
}

static int check_call(const struct caller *caller, const struct session *session, enum call call,
                      uint64_t bytes, char *ret_text, size_t text_bytes)
{
    const struct team *team = caller->team;
    if (caller->call) {
        snprintf(ret_text, text_bytes, "group %s: rank %" PRIu32 " is in a collective call already",
                 team->name, caller->rank);
        return -EBUSY;
    }
    if (session->group_requests >= GROUP_REQUESTS_MAX) {
        snprintf(ret_text, text_bytes,
                 "session %" PRIu64 " waits for %" PRIu32
                 " answers of group %s, the most that it may",
                 session->id, session->group_requests, team->name);
        return -EBUSY;
    }
    if (team->gather.broken && call != CALL_SHRINKS) {
        snprintf(ret_text, text_bytes, "group %s: %s", team->name, team->gather.why);
        return team->gather.broken;
    }
    if (bytes * team->roster.size > GATHERED_MAX_BYTES) {
        snprintf(
            ret_text, text_bytes,
            "group %s: a gather of %" PRIu64 " bytes for each of %" PRIu32
            " ranks is more than the limit of %d bytes: gather in smaller parts, or put the data",
            team->name, bytes, team->roster.size, GATHERED_MAX_BYTES);
        return -EMSGSIZE;
    }
    return 0;
}

bool team_begin_call(struct caller *caller, enum call call, uint32_t tag, uint64_t bytes,
                     uint64_t timeout_ns)
{
    const struct team *team = caller->team;
    struct session *session = session_find(tcad_of(team), caller->place->session);
    char text[2 * GATHER_TEXT_BYTES];

    int r = check_call(caller, session, call, bytes, text, sizeof(text));
    if (r < 0) {
        session_fail(session, tag, r, "%s", text);
        return false;
    }
    caller->call = call;
    caller->overdue = false;
    caller->tag = tag;
    caller->since_ns = clock_now_ns();
    session->group_requests++;
    deadline_set(&team->groups->deadlines, &caller->deadline,
                 group_deadline(caller->since_ns, timeout_ns), call_expires, caller);
    return true;
}

void team_call(struct caller *caller, enum call call, uint32_t tag, uint64_t sequence,
               const uint8_t *data, uint64_t bytes, uint32_t same_bytes, uint64_t timeout_ns)
{
    struct team *team = caller->team;

    if (!team_begin_call(caller, call, tag, bytes, timeout_ns))
        return;
    caller->same_bytes = same_bytes;
    team->uses++;
    gather_call(&team->gather, caller->rank, sequence, data, bytes);
    team_unuse(team);
}

/* ---- ends ---- */

/* Returns the team, whose use by the caller is then that of the function's caller. */
static struct team *take_out(struct caller *caller)
{
    struct team *team = caller->team;
    LIST_REMOVE(caller, next, link);
    deadline_clear(&team->groups->deadlines, &caller->deadline);
    caller->team = NULL;
    caller->call = CALL_NONE;
    return team;
}

static void leave(struct caller *caller, int error, const char *why)
{
    char text[GATHER_TEXT_BYTES];
    const uint32_t rank = caller->rank;
    struct team *team = take_out(caller);
    const struct tcad *tcad = tcad_of(team);

    snprintf(text, sizeof(text), "rank %" PRIu32 " (session %" PRIu64 " of node %s) has %s", rank,
             caller->place->session, group_node_name(tcad, tcad->node), why);
    if (!team->whole || team->met || team->from == 0)
        gather_fail(&team->gather, rank, error, true, text);
    if (!team->whole && !tcad->shutting_down) /* then all learn that the node is down */
        team_ends_rank(team, rank);
    team_settle(team);
    team_unuse(team);
}

void team_leave(struct caller *caller)
{
    if (caller->team)
        leave(caller, tcad_of(caller->team)->shutting_down ? -EHOSTDOWN : -EOWNERDEAD, "ended");
}

void team_withdraw(struct caller *caller, int error, const char *why)
{
    leave(caller, error, why);
}

void team_forget(struct caller *caller)
{
    if (caller->team)
        team_unuse(take_out(caller));
}

static void forget_team(void *context, void *owner)
{
    struct team **team = context, *other = owner;
    if (!*team || other->whole) /* parts first: they use the whole */
        *team = other;
}

void teams_free(struct groups *groups)
{
    while (groups->teams.count > 0) {
        struct team *team = NULL;
        table_each(&groups->teams, forget_team, &team);
        team_unuse(team); /* its places have left it */
    }
}

/* ---- beginning ---- */

uint32_t team_subcluster(const struct tcad *tcad, uint32_t id)
{
    const struct cluster_node *node = cluster_by_id(tcad->cluster, id);
    return node ? node->subcluster_id : id;
}

void team_answer_members(const struct team *team, struct session *session, uint32_t tag, int *memfd)
{
    const struct members *members = team->members;
    const size_t bytes = members->size * sizeof(*members->list);
    struct reach_message costs;

    reach_pack(&team->costs, &costs);
    Tca__GroupMembers body = BODY_OF(group_members, .n_costs = REACH_COUNT, .costs = costs.list);
    const Tca__Message message = MESSAGE_OF(GROUP_MEMBERS, group_members, &body);
    if (*memfd < 0 && bytes > GATHERED_INLINE_MAX)
        *memfd = frame_memfd("tca-members", members->list, bytes);
    if (*memfd >= 0)
        body.memfd_bytes = bytes;
    else
        body.members = (ProtobufCBinaryData){bytes, (uint8_t *)members->list};
    session_answer(session, tag, &message, memfd, *memfd >= 0);
}

static bool is_sound(const struct groups *groups, uint32_t node, const Tca__PeerGroupFormed *formed,
                     const struct roster *roster, uint32_t *ret_position)
{
    const uint32_t position = roster_position(roster, groups->tcad->node);
    if (position == UINT32_MAX || formed->team == 0)
        return false;
    *ret_position = position;
    const uint32_t parent = tree_find(roster->nodes, position).parent;
    return parent == TREE_NONE || roster->node_at[parent] == node;
}

void team_send_list(struct groups *groups, uint32_t node, const Tca__PeerGroupFormed *formed)
{
    const Tca__Message message =
        MESSAGE_OF(PEER_GROUP_FORMED, peer_group_formed, (Tca__PeerGroupFormed *)formed);
    team_request(groups, formed->team, node, &message, unreached); /* or who waits gives up */
}

static void pass_on(struct groups *groups, const Tca__PeerGroupFormed *formed,
                    const struct roster *roster, uint32_t position)
{
    const struct tree_place place = tree_find(roster->nodes, position);
    for (unsigned i = 0; i < place.child_count; i++)
        team_send_list(groups, roster->node_at[place.children[i].begin], formed);
}

static void list_members(const struct tcad *tcad, const struct roster *roster,
                         const uint64_t *sessions, struct group_member *ret_list)
{
    for (uint32_t rank = 0; rank < roster->size; rank++) {
        const uint32_t node = roster->node_at[roster->positions[rank]];
        ret_list[rank] = (struct group_member){
            .node = node, .subcluster = team_subcluster(tcad, node), .session = sessions[rank]};
    }
}

/* Takes over the roster. NULL: out of memory, or the user's quota is used up; text: which. */
static struct team *team_new(struct groups *groups, const Tca__PeerGroupFormed *formed,
                             struct roster *roster, uint32_t position, int *ret_error,
                             char *ret_text, size_t text_bytes)
{
    struct team *team = calloc(1, sizeof(*team));
    struct members *members = members_new(roster->size);

    *ret_error = -ENOMEM;
    snprintf(ret_text, text_bytes, "out of memory for a group of %" PRIu32, roster->size);
    if (!team || !members ||
        gather_init(&team->gather, &team_gather_ops, team, roster, position) < 0 ||
        ends_init(&team->ends, &team_ends_ops, team, roster, position) < 0) {
        if (team)
            gather_deinit(&team->gather);
        free(team);
        members_unuse(members);
        return NULL;
    }
    list_members(groups->tcad, roster, formed->sessions, members->list);
    team->groups = groups;
    team->id = formed->team;
    team->user = formed->user;
    snprintf(team->name, sizeof(team->name), "%s", formed->name);
    team->roster = *roster;
    team->ends.roster = &team->roster;
    team->position = position;
    team->members = members;
    reach_worsen(&team->costs, formed->n_costs, formed->costs);
    team->uses = 1;
    *roster = (struct roster){0};
    table_add(&groups->teams, &team->entry, team->id, team);
    const uint64_t bytes =
        sizeof(*team) + members_bytes(team->roster.size) +
        team->roster.size * (2 * sizeof(uint32_t) + sizeof(struct group_member)) +
        team->gather.rank_count * 8 + team->roster.size + team->roster.nodes * 25;
    *ret_error = charge_take(groups->tcad, &team->charge, team->user, USER_GROUPS, bytes, "a group",
                             ret_text, text_bytes);
    if (*ret_error < 0) {
        *roster = team->roster;
        team->roster = (struct roster){0};
        team_unuse(team);
        return NULL;
    }
    team->stays = true;
    team->uses++;
    return team;
}

static bool is_of(const struct place *place, const Tca__PeerGroupFormed *formed)
{
    return !place->left && place->state < PLACE_MEETS && place->user == formed->user &&
           strcmp(place->group, formed->name) == 0 && place->size == formed->n_nodes &&
           formed->sessions[place->rank] == place->session &&
           formed->nodes[place->rank] == place->groups->tcad->node;
}

/* There is no team here: whoever is above or below in the tree would wait for it. */
static void refuse(const struct groups *groups, const Tca__PeerGroupFormed *formed,
                   const struct roster *roster, uint32_t position, int error, const char *text)
{
    const struct tree_place place = tree_find(roster->nodes, position);
    Tca__PeerTeam body = BODY_OF(peer_team, .team = formed->team,
                                 .rank = roster->by_position[roster->starts[position]],
                                 .error = error, .final = true, .text = (char *)text);
    const Tca__Message message = MESSAGE_OF(PEER_TEAM, peer_team, &body);

    body.kind = GATHER_FAILED;
    for (unsigned i = 0; i < place.child_count; i++)
        peers_tell(groups->tcad->peers, roster->node_at[place.children[i].begin], &message);
    body.kind = GATHER_FAULT;
    if (place.parent != TREE_NONE)
        peers_tell(groups->tcad->peers, roster->node_at[place.parent], &message);
}

/* Ranks of this node that have ended since they joined. */
static void find_ended(struct team *team)
{
    const struct tcad *tcad = tcad_of(team);
    const struct roster *roster = &team->roster;
    char text[GATHER_TEXT_BYTES];
    for (uint32_t i = roster->starts[team->position]; i < roster->starts[team->position + 1]; i++) {
        const uint32_t rank = roster->by_position[i];
        const struct caller *caller = team->callers;
        while (caller && caller->rank != rank)
            caller = caller->next;
        if (caller)
            continue;
        snprintf(text, sizeof(text), "rank %" PRIu32 " (session %" PRIu64 " of node %s) has ended",
                 rank, team->members->list[rank].session, group_node_name(tcad, tcad->node));
        if (!team->gather.broken)
            gather_fail(&team->gather, rank, -EOWNERDEAD, true, text);
        ends_rank(&team->ends, rank);
    }
}

static void begin(struct groups *groups, const Tca__PeerGroupFormed *formed, struct roster *roster,
                  uint32_t position)
{
    char text[GATHER_TEXT_BYTES * 2];
    int r;
    struct team *team = team_new(groups, formed, roster, position, &r, text, sizeof(text));

    if (!team)
        refuse(groups, formed, roster, position, r, text);
    groups_begin_look(groups);
    for (struct place *place = groups->places; team && place; place = place->next) {
        if (!is_of(place, formed))
            continue;
        team_enter(team, &place->caller, place, place->rank);
    }
    for (struct place *place = groups->places; place; place = place->next)
        if (team ? place->caller.team == team && place->state < PLACE_MEETS : is_of(place, formed))
            join_members(place, team, r, text);
    groups_end_look(groups);
    if (!team)
        return;
    find_ended(team);
    team_settle(team);
    team_unuse(team);
}

void team_formed(struct groups *groups, uint32_t node, const Tca__PeerGroupFormed *formed)
{
    struct roster roster = {0};
    uint32_t position;

    if (formed->n_nodes == 0 || formed->n_nodes > GROUP_SIZE_MAX ||
        formed->n_sessions != formed->n_nodes || !group_name_valid(formed->name) ||
        table_find(&groups->teams, formed->team)) {
        log_warning(NULL, "node %s has sent a list of members that is not one: ignored",
                    group_node_name(groups->tcad, node));
        return;
    }
    if (roster_init(&roster, (uint32_t)formed->n_nodes, formed->nodes) < 0) {
        log_warning(NULL, "group %s: out of memory for its list of members", formed->name);
        return;
    }
    if (is_sound(groups, node, formed, &roster, &position)) {
        pass_on(groups, formed, &roster, position);
        begin(groups, formed, &roster, position); /* takes the roster */
    } else {
        log_warning(
            NULL,
            "group %s: node %s has sent a list of members that does not come from there: ignored",
            formed->name, group_node_name(groups->tcad, node));
    }
    roster_deinit(&roster);
}
