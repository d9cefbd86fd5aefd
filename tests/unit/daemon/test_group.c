/* Groups over three daemons on one loop; sessions are only what groups see of them. */
#include "nodes.h"

#include "daemon/group.h"
#include "daemon/group_internal.h"
#include "daemon/session.h"

static void setup(void);
static void teardown(void);
TestSuite(group, .init = setup, .fini = teardown, .timeout = 60);

/* ---- sessions ---- */

enum { RANKS_MAX = 8 };

struct fake {
    struct session session;
    unsigned answers;   /* of any kind */
    int status;         /* of the last one */
    char text[1024];
    uint32_t tag;
    Tca__Message *answer;
    int gone[RANKS_MAX]; /* source_state by rank */
    unsigned gone_calls;
};

static struct fake *fake_of(struct session *session)
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

void session_answer(struct session *session, uint32_t tag, const Tca__Message *answer, const int *fds, size_t fd_count)
{
    struct fake *fake = fake_of(session);
    size_t bytes = tca__message__get_packed_size(answer);
    uint8_t *packed = malloc(bytes + 1);
    tca__message__pack(answer, packed);
    if (fake->answer)
        tca__message__free_unpacked(fake->answer, NULL);
    fake->answer = tca__message__unpack(NULL, bytes, packed);
    free(packed);
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
    vsnprintf(fake->text, sizeof fake->text, format, arguments);
    va_end(arguments);
    fake->answers++;
    fake->status = error;
    fake->tag = tag;
}

void session_source_gone(struct session *session, uint32_t rank, enum source_state state)
{
    cr_assert_lt(rank, session->size);
    fake_of(session)->gone[rank] = (int)state;
    fake_of(session)->gone_calls++;
}

static struct fake fakes[RANKS_MAX];

static struct fake *open_session(unsigned slot, unsigned node, uint32_t sources)
{
    struct tcad *tcad = &test.nodes[node].tcad;
    struct fake *fake = &fakes[slot];
    memset(fake, 0, sizeof *fake);
    struct session *session = &fake->session;
    session->tcad = tcad;
    session->id = ++tcad->next_session;
    session->uid = 1000;
    session->sources = sources;
    session->size = 1;
    session->root = tcad->node;
    session->members = calloc(sources, sizeof *session->members);
    session->members[0] = (struct session_member){tcad->node, session->id, tcad->incarnation, true};
    session->next = tcad->sessions;
    tcad->sessions = session;
    return fake;
}

static void forget(struct fake *fake)
{
    struct session **at = &fake->session.tcad->sessions;
    while (*at != &fake->session)
        at = &(*at)->next;
    *at = fake->session.next;
    free(fake->session.members);
    if (fake->answer)
        tca__message__free_unpacked(fake->answer, NULL);
    memset(fake, 0, sizeof *fake);
}

static void die(struct fake *fake)
{
    fake->session.closing = true;
    group_session_gone(&fake->session);
    forget(fake);
}

/* ---- nodes ---- */

static void asked(void *context, uint32_t peer, uint32_t tag, const Tca__Message *question)
{
    struct node *node = context;
    if (question->body_case == TCA__MESSAGE__BODY_PEER_SESSION_GONE)
        groups_session_gone(node->tcad.groups, peer, question->peer_session_gone);
    else if (!groups_asked(node->tcad.groups, peer, tag, question))
        peers_fail(node->tcad.peers, peer, tag, -EPROTO, "unknown");
}

static void down(void *context, uint32_t peer, int error, const char *text)
{
    struct node *node = context;
    node_down(node, peer, error, text);
    groups_node_down(node->tcad.groups, peer);
}

static const struct peers_events group_events = {.asked = asked, .up = node_up, .down = down};

static void start(unsigned id)
{
    struct node *node = node_init(id);
    node->conf.control.security = CONF_SECURITY_PLAIN;
    cr_assert_eq(groups_new(&node->tcad, &node->tcad.groups), 0);
    Tca__PeerHello hello = node_hello(node);
    node_open_as(node, &hello, &group_events);
}

