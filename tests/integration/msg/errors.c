/*
 * msg-errors: what the functions of tca-msg.h reject, how pairs end and that their slots are used
 * again, at both ranks of a group of two. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"

enum {
    PAIR = 1,
    SYNC = 2,
    NEVER = 3,
    REUSES = 3 * TCA_MSG_PAIRS,
    PLACES = 16,
    LAST = 3,
    BYTES = 4096,
};
#define MILLISECOND INT64_C(1000000)

static struct tca *session;
static struct tca_msg *msg;
static struct tca_msg_request *never; /* a receive: testing it advances everything */
static uint32_t other;
static bool buffered; /* messages of pairs are */

static int run(struct tca_msg_request *request)
{
    int r = tca_msg_start(request);
    return r < 0 ? r : tca_msg_wait(request, TCA_DEFAULT);
}

/* Both ranks have come here, and each has seen what the other did before. */
static void meet(void)
{
    const struct tca_msg_buffer nothing = {0};
    struct tca_msg_request *requests[2] = {NULL, NULL};

    check(tca_msg_recv(msg, other, SYNC, &nothing, &requests[0]), "receive to meet");
    check(tca_msg_send(msg, other, SYNC, &nothing, &requests[1]), "send to meet");
    expect(tca_msg_wait_all(requests, 2, TCA_DEFAULT), 0, NULL, "meeting");
    tca_msg_release(requests[0]);
    tca_msg_release(requests[1]);
}

/* This rank's side of a pair from rank 0 to rank 1. */
static struct tca_msg_request *make_side(const struct tca_msg_buffer *buffer)
{
    struct tca_msg_request *request = NULL;

    check(rank == 0 ? tca_msg_send_init(msg, other, PAIR, buffer, &request)
                    : tca_msg_recv_init(msg, other, PAIR, buffer, &request),
          "making a pair");
    return request;
}

static void arguments(void)
{
    const struct tca_msg_buffer nowhere = {.bytes = 1}, nothing = {0};
    struct tca_msg_request *request = NULL, *none[2] = {NULL, NULL};
    uint32_t index = 7;

    expect(tca_msg_send(msg, 2, 0, &nothing, &request), -EINVAL, "ranks 0 to 1", "rank 2");
    expect(tca_msg_recv(msg, 0, 0, &nowhere, &request), -EINVAL, "is NULL", "no memory");
    expect(request != NULL, 0, NULL, "a request in spite of the error");
    expect(tca_msg_wait_any(none, 2, TCA_DEFAULT, &index), -EINVAL, "no request", "wait_any");
    expect(tca_msg_wait_all(none, 2, TCA_DEFAULT), 0, NULL, "wait_all without requests");
    expect((int)index, 7, NULL, "index of no request");
    expect(tca_msg_start(never), -EINVAL, "one-shot", "start of a one-shot request");
    expect(tca_msg_wait(never, MILLISECOND), -ETIMEDOUT, "tag 3: none came within 0.001 s",
           "waiting in vain");
}

static void limit(void)
{
    struct tca_msg_request *requests[TCA_MSG_PAIRS + 1] = {NULL};
    const struct tca_msg_buffer nothing = {0};

    for (uint32_t i = 0; i < TCA_MSG_PAIRS; i++)
        expect(tca_msg_recv_init(msg, other, PAIR, &nothing, &requests[i]), 0, NULL, "a receive");
    expect(tca_msg_recv_init(msg, other, PAIR, &nothing, &requests[TCA_MSG_PAIRS]), -EBUSY,
           "at most 12", "one receive too many");
    for (uint32_t i = 0; i < TCA_MSG_PAIRS; i++)
        tca_msg_release(requests[i]);
    meet();
}

