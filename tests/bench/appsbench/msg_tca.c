/*
 * msg_tca SIZES: messages back and forth between two ranks, by a bare put with its notification, by
 * persistent requests of tca-msg.h and by one-shot ones. All of them in turn, REPEATS times. Rank 0
 * writes a line of JSON for each: the time of one message.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "client/include/tca-msg.h"

enum how { PUT, PERSISTENT, ONE_SHOT, HOWS };
static const char *const names[HOWS] = {"put", "persistent", "one-shot"};

struct bench {
    struct tca *session;
    struct tca_msg *msg;
    uint32_t rank;
    uint64_t bytes;
    uint64_t *sent, *kept;
    struct tca_plan *plan;
    struct tca_msg_request *send, *receive;
    uint64_t messages; /* so far, of all kinds: the first word of a message */
};

static int make_plan(struct bench *b)
{
    struct tca_handle mine, all[2];
    int r = tca_handle_of(b->session, b->kept, b->bytes, &mine);

    if (r >= 0)
        r = tca_allgather(b->session, &mine, sizeof(mine), all, TCA_DEFAULT);
    if (r >= 0)
        r = tca_plan_new(b->session, &(struct tca_plan_args){.name = "bare"}, &b->plan);
    if (r >= 0)
        r = tca_plan_put(b->plan, &(struct tca_put){.source_address = b->sent,
                                                    .target = all[1 - b->rank],
                                                    .bytes = b->bytes});
    if (r >= 0)
        r = tca_plan_notify(b->plan, 1 - b->rank, 0);
    return r < 0 ? r : tca_plan_commit(b->plan, TCA_DEFAULT);
}

static int make(struct bench *b)
{
    uint32_t peer = 1 - b->rank;
    int r = tca_alloc(b->session, b->bytes, (void **)&b->sent);

    if (r >= 0)
        r = tca_alloc(b->session, b->bytes, (void **)&b->kept);
    if (r >= 0)
        r = make_plan(b);
    if (r >= 0)
        r = tca_msg_recv_init(b->msg, peer, 0, &(struct tca_msg_buffer){b->kept, b->bytes, NULL},
                              &b->receive);
    return r < 0 ? r
                 : tca_msg_send_init(b->msg, peer, 0,
                                     &(struct tca_msg_buffer){b->sent, b->bytes, NULL}, &b->send);
}

static int release(struct bench *b)
{
    int r = tca_barrier(b->session, TCA_DEFAULT);

    tca_msg_release(b->send);
    tca_msg_release(b->receive);
    tca_plan_free(b->plan);
    tca_msg_forget(b->msg);
    tca_free(b->session, b->sent);
    tca_free(b->session, b->kept);
    return r;
}

/* ---- to and fro */

static int send(struct bench *b, enum how how)
{
    const struct tca_msg_buffer buffer = {b->sent, b->bytes, NULL};
    struct tca_msg_request *request = NULL;
    int r;

    *b->sent = ++b->messages;
    if (how == PUT)
        return (r = tca_start(b->plan)) < 0 ? r : tca_wait(b->plan, TCA_FOREVER);
    if (how == PERSISTENT)
        return (r = tca_msg_start(b->send)) < 0 ? r : tca_msg_wait(b->send, TCA_FOREVER);
    r = tca_msg_send(b->msg, 1 - b->rank, 1, &buffer, &request);
    if (r >= 0)
        r = tca_msg_wait(request, TCA_FOREVER);
    tca_msg_release(request);
    return r;
}

static int expect(struct bench *b, enum how how, struct tca_msg_request **ret_request)
{
    const struct tca_msg_buffer buffer = {b->kept, b->bytes, NULL};

    *ret_request = b->receive;
    if (how == PUT)
        return 0;
    return how == PERSISTENT ? tca_msg_start(b->receive)
                             : tca_msg_recv(b->msg, 1 - b->rank, 1, &buffer, ret_request);
}

static int receive(struct bench *b, enum how how, struct tca_msg_request *request)
{
    int r = how == PUT ? tca_notified_wait(b->session, 1 - b->rank, 0, TCA_FOREVER)
                       : tca_msg_wait(request, TCA_FOREVER);

    if (how == ONE_SHOT)
        tca_msg_release(request);
    if (r >= 0 && *b->kept != ++b->messages) {
        fprintf(stderr, "msg_tca: rank %u: a wrong message\n", b->rank);
        r = -EIO;
    }
    return r;
}

/* The next receive is posted before the last message is answered. */
static int measure(struct bench *b, enum how how, uint64_t count, double *ret_us)
{
    struct tca_msg_request *request = NULL;
    int r = expect(b, how, &request);

    if (r >= 0)
        r = tca_barrier(b->session, TCA_DEFAULT);
    uint64_t start_ns = now_ns();
    for (uint64_t n = 0; n < count && r >= 0; n++) {
        if (b->rank == 0)
            r = send(b, how);
        if (r >= 0)
            r = receive(b, how, request);
        if (r >= 0 && n + 1 < count)
            r = expect(b, how, &request);
        if (r >= 0 && b->rank == 1)
            r = send(b, how);
    }
    *ret_us = (double)(now_ns() - start_ns) / 2e3 / (double)count;
    return r;
}

/* The result of count_for() at rank 0. */
static int choose_count(struct bench *b, enum how how, uint64_t *ret_count)
{
    double us = 0;
    int r = measure(b, how, WARM, &us);
    uint64_t mine = count_for(2 * us), all[2];

    if (r >= 0)
        r = tca_allgather(b->session, &mine, sizeof(mine), all, TCA_DEFAULT);
    if (r >= 0)
        *ret_count = all[0];
    return r;
}

static int run(struct bench *b)
{
    const struct bench_case one = {.bytes = b->bytes};
    double us[HOWS][REPEATS];
    uint64_t counts[HOWS];
    int r = make(b);

    for (enum how how = 0; how < HOWS && r >= 0; how++)
        r = choose_count(b, how, &counts[how]);
    for (int n = 0; n < REPEATS; n++)
        for (enum how how = 0; how < HOWS && r >= 0; how++)
            r = measure(b, how, counts[how], &us[how][n]);
    for (enum how how = 0; how < HOWS && r >= 0 && b->rank == 0; how++)
        case_print(&one, names[how], median(us[how], REPEATS));
    return r < 0 ? r : release(b);
}

int main(int argc, char **argv)
{
    struct bench b = {.session = NULL};
    int r = argc == 2 ? tca_open(NULL, &b.session) : -EINVAL;

    if (r >= 0)
        r = tca_size(b.session) == 2 ? tca_msg_new(b.session, NULL, &b.msg) : -EINVAL;
    for (char *next = argv[1]; r >= 0 && *next; next += *next == ',') {
        b.rank = tca_rank(b.session);
        b.bytes = strtoull(next, &next, 10);
        r = b.bytes >= 8 && (*next == ',' || !*next) ? run(&b) : -EINVAL;
    }
    if (r < 0)
        fprintf(stderr, "msg_tca: %s: %s\n", tca_strerror(r), tca_error_text());
    tca_msg_free(b.msg);
    tca_close(r < 0 ? NULL : b.session);
    return r < 0;
}