static void stop(unsigned id)
{
    struct node *node = &test.nodes[id];
    node_free(node);
    node->tcad.groups = groups_free(node->tcad.groups);
}

static void setup(void)
{
    test_setup();
    for (unsigned id = 0; id < 3; id++)
        start(id);
}

static void teardown(void)
{
    for (unsigned i = 0; i < RANKS_MAX; i++)
        if (fakes[i].session.tcad)
            forget(&fakes[i]);
    for (unsigned id = 0; id < NODES_MAX; id++)
        stop(id);
    test_teardown();
}

/* ---- asking ---- */

static unsigned wanted; /* answers of all sessions together */

static unsigned answers(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < RANKS_MAX; i++)
        count += fakes[i].answers;
    return count;
}

static bool all_answered(void)
{
    return answers() >= wanted;
}

static void await(unsigned count)
{
    wanted = count;
    run_until(all_answered);
    cr_assert_eq(answers(), count);
    for (unsigned i = 0; i < RANKS_MAX; i++)
        fakes[i].answers = 0;
}

static void join(struct fake *fake, const char *name, uint32_t rank, uint32_t size, uint64_t timeout_ns)
{
    Tca__GroupJoin body = TCA__GROUP_JOIN__INIT;
    body.name = (char *)name;
    body.rank = rank;
    body.size = size;
    body.timeout_ns = timeout_ns;
    group_join(&fake->session, 77, &body);
}

static void gather(struct fake *fake, uint64_t sequence, const void *blob, size_t bytes, uint64_t timeout_ns)
{
    Tca__Gather body = TCA__GATHER__INIT;
    body.sequence = sequence;
    body.blob = (ProtobufCBinaryData){.len = bytes, .data = (uint8_t *)blob};
    body.timeout_ns = timeout_ns;
    group_gather(&fake->session, 78, &body);
}

static void publish(struct fake *fake, const char *name, int fill)
{
    uint8_t handle[HANDLE_BYTES];
    memset(handle, fill, sizeof handle);
    Tca__Publish body = TCA__PUBLISH__INIT;
    body.name = (char *)name;
    body.handle = (ProtobufCBinaryData){.len = fill ? sizeof handle : 0, .data = handle};
    group_publish(&fake->session, 79, &body);
}

static void look_up(struct fake *fake, const char *name, uint64_t timeout_ns)
{
    Tca__Lookup body = TCA__LOOKUP__INIT;
    body.name = (char *)name;
    body.timeout_ns = timeout_ns;
    group_lookup(&fake->session, 80, &body);
}

static void expect_fail(const struct fake *fake, int status, const char *text)
{
    cr_assert_eq(fake->status, status, "%d: %s", fake->status, fake->text);
    contains(fake->text, text);
}

/* Ranks 0 to size - 1 on nodes 0, 1, 2, 0, 1, ... in a group that meets at node 0. */
static void make_group(uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        join(open_session(rank, rank % 3, size), "g@n0", rank, size, 10 * SECOND);
    await(size);
    for (uint32_t rank = 0; rank < size; rank++)
        cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
}

/* ---- joining ---- */

Test(group, members_find_each_other)
{
    make_group(5);
    for (uint32_t rank = 0; rank < 5; rank++) {
        const struct session *session = &fakes[rank].session;
        cr_assert_eq(fakes[rank].tag, 77);
        cr_assert(session->joined);
        cr_assert_str_eq(session->group, "g");
        cr_assert_eq(session->rank, rank);
        cr_assert_eq(session->size, 5);
        cr_assert_eq(session->root, 0);
        const Tca__GroupMembers *list = fakes[rank].answer->group_members;
        cr_assert_eq(list->n_members, 5);
        for (uint32_t i = 0; i < 5; i++) {
            cr_assert(session->members[i].known);
            cr_assert_eq(session->members[i].node, i % 3);
            cr_assert_eq(session->members[i].session, fakes[i].session.id);
            cr_assert_eq(session->members[i].incarnation, 1000 + i % 3);
            cr_assert_eq(list->members[i]->session, fakes[i].session.id);
        }
    }
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 1);
    cr_assert_eq(groups_count(test.nodes[1].tcad.groups), 0);

    join(&fakes[0], "other", 0, 1, SECOND);
    await(1);
    expect_fail(&fakes[0], -EALREADY, "in a group already");
    for (uint32_t rank = 0; rank < 5; rank++)
        die(&fakes[rank]);
    run_for_ms(200);
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0, "a group ends with its last member");
}