/* Rounds of pairs, each released before the next is made; the other rank may be far behind. */
static void rounds(void)
{
    enum { EACH = 10, ROUNDS = 5 };
    struct tca_msg_request *requests[EACH];
    uint8_t data[EACH][BYTES];

    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < EACH; i++) {
            const uint64_t bytes = i % 2 ? BYTES : 8;
            const struct tca_msg_buffer buffer = {data[i], bytes, NULL};
            memset(data[i], rank == 0 ? round + 1 : 0, BYTES);
            requests[i] = make_side(&buffer);
            expect(tca_msg_start(requests[i]), 0, NULL, "a start in a round");
        }
        expect(tca_msg_wait_all(requests, EACH, TCA_DEFAULT), 0, NULL, "a round");
        for (uint32_t i = 0; i < EACH; i++) {
            expect(data[i][i % 2 ? BYTES - 1 : 7], round + 1, NULL, "data of a round");
            tca_msg_release(requests[i]);
        }
    }
    meet();
}

/* Requests that are released as soon as they are started. They continue, and so do pairs after
 * them. */
static void running(void)
{
    enum { COUNT = 40 };
    static const uint64_t lengths[] = {8, 64, 65, 2032, 2033, 0, BYTES};
    enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };
    static uint8_t data[COUNT][BYTES];

    memset(data, 0, sizeof(data));
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct tca_msg_buffer buffer = {data[i], lengths[i % LENGTHS], NULL};
        memset(data[i], rank == 0 ? (int)i + 1 : 0, BYTES);
        struct tca_msg_request *request = make_side(&buffer);
        expect(tca_msg_start(request), 0, NULL, "a start before the release");
        tca_msg_release(request);
    }
    for (uint32_t i = 0; rank == 1 && i < COUNT; i++) {
        const uint64_t bytes = lengths[i % LENGTHS];
        while (bytes > 0 && ((volatile uint8_t *)data[i])[bytes - 1] != i + 1)
            tca_msg_test(never);
        for (uint64_t k = 0; k < BYTES; k++)
            if (data[i][k] != (k < bytes ? i + 1 : 0)) {
                expect((int)k, -1, NULL, "a byte of a request that was released");
                break;
            }
    }
    meet();
}

/* Requests that nobody has started are complete; one that fails does not affect the others. */
static void idle_and_failed(void)
{
    struct tca_msg_request *requests[3] = {NULL};
    uint8_t data[3][BYTES];
    uint32_t index = 7;

    for (uint32_t i = 0; i < 3; i++) {
        const struct tca_msg_buffer buffer = {data[i], rank == 1 && i == 1 ? 100 : BYTES, NULL};
        memset(data[i], rank == 0 ? (int)i + 1 : 0, BYTES);
        requests[i] = make_side(&buffer);
        expect(tca_msg_test(requests[i]), 1, NULL, "a test before the first start");
        expect(tca_msg_wait(requests[i], TCA_FOREVER), 0, NULL, "a wait before the first start");
    }
    expect(tca_msg_wait_any(requests, 3, TCA_FOREVER, &index), 0, NULL,
           "any before the first start");
    expect(tca_msg_wait_all(requests, 3, TCA_FOREVER), 0, NULL, "all before the first start");
    expect(tca_msg_wait_all(requests, 0, TCA_FOREVER), 0, NULL, "all of none");
    for (int start = 0; start < 2; start++) {
        for (uint32_t i = 0; i < 3; i++)
            expect(tca_msg_start(requests[i]), 0, NULL, "start");
        expect(tca_msg_wait_all(requests, 3, TCA_DEFAULT), rank == 1 ? -EMSGSIZE : 0, NULL,
               "all, of which one fails");
        for (uint32_t i = 0; i < 3; i++) {
            expect(tca_msg_test(requests[i]), rank == 1 && i == 1 ? -EMSGSIZE : 1, NULL, "each");
            expect(data[i][BYTES - 1], i != 1 || rank == 0 ? (int)i + 1 : 0, NULL, "its data");
        }
    }
    for (uint32_t i = 0; i < 3; i++)
        tca_msg_release(requests[i]);
    meet();
}

