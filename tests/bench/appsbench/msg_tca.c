/*
 * msg_tca SIZES [here|elsewhere]: messages back and forth between two ranks, by a bare put with its
 * notification, by persistent requests of tca-msg.h and by one-shot ones. All of them in turn,
 * REPEATS times. Rank 0 writes a line of JSON for each: the time of one message; with the word,
 * also how much of two messages, one in each direction, passes while the ranks compute.
 */
#include <stdbool.h>

#include "cases.h"
#include "client/include/tca-msg.h"
#include "tests/bench/check.h"
#include "tests/bench/overlap.h"

enum how { PUT, PERSISTENT, ONE_SHOT, HOWS };
static const char *const names[HOWS] = {"put", "persistent", "one-shot"};

static struct tca *session;
static struct tca_msg *msg;
static uint32_t rank, peer;
static bool overlaps;

struct bench {
    struct tca_msg_buffer sent, kept;
    struct tca_plan *plan;
    struct tca_msg_request *send, *receive;
    uint64_t messages; /* so far, of all kinds: the first word of a message */
};

static void make(struct bench *b, uint64_t bytes)
{
    struct tca_handle mine, all[2];

    b->sent.bytes = b->kept.bytes = bytes;
    check(tca_alloc(session, bytes, &b->sent.address), "memory");
    check(tca_alloc(session, bytes, &b->kept.address), "memory");
    check(tca_handle_of(session, b->kept.address, bytes, &mine), "naming the memory");
    check(tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT), "meeting");
    check(tca_plan_new(session, &(struct tca_plan_args){.name = "bare"}, &b->plan),
          "making a plan");
    check(tca_plan_put(b->plan, &(struct tca_put){.source_address = b->sent.address,
                                                  .target = all[peer],
                                                  .bytes = bytes}),
          "adding a put");
    check(tca_plan_notify(b->plan, peer, 0), "adding a notify");
    check(tca_plan_commit(b->plan, TCA_DEFAULT), "committing");
    check(tca_msg_recv_init(msg, peer, 0, &b->kept, &b->receive), "a persistent receive");
    check(tca_msg_send_init(msg, peer, 0, &b->sent, &b->send), "a persistent send");
}

static void release(struct bench *b)
{
    check(tca_barrier(session, TCA_DEFAULT), "meeting");
    tca_msg_release(b->send);
    tca_msg_release(b->receive);
    tca_plan_free(b->plan);
    tca_msg_forget(msg);
    tca_free(session, b->sent.address);
    tca_free(session, b->kept.address);
}

/* ---- to and fro */

static void send(struct bench *b, enum how how)
{
    struct tca_msg_request *request = b->send;

    *(uint64_t *)b->sent.address = ++b->messages;
    if (how == PUT) {
        check(tca_start(b->plan), "starting");
        check(tca_wait(b->plan, TCA_FOREVER), "waiting for the end");
        return;
    }
    check(how == PERSISTENT ? tca_msg_start(request)
                            : tca_msg_send(msg, peer, 1, &b->sent, &request),
          "sending");
    check(tca_msg_wait(request, TCA_FOREVER), "waiting for a send");
    if (how == ONE_SHOT)
        tca_msg_release(request);
}

static struct tca_msg_request *expect(struct bench *b, enum how how)
{
    struct tca_msg_request *request = b->receive;

    if (how == PERSISTENT)
        check(tca_msg_start(request), "receiving");
    if (how == ONE_SHOT)
        check(tca_msg_recv(msg, peer, 1, &b->kept, &request), "receiving");
    return request;
}

static void receive(struct bench *b, enum how how, struct tca_msg_request *request)
{
    check(how == PUT ? tca_notified_wait(session, peer, 0, TCA_FOREVER)
                     : tca_msg_wait(request, TCA_FOREVER),
          "waiting for a message");
    if (how == ONE_SHOT)
        tca_msg_release(request);
    if (*(uint64_t *)b->kept.address != ++b->messages) {
        fprintf(stderr, "msg_tca: rank %u: a wrong message\n", rank);
        exit(1);
    }
}

