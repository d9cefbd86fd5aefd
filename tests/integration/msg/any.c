/*
 * msg-any SEED [reversed|ended]: messages of several contexts to receives from any rank and of any
 * tag, found by probes, and taken; some are sent synchronously, some receives are cancelled and
 * made again. All ranks draw the same messages. Each receive must get one that it takes, and that
 * nobody was to get before: of two receives that take both of two messages of a rank, the one made
 * first gets the one sent first. reversed: in a group that has the ranks in reverse order. ended:
 * rank 1 is killed while the others receive from any. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/include/tca-group.h"
#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum {
    MESSAGES = 120 /* of all ranks, in a round */,
    ROUNDS = 16,
    BYTES_MAX = 9000,
    FULL = 16, /* messages of a rank that another one has not taken */
    ODD_TAGS = 100,
    TAKEN = 4, /* messages, until they are received */
};

static const uint32_t contexts[] = {0, 1, UINT32_MAX};
enum plan { POST, PROBE, TAKE }; /* how the messages of a round are received */

struct message {
    uint32_t from, to, tag, context, bytes, flags;
};

static struct random numbers, delays;
static struct tca *session;
static struct tca_msg *msg;
static uint32_t size;
static struct message messages[MESSAGES];
static struct tca_msg_request *sends[MESSAGES], *receives[MESSAGES];
static uint32_t (*sent)[BYTES_MAX / 4], (*got)[BYTES_MAX / 4]; /* [MESSAGES] */
static struct tca_msg_envelope patterns[MESSAGES];             /* of receives */

/* Messages of ranks with odd numbers are received with any tag, the others' by tag: from their rank
 * below tag 4, from any above. So that none takes what another one is left without. */
static void draw(void)
{
    static const uint32_t sizes[] = {4, 16, 200, 2032, 2036, BYTES_MAX};
    for (uint32_t i = 0; i < MESSAGES; i++) {
        messages[i].from = (uint32_t)random_below(&numbers, size);
        messages[i].to = (uint32_t)random_below(&numbers, size);
        messages[i].tag = (messages[i].from & 1) * ODD_TAGS + (uint32_t)random_below(&numbers, 8);
        messages[i].context = contexts[random_below(&numbers, 3)];
        messages[i].bytes = sizes[random_below(&numbers, 6)];
        messages[i].flags = random_below(&numbers, 4) ? 0 : TCA_MSG_SYNCHRONOUS;
    }
}

static struct tca_msg_envelope choose(const struct message *message)
{
    const bool odd = message->tag >= ODD_TAGS;
    return (struct tca_msg_envelope){
        .rank = !odd && message->tag >= 4 ? TCA_MSG_ANY : message->from,
        .tag = odd ? TCA_MSG_ANY : message->tag,
        .context = message->context,
    };
}

static struct tca_msg_envelope any_of(uint32_t context)
{
    return (struct tca_msg_envelope){.rank = TCA_MSG_ANY, .tag = TCA_MSG_ANY, .context = context};
}

static bool takes(const struct tca_msg_envelope *pattern, const struct message *message)
{
    return (pattern->rank == TCA_MSG_ANY || pattern->rank == message->from) &&
           (pattern->tag == TCA_MSG_ANY || pattern->tag == message->tag) &&
           pattern->context == message->context;
}

static void send_one(uint32_t i)
{
    const struct tca_msg_buffer buffer = {sent[i], messages[i].bytes, NULL};
    sent[i][0] = i;
    for (uint32_t n = 1; n < messages[i].bytes / 4; n++)
        sent[i][n] = i * 7 + n;
    const struct tca_msg_envelope to = {.rank = messages[i].to,
                                        .tag = messages[i].tag,
                                        .context = messages[i].context,
                                        .flags = messages[i].flags};
    check(tca_msg_send_to(msg, &to, &buffer, &sends[i]), "send");
}

static void receive(uint32_t n, struct tca_msg_envelope from)
{
    const struct tca_msg_buffer buffer = {got[n], BYTES_MAX, NULL};
    patterns[n] = from;
    check(tca_msg_recv_from(msg, &from, &buffer, &receives[n]), "receive");
}

