/* Coming and going. */
#include "peers.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

TestSuite(peer_ends, .init = test_setup, .fini = test_teardown, .timeout = 100);

static bool b_was_asked(void)
{
    return test.nodes[1].asked == 2;
}

static bool a_lost_b(void)
{
    return test.nodes[0].downs == 1;
}

Test(peer_ends, questions_end_when_the_node_ends)
{
    struct node *a = node_new(0), *b = node_new(1);
    expect_answer(a, 1, "hello");
    b->hold = true;
    reply = (struct reply){0};
    ask(a, 1, "never", LONG, &reply);
    run_until(b_was_asked);
    node_free(b);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    run_until(a_lost_b);
    contains(a->down_text, "node n1 (id 1) is down");

    memset(b, 0, sizeof(*b));
    node_init(1)->tcad.incarnation = 5555;
    node_open(b);
    run_for_ms(1050);
    expect_answer(a, 1, "back");
    cr_assert_eq(a->ups, 2);
    cr_assert_eq(a->incarnation_seen, 5555);
}

static struct reply local, unsent;

static void take_and_ask_again(void *context, int status, const Tca__Message *answer,
                               const char *text)
{
    reply_take(&other, status, answer, text);
    ask(context, 1, "again", LONG, &reply);
}

/* Whoever waits for a reply gets an error, wherever the request is, and may ask again. */
Test(peer_ends, questions_end_when_the_own_node_ends)
{
    struct node *a = node_new(0), *b = node_new(1);
    Tca__PeerPing ping = TCA__PEER_PING__INIT;
    const Tca__Message message = MESSAGE_OF(PEER_PING, peer_ping, &ping);
    expect_answer(a, 1, "hello");
    a->hold = b->hold = true;
    reply = other = local = unsent = (struct reply){0};
    ask(a, 1, "never", LONG, &reply);
    ask(a, 0, "own", LONG, &local);
    run_until(b_was_asked);
    ask(a, 2, "connecting", LONG, &unsent);
    peers_request(a->tcad.peers, 0, &message, LONG, take_and_ask_again, a); /* not delivered yet */

    peers_cancel(a->tcad.peers);
    const struct reply *const all[] = {&reply, &local, &unsent, &other};
    for (unsigned i = 0; i < 4; i++) {
        cr_assert_eq(all[i]->count, 1, "%u", i);
        cr_assert_eq(all[i]->status, -ECANCELED, "%u: %s", i, all[i]->text);
        contains(all[i]->text, "tcad is ending");
    }
    node_free(a);
    cr_assert_eq(reply.count, 2, "the one that was made meanwhile ends with the peers");
    cr_assert_eq(reply.status, -ECANCELED);
}

/* A node in a process of its own, which can be stopped. */
static pid_t spawn_node(unsigned id)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
    signal(SIGPIPE, SIG_IGN);         /* as in tcad: its connection may be gone when it continues */
    test.loop = loop_free(test.loop); /* its epoll is shared with the parent: only close it */
    cr_assert_eq(loop_new(&test.loop), 0);
    node_new(id);
    loop_run(test.loop);
    _exit(0);
}

/* It may not listen yet. */
static void until_there(struct node *a)
{
    do {
        run_for_ms(1050);
        reply = (struct reply){0};
        ask(a, 1, "there?", LONG, &reply);
        run_until(answered);
    } while (reply.status == -EHOSTDOWN && a->ups == 0);
}