Test(group, a_name_meets_at_the_same_node_for_all)
{
    char name[NAME_MAX_BYTES], text[GROUP_TEXT_MAX], full[NAME_MAX_BYTES];
    unsigned met[4] = {0};
    for (unsigned i = 0; i < 400; i++) {
        uint32_t root[2];
        snprintf(full, sizeof full, "job-%u", i);
        for (unsigned node = 0; node < 2; node++)
            cr_assert_eq(group_place(&test.nodes[node].tcad, 1000, full, name, &root[node], text, sizeof text), 0);
        cr_assert_eq(root[0], root[1]);
        met[root[0]]++;
    }
    for (unsigned node = 0; node < 4; node++)
        cr_assert_gt(met[node], 50, "the groups are spread over the nodes");
}

Test(group, wrong_names_and_numbers_are_said)
{
    struct fake *fake = open_session(0, 1, 4);
    struct { const char *name; uint32_t rank, size; const char *text; } wrong[] = {
        {"", 0, 4, "1 to 63 bytes"},
        {"a\nb", 0, 4, "plain text"},
        {"0123456789012345678901234567890123456789012345678901234567890123", 0, 4, "1 to 63 bytes, "},
        {"g@nowhere", 0, 4, "\"nowhere\": the cluster file has no such node"},
        {"g@9", 0, 4, "no such node"},
        {"g", 4, 4, "rank 4 of 4 cannot be"},
        {"g", 0, 0, "rank 0 of 0 cannot be"},
        {"g", 0, 5, "opened for at most 4"},
    };
    wrong[2].text = "1 to 63 bytes";
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        join(fake, wrong[i].name, wrong[i].rank, wrong[i].size, SECOND);
        await(1);
        expect_fail(fake, -EINVAL, wrong[i].text);
    }
    gather(fake, 1, "", 0, SECOND);
    await(1);
    expect_fail(fake, -EINVAL, "has not joined a group");
}

Test(group, who_did_not_come_is_named)
{
    for (unsigned i = 0; i < 3; i++)
        join(open_session(i, i, 8), "late@0", i == 0 ? 0 : i == 1 ? 3 : 4, 8, SECOND / 3);
    await(3);
    for (unsigned i = 0; i < 3; i++) {
        expect_fail(&fakes[i], -ETIMEDOUT, "ranks 1-2,5-7 of 8 did not come within 0.3");
        cr_assert(!fakes[i].session.joined);
        cr_assert_eq(fakes[i].session.size, 1);
    }
    run_for_ms(120);
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0);
    join(&fakes[0], "late@0", 0, 1, SECOND);
    await(1);
    cr_assert_eq(fakes[0].status, 0, "one may try again: %s", fakes[0].text);
}

Test(group, twice_the_same_rank_is_refused)
{
    join(open_session(0, 1, 2), "g@0", 1, 2, 5 * SECOND);
    run_for_ms(100);
    join(open_session(1, 2, 2), "g@0", 1, 2, 5 * SECOND);
    await(1);
    expect_fail(&fakes[1], -EEXIST, "rank 1 (session 1 of node n1) was there first; session 1 of node n2");
    join(&fakes[1], "g@0", 0, 2, 5 * SECOND);
    await(2);
    cr_assert_eq(fakes[0].status, 0);
    cr_assert_eq(fakes[1].status, 0, "%s", fakes[1].text);

    join(open_session(2, 0, 2), "g@0", 0, 2, 5 * SECOND);
    await(1);
    expect_fail(&fakes[2], -EEXIST, "ranks 0-1 of 2 have not ended");
}

Test(group, members_agree_on_the_size)
{
    join(open_session(0, 1, 4), "g@0", 0, 2, 5 * SECOND);
    run_for_ms(100);
    join(open_session(1, 2, 4), "g@0", 1, 3, 5 * SECOND);
    await(1);
    expect_fail(&fakes[1], -EINVAL, "rank 0 (session 1 of node n1) says there are 2 ranks");
    contains(fakes[1].text, "rank 1 (session 1 of node n2) says 3");
}