/* The next receive is posted before the last message is answered. */
static double measure(struct bench *b, enum how how, uint64_t count)
{
    struct tca_msg_request *request = expect(b, how);

    check(tca_barrier(session, TCA_DEFAULT), "meeting");
    uint64_t start_ns = now_ns();
    for (uint64_t n = 0; n < count; n++) {
        if (rank == 0)
            send(b, how);
        receive(b, how, request);
        if (n + 1 < count)
            request = expect(b, how);
        if (rank == 1)
            send(b, how);
    }
    return (double)(now_ns() - start_ns) / 2e3 / (double)count;
}

/* ---- both at once */

struct operation {
    struct bench *b;
    enum how how;
    struct tca_msg_request *requests[2];
};

static void start(void *operation)
{
    struct operation *o = operation;

    if (o->how == PUT) {
        check(tca_start(o->b->plan), "starting");
        return;
    }
    o->requests[0] = expect(o->b, o->how);
    o->requests[1] = o->b->send;
    check(o->how == PERSISTENT ? tca_msg_start(o->b->send)
                               : tca_msg_send(msg, peer, 1, &o->b->sent, &o->requests[1]),
          "sending");
}

static void await(void *operation)
{
    struct operation *o = operation;

    if (o->how == PUT) {
        check(tca_notified_wait(session, peer, 0, TCA_FOREVER), "waiting for a put");
        check(tca_wait(o->b->plan, TCA_FOREVER), "waiting for the end");
        return;
    }
    check(tca_msg_wait_all(o->requests, 2, TCA_FOREVER), "waiting for messages");
    for (int i = 0; i < 2 && o->how == ONE_SHOT; i++)
        tca_msg_release(o->requests[i]);
}

static void together(void)
{
    check(tca_barrier(session, TCA_DEFAULT), "meeting");
}

static double of_rank_0(double number)
{
    double all[2];

    check(tca_allgather(session, &number, sizeof(number), all, TCA_DEFAULT), "meeting");
    return all[0];
}

static double hidden(struct bench *b, enum how how)
{
    struct operation operation = {.b = b, .how = how};

    together();
    double us = of_rank_0((double)complete_all(&operation, WARM) / 1e3 / WARM);
    return hidden_part(&operation, of_rank_0(median_us(complete_all, &operation, count_for(us))));
}

static void run(uint64_t bytes)
{
    const struct bench_case one = {.bytes = bytes};
    struct bench b = {.messages = 0};
    double us[HOWS][REPEATS];
    uint64_t counts[HOWS];

    make(&b, bytes);
    for (enum how how = 0; how < HOWS; how++)
        counts[how] = (uint64_t)of_rank_0((double)count_for(2 * measure(&b, how, WARM)));
    for (int n = 0; n < REPEATS; n++)
        for (enum how how = 0; how < HOWS; how++)
            us[how][n] = measure(&b, how, counts[how]);
    for (enum how how = 0; how < HOWS; how++) {
        double part = overlaps ? hidden(&b, how) : 0;
        if (rank == 0)
            case_print(&one, names[how], median_of_doubles(us[how], REPEATS),
                       overlaps ? &part : NULL);
    }
    release(&b);
}

int main(int argc, char **argv)
{
    bool usable = argc == 2 || argc == 3;

    check(tca_open(NULL, &session), "opening the session");
    check(tca_msg_new(session, NULL, &msg), "making a messenger");
    rank = tca_rank(session);
    peer = 1 - rank;
    overlaps = argc == 3;
    if (overlaps)
        compute_where(argv[2]);
    for (char *next = usable ? argv[1] : NULL; usable && *next; next += *next == ',') {
        uint64_t bytes = strtoull(next, &next, 10);
        usable = tca_size(session) == 2 && bytes >= 8 && (*next == ',' || !*next);
        if (usable)
            run(bytes);
    }
    if (!usable) {
        fputs("Usage, with two ranks: msg_tca SIZES [here|elsewhere], of at least 8 bytes\n",
              stderr);
        return 2;
    }
    tca_msg_free(msg);
    tca_close(session);
    return 0;
}