/* Cancels a receive, while its message may be on its way, and makes another one in its place if it
 * has not got it. */
static void cancel(uint32_t n)
{
    for (uint64_t calls = random_below(&delays, 4); calls > 0; calls--)
        tca_msg_progress(msg);
    if (!tca_msg_cancel(receives[n]))
        return;
    expect(tca_msg_is_done(receives[n]), -ECANCELED, "was cancelled", "a cancelled receive");
    expect(tca_msg_wait(receives[n], TCA_DEFAULT), -ECANCELED, "was cancelled", "waiting for it");
    expect(tca_msg_cancel(receives[n]), 0, NULL, "cancelling it again");
    tca_msg_release(receives[n]);
    memset(got[n], 0xff, 8); /* not written any more, unless by a later message */
    receive(n, patterns[n]);
}

static void same(uint32_t n, const struct tca_msg_status *found)
{
    struct tca_msg_status status;
    check(tca_msg_wait(receives[n], TCA_DEFAULT), "wait");
    tca_msg_status(receives[n], &status);
    expect(status.rank == found->rank && status.tag == found->tag && status.bytes == found->bytes,
           1, NULL, "what the probe has found");
}

/* A probe for any message of a context, then a receive of just that one. */
static void probe(uint32_t n, uint32_t context)
{
    const struct tca_msg_envelope any = any_of(context);
    struct tca_msg_status found;
    check(tca_msg_probe_from(msg, &any, TCA_DEFAULT, &found), "probe");
    receive(n, (struct tca_msg_envelope){.rank = found.rank, .tag = found.tag, .context = context});
    same(n, &found);
    patterns[n] = any;
}

/* Takes some messages and receives them, the last one first. */
static void take(uint32_t n, uint32_t count, const uint32_t of[])
{
    struct tca_msg_message *taken[TAKEN];
    struct tca_msg_status found[TAKEN];
    for (uint32_t i = 0; i < count; i++) {
        const struct message *message = &messages[of[i]];
        patterns[n + i] = message->context ? choose(message) : any_of(0);
        check(tca_msg_take(msg, &patterns[n + i], TCA_DEFAULT, &taken[i], &found[i]), "take");
    }
    for (uint32_t i = count; i-- > 0;) {
        const struct tca_msg_buffer none = {NULL, 8, NULL}, room = {got[n + i], BYTES_MAX, NULL};
        expect(tca_msg_recv_message(taken[i], &none, &receives[n + i]), -EINVAL, "is NULL",
               "a receive of a taken message without memory");
        check(tca_msg_recv_message(taken[i], &room, &receives[n + i]), "receive what was taken");
        same(n + i, &found[i]);
    }
}

/* The message that a receive has got. */
static const struct message *message_of(uint32_t n)
{
    const uint32_t i = got[n][0];
    struct tca_msg_status status;
    expect(i < MESSAGES && messages[i].to == rank, 1, NULL, "a message of this rank");
    tca_msg_status(receives[n], &status);
    expect(status.rank, messages[i].from, NULL, "its rank");
    expect(status.tag, messages[i].tag, NULL, "its tag");
    expect((long)status.bytes, messages[i].bytes, NULL, "its length");
    for (uint32_t k = 1; k < messages[i].bytes / 4; k++)
        expect(got[n][k], i * 7 + k, NULL, "its content");
    expect(takes(&patterns[n], &messages[i]), 1, NULL, "a receive that takes it");
    return &messages[i];
}

static void judge(uint32_t count)
{
    const struct message *of[MESSAGES];
    for (uint32_t later = 0; later < count; later++) {
        of[later] = message_of(later);
        for (uint32_t first = 0; first < later; first++) {
            const struct message *a = of[first], *b = of[later];
            expect(a == b, 0, NULL, "a message received twice");
            expect(b < a && a->from == b->from && takes(&patterns[first], b), 0, NULL,
                   "a message that an earlier receive should have got");
        }
    }
}

