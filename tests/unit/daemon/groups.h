/* Groups over three daemons on one loop; sessions consist of what the groups room uses. */
#pragma once

#include "nodes.h"

#include <sys/stat.h>

#include "daemon/groups/group.h"
#include "daemon/groups/group_internal.h"
#include "daemon/plans/plan.h"
#include "daemon/rails/costs.h"
#include "daemon/sessions/session.h"
#include "proto/frame_memfd.h"

/* ---- sessions ---- */

#ifndef GROUP_RANKS
#define GROUP_RANKS 8
#endif
enum { RANKS_MAX = GROUP_RANKS };

struct fake {
    struct session session;
    unsigned answers; /* of any kind */
    int status;       /* of the last one */
    char text[1024];
    uint32_t tag;
    Tca__Message *answer;
    ino_t memfd;         /* that came with it */
    int gone[RANKS_MAX]; /* source_state by rank */
    unsigned gone_ranks;
};

static inline struct fake *fake_of(struct session *session)
{
    return (struct fake *)session;
}

struct session *session_find(struct tcad *tcad, uint64_t id)
{
    for (struct session *session = tcad->sessions; session; session = session->next)
        if (session->id == id)
            return session->closing ? NULL : session;
    return NULL;
}

struct session *session_find_any(const struct tcad *tcad, uint64_t id)
{
    for (struct session *session = tcad->sessions; session; session = session->next)
        if (session->id == id)
            return session;
    return NULL;
}

static void members_known(struct session *session)
{
}

static unsigned heard_there; /* ends of sessions of other nodes, at all nodes */

static void gone_there(struct tcad *tcad, uint32_t node, uint64_t session, int error)
{
    heard_there++;
}

static const struct session_hooks hooks = {.joined = members_known, .gone_there = gone_there};

void session_answer(struct session *session, uint32_t tag, const Tca__Message *answer,
                    const int *fds, size_t fd_count)
{
    struct fake *fake = fake_of(session);
    size_t bytes = tca__message__get_packed_size(answer);
    uint8_t *packed = malloc(bytes + 1);
    tca__message__pack(answer, packed);
    if (fake->answer)
        tca__message__free_unpacked(fake->answer, NULL);
    fake->answer = tca__message__unpack(NULL, bytes, packed);
    free(packed);
    fake->memfd = 0;
    if (fd_count > 0) {
        const bool joins = answer->body_case == TCA__MESSAGE__BODY_GROUP_MEMBERS;
        ProtobufCBinaryData *data =
            joins ? &fake->answer->group_members->members : &fake->answer->gathered->blobs;
        data->len = joins ? answer->group_members->memfd_bytes : answer->gathered->memfd_bytes;
        data->data = malloc(data->len);
        cr_assert_eq(memfd_read(fds[0], data->data, data->len), 0);
        struct stat status;
        cr_assert_eq(fstat(fds[0], &status), 0);
        fake->memfd = status.st_ino;
    }
    fake->answers++;
    fake->status = 0;
    fake->tag = tag;
    fake->text[0] = '\0';
}

void session_fail(struct session *session, uint32_t tag, int error, const char *format, ...)
{
    struct fake *fake = fake_of(session);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fake->text, sizeof(fake->text), format, arguments);
    va_end(arguments);
    fake->answers++;
    fake->status = error;
    fake->tag = tag;
}

void session_sources_gone(struct session *session, const uint32_t *ranks, size_t count,
                          enum source_state state)
{
    for (size_t i = 0; i < count; i++) {
        cr_assert_lt(ranks[i], session->size);
        fake_of(session)->gone[ranks[i]] = (int)state;
        fake_of(session)->gone_ranks++;
    }
}

/* What a node has measured: node 1 the greatest latency, node 2 the greatest overhead. */
void rails_costs(const struct tcad *tcad, struct reach_costs *ret_costs)
{
    *ret_costs = (struct reach_costs){0};
    ret_costs->at[REACH_CLUSTER] = (struct reach_cost){.latency_ns = tcad->node == 1 ? 900 : 100,
                                                       .overhead_ns = 10 + tcad->node,
                                                       .small_kib_ns = 7};
}