Test(peer_ends, a_stopped_node_is_noticed)
{
    pid_t pid = spawn_node(1);
    struct node *a = node_init(0);
    a->conf.control.heartbeat_interval_ns = SECOND / 10;
    a->conf.control.heartbeat_timeout_ns = 2 * SECOND;
    node_open(a);
    until_there(a);
    cr_assert_eq(reply.status, 0, "%s", reply.text);
    run_for_ms(2500);
    cr_assert_eq(a->downs, 0, "silence with heartbeats is no silence: %s", a->down_text);

    kill(pid, SIGSTOP);
    reply = (struct reply){0};
    ask(a, 1, "hello?", LONG, &reply);
    run_until(a_lost_b);
    cr_assert_eq(a->down_error, -EHOSTDOWN);
    contains(a->down_text, "silent for");
    cr_assert_eq(reply.status, -EHOSTDOWN);

    kill(pid, SIGCONT);
    run_for_ms(1050);
    expect_answer(a, 1, "again");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A process that is late itself allows others the same delay, but not for ever. */
Test(peer_ends, who_has_no_processor_is_patient)
{
    pid_t pid = spawn_node(1);
    struct node *a = node_init(0);
    a->conf.control.heartbeat_interval_ns = SECOND / 10;
    a->conf.control.heartbeat_timeout_ns = SECOND;
    node_open(a);
    until_there(a);
    a->downs = 0;
    kill(pid, SIGSTOP);
    for (int turn = 0; turn < 6; turn++) {
        usleep(400000);  /* less than half the time-out: data that has arrived meanwhile is not */
        run_for_ms(110); /* what keeps it from being noticed */
    }
    cr_assert_eq(a->downs, 0, "it might only be late: %s", a->down_text);
    run_until(a_lost_b);
    contains(a->down_text, "silent for");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The other daemon is replaced, and this one cannot notice: the old socket stays open in a stopped
 * process. */
Test(peer_ends, a_new_incarnation_takes_the_place_of_the_old)
{
    pid_t pid = spawn_node(1);
    struct node *a = node_init(0);
    a->conf.control.heartbeat_timeout_ns = 60 * SECOND;
    a->conf.control.heartbeat_interval_ns = 20 * SECOND;
    node_open(a);
    until_there(a);
    kill(pid, SIGSTOP);

    test.ports[1] = free_port();
    struct node *b = node_init(1);
    b->tcad.incarnation = 7777;
    node_open(b);
    expect_answer(b, 0, "new here");
    cr_assert_eq(a->downs, 1);
    contains(a->down_text, "restarted");
    cr_assert_eq(a->ups, 2);
    cr_assert_eq(a->incarnation_seen, 7777);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

Test(peer_ends, a_reload_drops_who_has_left_or_moved)
{
    struct node *a = node_new(0);
    node_new(1);
    node_new(2);
    expect_answer(a, 1, "one");
    expect_answer(a, 2, "two");

    char next[512];
    test.ports[3] = free_port();
    snprintf(next, sizeof(next), "cluster = test\nn0 id=0 address=%s:%u\nn2 id=2 address=%s:%u\n",
             test.address, test.ports[0], test.address, test.ports[3]);
    struct cluster *former = a->tcad.cluster;
    a->tcad.cluster = make_cluster(next);
    peers_reload(a->tcad.peers);
    cluster_free(former);
    cr_assert_eq(a->downs, 2);
    cr_assert(!peers_is_up(a->tcad.peers, 1));
    reply = (struct reply){0};
    ask(a, 1, "gone", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EINVAL);
    reply = (struct reply){0};
    ask(a, 2, "moved", LONG, &reply);
    run_until(answered);
    cr_assert_eq(reply.status, -EHOSTDOWN);
    contains(reply.text, "refused");
}

Test(peer_ends, a_taken_port_is_an_error_that_says_so)
{
    node_new(0);
    struct node *b = node_init(1);
    b->conf.control.listen.port = test.ports[0];
    char text[512];
    struct peers *peers;
    Tca__PeerHello hello = node_hello(b);
    cr_assert_eq(peers_find_own(&b->tcad, text, sizeof(text)), 0);
    cr_assert_eq(peers_new(&b->tcad, &hello, &node_events, text, sizeof(text), &peers),
                 -EADDRINUSE);
    contains(text, "control.listen");
}