static void receive_late(enum plan plan, uint32_t count, uint32_t late_count, const uint32_t late[])
{
    for (uint32_t n = 0; n < late_count; n++) {
        if (plan == POST) {
            receive(count + n, choose(&messages[late[n]]));
        } else if (plan == PROBE) {
            probe(count + n, messages[late[n]].context);
        } else if (n % TAKEN == 0) {
            take(count + n, late_count - n < TAKEN ? late_count - n : TAKEN, late + n);
        }
    }
}

static void play(enum plan plan)
{
    uint32_t count = 0, late_count = 0, late[MESSAGES];
    draw();
    for (uint32_t i = 0; i < MESSAGES; i++) {
        if (messages[i].from == rank)
            send_one(i);
        if (messages[i].to != rank)
            continue;
        if (plan != POST || random_below(&delays, 4) == 0) {
            late[late_count++] = i;
            continue;
        }
        receive(count++, choose(&messages[i]));
        if (random_below(&delays, 4) == 0)
            cancel(count - 1);
    }
    receive_late(plan, count, late_count, late);
    count += late_count;
    check(tca_msg_wait_all(receives, count, TCA_DEFAULT), "wait for the receives");
    check(tca_msg_wait_all(sends, MESSAGES, TCA_DEFAULT), "wait for the sends");
    judge(count);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        receives[i] = tca_msg_release(receives[i]);
        sends[i] = tca_msg_release(sends[i]);
    }
}

static void refused(void)
{
    const struct tca_msg_buffer buffer = {got[0], 8, NULL};
    struct tca_msg_request *request = NULL;
    struct tca_msg_status status;
    expect(tca_msg_send(msg, 0, TCA_MSG_ANY, &buffer, &request), -EINVAL, "for receives only",
           "a send of any tag");
    expect(tca_msg_send(msg, TCA_MSG_ANY, 1, &buffer, &request), -EINVAL, "ranks 0 to",
           "a send to any rank");
    expect(tca_msg_recv_init(msg, TCA_MSG_ANY, 1, &buffer, &request), -EINVAL, "names its rank",
           "any, persistent");
    expect(tca_msg_probe(msg, size, 1, 0, &status), -EINVAL, "ranks 0 to", "a probe of no rank");
    expect(tca_msg_probe(msg, TCA_MSG_ANY, 1, 0, &status), -ETIMEDOUT, "none to receive",
           "a probe of nothing");
    check(tca_msg_recv(msg, TCA_MSG_ANY, TCA_MSG_ANY, &buffer, &request), "receive");
    tca_msg_status(request, &status);
    expect(status.rank == TCA_MSG_ANY && status.tag == TCA_MSG_ANY && status.bytes == 0, 1, NULL,
           "a status before the message");
    expect(tca_msg_wait(request, 1000000), -ETIMEDOUT, "from any rank", "a wait for nothing");
    tca_msg_release(request); /* withdraws it: it must not take what comes then */
}

/* Rank 1 offers rank 0 a message, and ends. */
static struct tca_msg_request *offer_and_end(void)
{
    const struct tca_msg_buffer room = {got[1], 8, NULL}, mine = {sent[0], 8, NULL},
                                large = {sent[0], BYTES_MAX, NULL};
    struct tca_msg_request *offered = NULL, *send;
    if (rank == 0)
        check(tca_msg_recv(msg, 1, 7, &room, &offered), "receive");
    for (uint32_t i = 0; rank == 0 && i < FULL; i++) {
        check(tca_msg_send(msg, 1, 8, &mine, &send), "send");
        tca_msg_release(send);
    }
    if (rank == 1)
        check(tca_msg_send(msg, 0, 7, &large, &send), "offer");
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    if (rank == 1)
        kill(getpid(), SIGKILL);
    if (rank == 0)
        expect(tca_notified_wait(session, 1, 0, TCA_DEFAULT), -EOWNERDEAD, NULL, "its end");
    return offered;
}

static int64_t pages_mapped(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld", &pages) != 1)
        check(-EIO, "statm");
    fclose(file);
    return pages;
}

/* The receive that took the offer could not answer: nobody is there, and the ring is full. What
 * matches other receives must not be disturbed by it. */