Test(group, users_do_not_meet)
{
    join(open_session(0, 1, 2), "g@0", 0, 2, SECOND / 3);
    open_session(1, 2, 2)->session.uid = 1001;
    join(&fakes[1], "g@0", 1, 2, SECOND / 3);
    await(2);
    expect_fail(&fakes[0], -ETIMEDOUT, "rank 1 of 2");
    expect_fail(&fakes[1], -ETIMEDOUT, "rank 0 of 2");
}

Test(group, a_user_has_so_many_groups)
{
    char name[32];
    test.nodes[0].conf.limits.groups_per_user = 2;
    for (unsigned i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "g%u@0", i);
        join(open_session(i, 1, 1), name, 0, 1, SECOND);
        await(1);
    }
    cr_assert_eq(fakes[1].status, 0);
    expect_fail(&fakes[2], -EDQUOT, "user 1000 has 2 groups that meet at node n0, the limit (limits.groups_per_user)");
}

Test(group, a_root_that_is_down_is_named)
{
    join(open_session(0, 1, 2), "g@n3", 0, 2, SECOND);
    await(1);
    expect_fail(&fakes[0], -EHOSTDOWN, "group g meets at node n3, which is down: start it, or name another meeting place (g@NODE)");
    cr_assert(!fakes[0].session.joined);
}

/* ---- alone ---- */

Test(group, a_session_alone_needs_nobody)
{
    struct fake *fake = open_session(0, 1, 1);
    join(fake, "", 0, 1, SECOND);
    await(1);
    cr_assert_eq(fake->answer->group_members->n_members, 1);
    gather(fake, 1, "blob", 4, SECOND);
    await(1);
    cr_assert_eq(fake->answer->gathered->n_blobs, 1);
    cr_assert_eq(memcmp(fake->answer->gathered->blobs[0].data, "blob", 4), 0);
    look_up(fake, "x", SECOND);
    await(1);
    expect_fail(fake, -ENOENT, "\"x\"");
    publish(fake, "x", 7);
    await(1);
    cr_assert_eq(fake->answer->body_case, TCA__MESSAGE__BODY_DONE);
    publish(fake, "x", 8);
    await(1);
    cr_assert_eq(fake->answer->body_case, TCA__MESSAGE__BODY_DONE);
    look_up(fake, "x", 0);
    await(1);
    cr_assert_eq(fake->answer->found->handle.data[63], 8);
    publish(fake, "x", 0);
    await(1);
    cr_assert_eq(fake->status, 0);
    publish(fake, "x", 0);
    await(1);
    expect_fail(fake, -ENOENT, "\"x\"");
    cr_assert_eq(test.nodes[1].ups, 0);
    die(fake);
}

/* ---- gathering ---- */

Test(group, everybody_gets_every_blob)
{
    make_group(4);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t rank = 0; rank < 4; rank++) {
            uint32_t value = 100 * round + rank;
            gather(&fakes[rank], round, &value, sizeof value, 5 * SECOND);
        }
        await(4);
        for (uint32_t rank = 0; rank < 4; rank++) {
            const Tca__Gathered *gathered = fakes[rank].answer->gathered;
            cr_assert_eq(gathered->n_blobs, 4);
            for (uint32_t i = 0; i < 4; i++) {
                uint32_t value = 100 * round + i;
                cr_assert_eq(memcmp(gathered->blobs[i].data, &value, sizeof value), 0);
            }
        }
    }
}

Test(group, a_gather_has_limits)
{
    static char blob[BLOB_MAX_BYTES + 1];
    make_group(2);
    gather(&fakes[0], 0, blob, sizeof blob, SECOND);
    await(1);
    expect_fail(&fakes[0], -EMSGSIZE, "at most 4096 bytes");
    gather(&fakes[0], 0, blob, BLOB_MAX_BYTES, SECOND);
    gather(&fakes[0], 0, blob, BLOB_MAX_BYTES, SECOND);
    await(1);
    expect_fail(&fakes[0], -EBUSY, "rank 0 is in a collective call already");
    gather(&fakes[1], 0, blob, BLOB_MAX_BYTES, SECOND);
    await(2);
    cr_assert_eq(fakes[0].status, 0);
}