/* Pairs without end; a receive is released as soon as its data is there. */
static void reuse(void)
{
    for (int i = 0; i < REUSES; i++) {
        int value = rank == 0 ? i : -1;
        const struct tca_msg_buffer buffer = {&value, sizeof(value), NULL};
        struct tca_msg_request *request = make_side(&buffer);
        expect(run(request), 0, NULL, "one of many pairs");
        expect(value, i, NULL, "value of one of many pairs");
        tca_msg_release(request);
    }
    meet();
}

/* Rank 0 starts its send until the messages find no place, and releases it; only then does rank 1
 * start its receive. */
static void ahead(void)
{
    int value = -1, count = 0, r;
    const struct tca_msg_buffer buffer = {&value, sizeof(value), NULL};
    struct tca_msg_request *request = make_side(&buffer);

    meet();
    for (r = 1; rank == 0 && r > 0; count++) {
        value = count;
        expect(tca_msg_start(request), 0, NULL, "a start ahead");
        r = tca_msg_test(request);
    }
    if (rank == 0) {
        expect(count, PLACES + 1, NULL, "starts ahead");
        expect(tca_msg_start(request), -EBUSY, "still running", "a start too many");
        request = tca_msg_release(request);
    }
    expect(tca_barrier(session, TCA_DEFAULT), 0, NULL, "barrier");
    for (; rank == 1 && (r = run(request)) == 0; count++)
        expect(value, count, NULL, "a message from ahead");
    expect(count, PLACES + 1, NULL, "messages from ahead");
    if (rank == 1)
        expect(r, -ECANCELED, NULL, "the end of the messages from ahead");
    tca_msg_release(request);
    meet();
}

/* Rank `first` releases its side, after `both` have used the pair or not. */
static void cancel(uint32_t first, int both)
{
    int value = 5;
    const struct tca_msg_buffer buffer = {&value, sizeof(value), NULL};
    struct tca_msg_request *request = make_side(&buffer);

    if (both)
        expect(run(request), 0, NULL, "a pair");
    else if (rank != first)
        expect(tca_msg_start(request), 0, NULL, "start of one side");
    meet();
    if (rank == first)
        request = tca_msg_release(request);
    meet();
    if (rank != first && both)
        expect(tca_msg_start(request), -ECANCELED, "released its side", "start without the other");
    else if (rank == 0 && first == 1 && buffered)
        expect(tca_msg_wait(request, TCA_DEFAULT), 0, NULL, "a send in vain");
    else if (rank != first)
        expect(tca_msg_wait(request, TCA_DEFAULT), -ECANCELED, "was released", "wait in vain");
    tca_msg_release(request);
    meet();
}

/* A send that nobody receives does not keep rank 0 from leaving, and thereby rank 1 from knowing.
 * What rank 0 has sent before is received nevertheless. */
static void leave(void)
{
    static uint8_t data[3 * TCA_MSG_EAGER_BYTES];
    const struct tca_msg_buffer buffer = {data, sizeof(data), NULL};
    struct tca_msg_request *request = NULL, *pair = NULL;
    int value = -1;
    const struct tca_msg_buffer word = {&value, sizeof(value), NULL};

    if (rank == 1)
        check(tca_msg_recv(msg, other, PAIR, &buffer, &request), "a receive in vain");
    if (buffered)
        pair = make_side(&word);
    meet();
    if (rank == 0) {
        for (value = 0; buffered && value < LAST; value++)
            expect(run(pair), 0, NULL, "a last message");
        expect(tca_msg_send(msg, other, NEVER, &buffer, &request), 0, NULL, "a send in vain");
        return;
    }
    expect(tca_msg_wait(request, 25000 * MILLISECOND), -EOWNERDEAD, NULL, "waiting for the end");
    tca_msg_release(request);
    for (int i = 0; buffered && i < LAST; i++) {
        expect(run(pair), 0, NULL, "receiving a last message");
        expect(value, i, NULL, "a last message");
    }
    if (buffered)
        expect(run(pair), -EOWNERDEAD, NULL, "receiving more than was sent");
    tca_msg_release(pair);
}