static inline void expect_costs(const struct fake *fake, uint32_t latency_ns, uint32_t overhead_ns)
{
    const Tca__GroupMembers *list = fake->answer->group_members;
    cr_assert_eq(list->n_costs, REACH_COUNT);
    cr_assert_eq(list->costs[REACH_CLUSTER]->latency_ns, latency_ns);
    cr_assert_eq(list->costs[REACH_CLUSTER]->overhead_ns, overhead_ns);
    cr_assert_eq(list->costs[REACH_CLUSTER]->small_kib_ns, 7);
    cr_assert_eq(list->costs[REACH_NODE]->small_kib_ns, 0);
}

static struct fake fakes[RANKS_MAX];

static inline struct fake *open_session(unsigned slot, unsigned node, uint32_t sources)
{
    struct tcad *tcad = &test.nodes[node].tcad;
    struct fake *fake = &fakes[slot];
    memset(fake, 0, sizeof(*fake));
    struct session *session = &fake->session;
    session->tcad = tcad;
    session->id = ++tcad->next_session;
    session->uid = 1000;
    session->sources = sources;
    session->size = 1;
    session->root = tcad->node;
    session->self = members_new(1);
    session->self->list[0] = (struct group_member){.node = tcad->node, .session = session->id};
    session->members = members_use(session->self);
    session->next = tcad->sessions;
    tcad->sessions = session;
    return fake;
}

static inline void forget(struct fake *fake)
{
    struct session **at = &fake->session.tcad->sessions;
    while (*at != &fake->session)
        at = &(*at)->next;
    *at = fake->session.next;
    members_unuse(fake->session.members);
    members_unuse(fake->session.self);
    if (fake->answer)
        tca__message__free_unpacked(fake->answer, NULL);
    memset(fake, 0, sizeof(*fake));
}

static inline void die(struct fake *fake)
{
    fake->session.closing = true;
    group_session_gone(&fake->session);
    forget(fake);
}

/* ---- nodes ---- */

static inline void asked(void *context, uint32_t peer, uint32_t tag, const Tca__Message *question)
{
    struct node *node = context;
    node->asked++;
    if (node->hold)
        return;
    node->heard_of_gone += question->body_case == TCA__MESSAGE__BODY_PEER_GROUP_ENDS;
    node->heard_of_joins += question->body_case == TCA__MESSAGE__BODY_PEER_GROUP_JOIN;
    if (!groups_requested(node->tcad.groups, peer, tag, question))
        peers_fail(node->tcad.peers, peer, tag, -EPROTO, "unknown");
    if (node->stop_after && node->stop_after())
        loop_stop(test.loop);
}

static inline void down(void *context, uint32_t peer, int error, const char *text)
{
    struct node *node = context;
    node_down(node, peer, error, text);
    groups_node_down(node->tcad.groups, peer);
}

static const struct peers_events group_events = {.asked = asked, .up = node_up, .down = down};

static inline void start(unsigned id)
{
    struct node *node = node_init(id);
    node->conf.control.security = CONF_SECURITY_PLAIN;
    node->tcad.session_hooks = &hooks;
    cr_assert_eq(groups_new(&node->tcad, &node->tcad.groups), 0);
    Tca__PeerHello hello = node_hello(node);
    node_open_as(node, &hello, &group_events);
}

static inline void stop(unsigned id)
{
    struct node *node = &test.nodes[id];
    node_free(node);
    node->tcad.groups = groups_free(node->tcad.groups);
}

static inline void setup(void)
{
    test_setup();
    for (unsigned id = 0; id < 3; id++)
        start(id);
}

static inline void teardown(void)
{
    for (unsigned i = 0; i < RANKS_MAX; i++)
        if (fakes[i].session.tcad)
            forget(&fakes[i]);
    for (unsigned id = 0; id < NODES_MAX; id++)
        stop(id);
    test_teardown();
}

/* ---- asking ---- */

static unsigned wanted; /* replies of all sessions together */