Test(group, different_calls_fail_for_all)
{
    make_group(3);
    gather(&fakes[1], 5, "", 0, 5 * SECOND);
    run_for_ms(100);
    gather(&fakes[2], 6, "", 0, 5 * SECOND);
    await(2);
    expect_fail(&fakes[1], -EPROTO, "rank 1 makes collective call 5 with 0 bytes, rank 2 call 6 with 0 bytes");
    expect_fail(&fakes[2], -EPROTO, "rank 1 makes collective call 5");
    gather(&fakes[0], 7, "ab", 2, 5 * SECOND);
    run_for_ms(100);
    gather(&fakes[1], 7, "abc", 3, 5 * SECOND);
    await(2);
    expect_fail(&fakes[0], -EPROTO, "rank 0 makes collective call 7 with 2 bytes, rank 1 call 7 with 3 bytes");
}

Test(group, who_is_late_for_a_gather_is_named)
{
    make_group(4);
    gather(&fakes[2], 0, "", 0, SECOND / 3);
    await(1);
    expect_fail(&fakes[2], -ETIMEDOUT, "collective call 0: ranks 0-1,3 of 4 did not come within 0.3");
    for (uint32_t rank = 0; rank < 4; rank++)
        gather(&fakes[rank], 0, "", 0, 5 * SECOND);
    await(4);
    cr_assert_eq(fakes[2].status, 0, "%s", fakes[2].text);
}

/* ---- publishing ---- */

static void count_published(void *context, const char *group, const char *name, const uint8_t handle[64])
{
    cr_assert_str_eq(group, "g");
    ++*(unsigned *)context;
}

static unsigned published_at(unsigned node)
{
    unsigned count = 0;
    groups_published(test.nodes[node].tcad.groups, count_published, &count);
    return count;
}

Test(group, what_is_published_is_found)
{
    make_group(3);
    look_up(&fakes[2], "halo", 10 * SECOND);
    look_up(&fakes[0], "halo", 0);
    await(1);
    expect_fail(&fakes[0], -ENOENT, "\"halo\"");
    publish(&fakes[1], "halo", 9);
    await(2);
    cr_assert_eq(fakes[1].answer->body_case, TCA__MESSAGE__BODY_DONE);
    cr_assert_eq(fakes[2].answer->found->handle.data[0], 9);
    cr_assert_eq(published_at(1), 1);

    publish(&fakes[1], "halo", 10);
    await(1);
    cr_assert_eq(fakes[1].answer->body_case, TCA__MESSAGE__BODY_DONE);
    look_up(&fakes[2], "halo", 0);
    await(1);
    cr_assert_eq(fakes[2].answer->found->handle.data[0], 10);
    cr_assert_eq(published_at(1), 1);
    publish(&fakes[2], "halo", 8);
    await(1);
    expect_fail(&fakes[2], -EEXIST, "published by node n1 already");
    publish(&fakes[2], "halo", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "this session has nothing published");
    look_up(&fakes[0], "nothing", SECOND / 3);
    await(1);
    expect_fail(&fakes[0], -ETIMEDOUT, "nobody has published \"nothing\" within 0.3");

    publish(&fakes[1], "halo", 0);
    await(1);
    cr_assert_eq(fakes[1].status, 0);
    cr_assert_eq(published_at(1), 0);
    look_up(&fakes[0], "halo", 0);
    await(1);
    expect_fail(&fakes[0], -ENOENT, "\"halo\"");
}

Test(group, a_group_publishes_so_much)
{
    char name[16];
    make_group(2);
    test.nodes[0].conf.limits.published_per_group = 3;
    for (unsigned i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "h%u", i);
        publish(&fakes[i % 2], name, 1);
        await(1);
    }
    expect_fail(&fakes[1], -EDQUOT, "group g has 3 handles published, the limit (limits.published_per_group)");
}