/* The receiver of a pair has freed its memory and its messenger, but its process goes on. */
static void freed(void)
{
    static uint8_t data[BYTES];
    struct tca_msg_buffer buffer = {data, BYTES, NULL};
    struct tca_msg_request *request = NULL;
    struct tca_region *region = NULL;
    struct tca_msg *second = NULL;

    check(tca_msg_new(session, NULL, &second), "another messenger");
    if (rank == 1) {
        check(tca_region_alloc(session, BYTES, &region), "memory");
        buffer.address = tca_region_address(region);
        check(tca_msg_recv_init(second, other, PAIR, &buffer, &request), "receive");
        check(tca_msg_start(request), "starting the receive");
    }
    check(tca_barrier(session, TCA_DEFAULT), "the address is on its way");
    if (rank == 1) {
        second = tca_msg_free(second);
        check(tca_region_free(region), "freeing the memory");
    }
    check(tca_barrier(session, TCA_DEFAULT), "it is freed");
    if (rank == 0) {
        int r = tca_msg_send_init(second, other, PAIR, &buffer, &request);
        if (r >= 0)
            r = run(request);
        expect(r, -EOWNERDEAD, NULL, "a send to freed memory");
        tca_msg_release(request);
    }
    check(tca_barrier(session, TCA_DEFAULT), "it was refused");
    tca_msg_free(second);
}

/* A receive that is too short for a long message is complete when the sender has been told, for
 * which there may be no room yet: the receiver then makes no further calls. */
static void told(void)
{
    enum { FULL = 16 }; /* messages to a rank that makes no calls: then its ring is full */
    static uint8_t data[BYTES], few[FULL];
    const struct tca_msg_buffer all = {data, BYTES, NULL}, one = {few, 1, NULL};
    struct tca_msg_request *request = NULL, *others[FULL] = {NULL};
    struct tca_msg *second = NULL;

    check(tca_msg_new(session, NULL, &second), "another messenger");
    if (rank == 0)
        check(tca_msg_send(second, other, PAIR, &all, &request), "send");
    check(tca_barrier(session, TCA_DEFAULT), "it is on its way");
    for (int i = 0; i < FULL; i++)
        check((rank == 1 ? tca_msg_send : tca_msg_recv)(second, other, NEVER, &one, &others[i]),
              "a short message");
    if (rank == 1)
        check(tca_msg_recv(second, other, PAIR, &one, &request), "receive");
    expect(tca_msg_wait(request, TCA_DEFAULT), rank == 0 ? 0 : -EMSGSIZE, NULL, "too long");
    check(tca_barrier(session, TCA_DEFAULT), "both know");
    expect(tca_msg_wait_all(others, FULL, TCA_DEFAULT), 0, NULL, "the short messages");
    tca_msg_free(second);
}

int main(void)
{
    const struct tca_msg_buffer nothing = {0};
    int r = tca_open(NULL, &session);

    if (r >= 0) {
        rank = tca_rank(session);
        other = 1 - rank;
        const char *seat = getenv("TCA_SEAT");
        buffered = tca_node_of(session, other) == (int)tca_node(session) ||
                   (seat && strcmp(seat, "client") == 0);
        r = tca_msg_new(session, NULL, &msg);
    }
    if (r >= 0)
        r = tca_msg_recv(msg, other, NEVER, &nothing, &never);
    check(r, "setting up");
    arguments();
    limit();
    rounds();
    running();
    idle_and_failed();
    reuse();
    for (int i = 0; i < 4; i++)
        cancel(i % 2, i / 2);
    for (int i = 0; buffered && i < REUSES; i++)
        cancel(1, 0);
    for (int i = 0; buffered && i < 2; i++)
        ahead();
    reuse();
    tca_msg_release(never);
    freed();
    told();
    leave();
    tca_msg_free(msg);
    tca_close(session);
    return wrong;
}