static void after_the_offer(struct tca_msg_request *offered)
{
    const struct tca_msg_buffer room = {got[1], 8, NULL}, mine = {sent[0], 8, NULL};
    struct tca_msg_request *receive, *send;
    if (!offered)
        return;
    const int64_t before = pages_mapped();
    expect(tca_msg_wait(offered, TCA_DEFAULT), -EOWNERDEAD, NULL, "a receive of an offer");
    tca_msg_release(offered);
    for (uint32_t i = 0; i < 40; i++) {
        check(tca_msg_recv(msg, 0, i, &room, &receive), "receive");
        check(tca_msg_send(msg, 0, i, &mine, &send), "send");
        check(tca_msg_wait(receive, TCA_DEFAULT), "a receive from itself");
        tca_msg_release(receive);
        tca_msg_release(send);
    }
    expect(pages_mapped() - before < 1 << 16, 1, NULL, "as much memory as before, or nearly");
}

/* Each receive from any fails once when a rank ends; then they wait for those that are left. */
static void ended(void)
{
    const struct tca_msg_buffer buffer = {got[0], 8, NULL}, mine = {sent[0], 8, NULL};
    struct tca_msg_request *any, *send;
    struct tca_msg_status status;
    struct tca_msg_request *offered = offer_and_end();
    check(tca_msg_recv(msg, TCA_MSG_ANY, 5, &buffer, &any), "receive");
    expect(tca_msg_wait(any, TCA_DEFAULT), -EOWNERDEAD, "cannot notify any more",
           "a receive from any");
    tca_msg_release(any);
    after_the_offer(offered);
    const uint32_t left = rank == 0 ? 2 : rank == size - 1 ? 0 : rank + 1;
    sent[0][0] = rank;
    check(tca_msg_send(msg, left, 6, &mine, &send), "send");
    int r = -EOWNERDEAD; /* another one may be done, and leave, before this message is here */
    while (r == -EOWNERDEAD) {
        check(tca_msg_recv(msg, TCA_MSG_ANY, TCA_MSG_ANY, &buffer, &any), "receive");
        if ((r = tca_msg_wait(any, TCA_DEFAULT)) < 0)
            tca_msg_release(any);
    }
    check(r, "from one that is left");
    tca_msg_status(any, &status);
    expect(got[0][0], status.rank, NULL, "the sender");
    tca_msg_release(any);
    tca_msg_release(send);
    check(tca_msg_probe(msg, 1, 5, TCA_DEFAULT, &status) == -EOWNERDEAD ? 0 : -1,
          "a probe of the dead");
}

/* Others of the node copy straight to and from the memory of ranks with even numbers. */
static void *allocate(void)
{
    void *memory = NULL;
    if (rank % 2 == 0)
        check(tca_alloc(session, MESSAGES * sizeof(*got), &memory), "memory");
    else
        memory = calloc(MESSAGES, sizeof(*got));
    return memory;
}

static void release(void *memory)
{
    if (rank % 2 == 0)
        check(tca_free(session, memory), "free");
    else
        free(memory);
}

int main(int argc, char **argv)
{
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    size = tca_size(session);
    const char *mode = argc > 2 ? argv[2] : "";
    struct tca_plan_args args = {.group = NULL};
    if (strcmp(mode, "reversed") == 0) {
        check(tca_group_split(session, NULL, 0, -(int32_t)rank, TCA_DEFAULT, &args.group), "split");
        rank = tca_group_rank(args.group);
    }
    check(tca_msg_new(session, &args, &msg), "messenger");
    tca_group_free(args.group);
    numbers.state = strtoull(argv[1], NULL, 10);
    delays.state = numbers.state + rank;
    sent = allocate();
    got = allocate();
    refused();
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    const bool ends = strcmp(mode, "ended") == 0;
    if (ends)
        ended();
    for (uint32_t round = 0; !ends && round < ROUNDS; round++) {
        play(round % 4 == 3 ? (round % 8 == 3 ? PROBE : TAKE) : POST);
        check(tca_barrier(session, TCA_DEFAULT), "barrier"); /* its receives would take the next */
    }
    tca_msg_free(msg);
    release(sent);
    release(got);
    tca_close(session);
    return 0;
}