Test(group, what_a_session_published_goes_with_it)
{
    make_group(3);
    publish(&fakes[1], "halo", 9);
    await(1);
    die(&fakes[1]);
    run_for_ms(100);
    look_up(&fakes[2], "halo", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "\"halo\"");
}

/* ---- deaths ---- */

static bool others_know(void)
{
    return fakes[0].gone[1] && fakes[2].gone[1] && fakes[3].gone[1];
}

Test(group, a_death_is_told_to_all)
{
    make_group(4); /* rank 1 on node 1; node 2 has no connection to node 1, only the root has */
    cr_assert(!peers_is_up(test.nodes[1].tcad.peers, 2));
    gather(&fakes[0], 0, "", 0, 20 * SECOND);
    gather(&fakes[2], 0, "", 0, 20 * SECOND);
    run_for_ms(100);
    die(&fakes[1]);
    await(2);
    expect_fail(&fakes[0], -EOWNERDEAD, "rank 1 (session 1 of node n1) has gone");
    expect_fail(&fakes[2], -EOWNERDEAD, "rank 1 (session 1 of node n1) has gone");
    run_until(others_know);
    run_for_ms(100);
    for (unsigned rank = 0; rank < 4; rank++) {
        if (rank == 1)
            continue;
        cr_assert_eq(fakes[rank].gone[1], SOURCE_DEAD);
        cr_assert_eq(fakes[rank].gone_calls, 1, "once, and only rank 1");
    }
    gather(&fakes[3], 1, "", 0, 5 * SECOND);
    await(1);
    expect_fail(&fakes[3], -EOWNERDEAD, "rank 1 of 4 gone");
}

Test(group, a_death_while_joining_ends_the_join)
{
    for (unsigned rank = 0; rank < 2; rank++)
        join(open_session(rank, rank, 3), "g@0", rank, 3, 20 * SECOND);
    run_for_ms(100);
    die(&fakes[1]);
    await(1);
    expect_fail(&fakes[0], -EOWNERDEAD, "rank 1 (session 1 of node n1) has gone before the group was complete");
    cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0);
}

/* The word of the death must not overtake the question: neither in the loop of the root's own node nor in a queue for a connection. */
Test(group, a_death_with_the_question_on_its_way_is_no_ghost)
{
    for (unsigned node = 0; node < 2; node++) {
        join(open_session(0, node, 2), "g@0", 0, 2, 20 * SECOND);
        die(&fakes[0]);
        run_for_ms(100);
        cr_assert_eq(groups_count(test.nodes[0].tcad.groups), 0, "node %u", node);
    }
    make_group(2);
}

Test(group, a_node_down_is_told_to_all)
{
    make_group(4);
    publish(&fakes[1], "halo", 9);
    await(1);
    gather(&fakes[0], 0, "", 0, 20 * SECOND);
    gather(&fakes[2], 0, "", 0, 20 * SECOND);
    run_for_ms(100);
    forget(&fakes[1]);
    stop(1);
    await(2);
    expect_fail(&fakes[0], -EHOSTDOWN, "rank 1 (session 1 of node n1) has gone");
    expect_fail(&fakes[2], -EHOSTDOWN, "rank 1 (session 1 of node n1) has gone");
    run_until(others_know);
    cr_assert_eq(fakes[0].gone[1], SOURCE_NODE_DOWN);
    cr_assert_eq(fakes[2].gone[1], SOURCE_NODE_DOWN);
    look_up(&fakes[2], "halo", 0);
    await(1);
    expect_fail(&fakes[2], -ENOENT, "\"halo\"");
}

static bool root_lost(void)
{
    return fakes[1].gone[0] && fakes[2].gone[0];
}

Test(group, without_its_root_a_group_fails_with_a_text)
{
    make_group(3);
    gather(&fakes[1], 0, "", 0, 20 * SECOND);
    run_for_ms(100);
    forget(&fakes[0]);
    stop(0);
    await(1);
    expect_fail(&fakes[1], -EHOSTDOWN, "group g meets at node n0, which is down");
    run_until(root_lost);
    cr_assert_eq(fakes[1].gone[0], SOURCE_NODE_DOWN);

    start(0);
    run_for_ms(1050);
    gather(&fakes[1], 0, "", 0, 5 * SECOND);
    await(1);
    expect_fail(&fakes[1], -ENOENT, "has it been restarted since?");
    die(&fakes[1]);
    die(&fakes[2]);
}