static inline unsigned answers(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < RANKS_MAX; i++)
        count += fakes[i].answers;
    return count;
}

static inline bool all_answered(void)
{
    return answers() >= wanted;
}

static inline void await(unsigned count)
{
    wanted = count;
    run_until(all_answered);
    cr_assert_eq(answers(), count);
    for (unsigned i = 0; i < RANKS_MAX; i++)
        fakes[i].answers = 0;
}

/* local_size: of the ranks of its node, as a launcher says. */
static inline void join_of(struct fake *fake, const char *name, uint32_t rank, uint32_t size,
                           uint64_t timeout_ns, uint32_t local_size)
{
    Tca__GroupJoin body = BODY_OF(group_join, .name = (char *)name, .rank = rank, .size = size,
                                  .timeout_ns = timeout_ns, .local_size = local_size);
    group_join(&fake->session, 77, &body);
}

static inline void join(struct fake *fake, const char *name, uint32_t rank, uint32_t size,
                        uint64_t timeout_ns)
{
    join_of(fake, name, rank, size, timeout_ns, 0);
}

static inline void gather(struct fake *fake, uint64_t sequence, const void *blob, size_t bytes,
                          uint64_t timeout_ns)
{
    Tca__Gather body = BODY_OF(gather, .sequence = sequence,
                               .blob = (ProtobufCBinaryData){.len = bytes, .data = (uint8_t *)blob},
                               .timeout_ns = timeout_ns);
    group_gather(&fake->session, 78, &body);
}

static inline void publish(struct fake *fake, const char *name, int fill)
{
    uint8_t handle[HANDLE_BYTES];
    memset(handle, fill, sizeof(handle));
    Tca__Publish body =
        BODY_OF(publish, .name = (char *)name,
                .handle = (ProtobufCBinaryData){.len = fill ? sizeof(handle) : 0, .data = handle});
    group_publish(&fake->session, 79, &body);
}

static inline void look_up(struct fake *fake, const char *name, uint64_t timeout_ns)
{
    Tca__Lookup body = BODY_OF(lookup, .name = (char *)name, .timeout_ns = timeout_ns);
    group_lookup(&fake->session, 80, &body);
}

static inline void expect_fail(const struct fake *fake, int status, const char *text)
{
    cr_assert_eq(fake->status, status, "%d: %s", fake->status, fake->text);
    contains(fake->text, text);
}

/* Ranks 0 to size - 1 on nodes 0, 1, 2, 0, 1, ... in a group that node 0 coordinates. */
static inline void make_group(uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        join(open_session(rank, rank % 3, size), "g@n0", rank, size, LONG);
    await(size);
    for (uint32_t rank = 0; rank < size; rank++)
        cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
}

/* ---- the state of the root, node 0 ---- */

static inline const struct group *root_group(void)
{
    return test.nodes[0].tcad.groups->root->groups;
}

static inline bool no_group(void)
{
    return !root_group();
}

static inline bool one_joins(void)
{
    return root_group() && root_group()->joining == 1;
}

static inline bool two_join(void)
{
    return root_group() && root_group()->joining == 2;
}

/* ---- at all nodes ---- */

static inline unsigned gathering(void)
{
    unsigned count = 0;
    for (unsigned id = 0; id < 3; id++)
        for (const struct place *place =
                 test.nodes[id].tcad.groups ? test.nodes[id].tcad.groups->places : NULL;
             place; place = place->next)
            count += place->caller.call != CALL_NONE;
    return count;
}

static inline bool one_gathers(void)
{
    return gathering() == 1;
}

static inline bool two_gather(void)
{
    return gathering() == 2;
}

/* At the root of the tree, node 0. */
static inline const struct board *board(void)
{
    const struct groups *groups = test.nodes[0].tcad.groups;
    return groups && groups->places && groups->places->caller.team
               ? &groups->places->caller.team->board
               : NULL;
}

static inline bool one_published(void)
{
    return board() && board()->names.count == 1;
}

static inline bool nothing_published(void)
{
    return board() && board()->names.count == 0;
}