/* ---- hostile peers ---- */

static struct reply reply;

static bool replied(void)
{
    return reply.count == 1;
}

static void expect_reply(unsigned from, const Tca__Message *question, int status)
{
    reply = (struct reply){0};
    peers_ask(test.nodes[from].tcad.peers, 0, question, 5 * SECOND, reply_take, &reply);
    run_until(replied);
    cr_assert_eq(reply.status, status, "%s", reply.text);
}

Test(group, the_root_believes_nothing)
{
    make_group(3);
    Tca__PeerGather body = TCA__PEER_GATHER__INIT;
    Tca__Message message = TCA__MESSAGE__INIT;
    message.body_case = TCA__MESSAGE__BODY_PEER_GATHER;
    message.peer_gather = &body;
    body.group = (char *)"g";
    body.user = 1000;
    body.rank = 1; /* of another node */
    expect_reply(2, &message, -ENOENT);
    body.rank = UINT32_MAX;
    expect_reply(2, &message, -ENOENT);
    body.rank = 2;
    body.group = (char *)"no such group";
    expect_reply(2, &message, -ENOENT);
    body.group = (char *)"g";
    static uint8_t blob[BLOB_MAX_BYTES + 1];
    body.blob = (ProtobufCBinaryData){.len = sizeof blob, .data = blob};
    expect_reply(2, &message, -EMSGSIZE);

    Tca__PeerGroupJoin ask_join = TCA__PEER_GROUP_JOIN__INIT;
    message.body_case = TCA__MESSAGE__BODY_PEER_GROUP_JOIN;
    message.peer_group_join = &ask_join;
    ask_join.name = (char *)"x";
    ask_join.size = UINT32_MAX;
    ask_join.session = 1;
    expect_reply(2, &message, -EINVAL);
    ask_join.size = 2;
    ask_join.rank = 2;
    expect_reply(2, &message, -EINVAL);
    ask_join.rank = 0;
    ask_join.name = (char *)"0123456789012345678901234567890123456789012345678901234567890123";
    expect_reply(2, &message, -EINVAL);

    Tca__PeerPublish ask_publish = TCA__PEER_PUBLISH__INIT;
    message.body_case = TCA__MESSAGE__BODY_PEER_PUBLISH;
    message.peer_publish = &ask_publish;
    ask_publish.group = (char *)"g";
    ask_publish.user = 1001;
    ask_publish.name = (char *)"halo";
    ask_publish.handle = (ProtobufCBinaryData){.len = 63, .data = blob};
    expect_reply(2, &message, -ENOENT);
    ask_publish.user = 1000;
    expect_reply(2, &message, -EINVAL);
    ask_publish.handle.len = 64;
    ask_publish.name = (char *)"";
    expect_reply(2, &message, -EINVAL);

    /* Node 2 says that rank 1 has gone, which is not its to say. */
    Tca__PeerSessionGone gone = TCA__PEER_SESSION_GONE__INIT;
    message.body_case = TCA__MESSAGE__BODY_PEER_SESSION_GONE;
    message.peer_session_gone = &gone;
    gone.group = (char *)"g";
    gone.user = 1000;
    gone.rank = 1;
    gone.session = fakes[1].session.id;
    peers_tell(test.nodes[2].tcad.peers, 0, &message);
    gone.rank = UINT32_MAX;
    peers_tell(test.nodes[2].tcad.peers, 0, &message);
    run_for_ms(100);
    for (uint32_t rank = 0; rank < 3; rank++) {
        cr_assert_eq(fakes[rank].gone_calls, 0);
        gather(&fakes[rank], 0, "", 0, 5 * SECOND);
    }
    await(3);
    for (uint32_t rank = 0; rank < 3; rank++)
        cr_assert_eq(fakes[rank].status, 0, "%s", fakes[rank].text);
}
