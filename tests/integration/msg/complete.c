/*
 * msg-complete: sends that are complete arrive without another call of the sender, whatever the
 * receiver does. Rank 1 seems to be interrupted while it unpacks a long message. Rank 0 sends short
 * ones meanwhile, and then calls nothing until rank 1 has received them. msg-complete ahead: rank 1
 * takes a full ring in one call, and calls nothing more: as many sends are complete as tca-msg.h
 * says. Ends with 0, or prints what was wrong.
 */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "client/core/session.h"
#include "client/memory/lane.h"
#include "client/msg/msg.h"
#include "tests/integration/expect.h"

enum { TAG, SHORT_TAG, LONG_BYTES = 100000, SHORT_BYTES = 100, COUNT = MSG_RING / 2, AHEAD = 9 };

struct board {
    _Atomic uint32_t sent, received;
};

static struct tca *session;
static struct tca_msg *msg;
static struct board *board;
static void *data; /* in a region: what is long and sent again has a plan */

static struct tca_msg_request *begin(uint32_t tag, uint64_t bytes)
{
    const struct tca_msg_buffer buffer = {data, bytes, NULL};
    struct tca_msg_request *request;
    check((rank == 0 ? tca_msg_send : tca_msg_recv)(msg, 1 - rank, tag, &buffer, &request),
          "request");
    return request;
}

static void finish(struct tca_msg_request *request, const char *what)
{
    expect(tca_msg_wait(request, TCA_DEFAULT), 0, NULL, what);
    tca_msg_release(request);
}

static void await(_Atomic uint32_t *word)
{
    while (atomic_load(word) == 0)
        usleep(1000);
}

/* Both sides know each other. */
static struct tca_msg_request *make_pair(void)
{
    const struct tca_msg_buffer buffer = {data, TCA_MSG_SHORT_BYTES, NULL};
    struct tca_msg_request *request;
    check(
        (rank == 0 ? tca_msg_send_init : tca_msg_recv_init)(msg, 1 - rank, TAG, &buffer, &request),
        "init");
    check(tca_msg_start(request), "start");
    check(tca_msg_wait(request, TCA_DEFAULT), "wait");
    return request;
}

static void share_board(void)
{
    struct tca_region *region = NULL;
    struct tca_handle handle;
    if (rank == 0) {
        check(tca_region_alloc(session, sizeof(*board), &region), "region");
        board = tca_region_address(region);
        check(tca_region_handle(region, 0, TCA_ALL, &handle), "handle");
        check(tca_publish(session, "board", &handle), "publish");
    } else {
        check(tca_lookup(session, "board", TCA_DEFAULT, &handle), "lookup");
        board = tca_reach(session, &handle);
        check(board ? 0 : -ENOMEM, "reach");
    }
}

static void send_all(struct tca_msg_request *pair)
{
    struct tca_msg_request *big = begin(TAG, LONG_BYTES), *requests[COUNT];
    int r;
    while ((r = tca_msg_test(big)) == 0)
        ;
    check(r, "the long message");
    for (int i = 0; i < COUNT; i++) {
        requests[i] = begin(SHORT_TAG, SHORT_BYTES);
        expect(tca_msg_test(requests[i]), 1, NULL, "a short message");
    }
    check(tca_msg_start(pair), "start");
    expect(tca_msg_test(pair), 1, NULL, "a short persistent message");
    atomic_store(&board->sent, 1);
    await(&board->received);
    for (int i = 0; i < COUNT; i++)
        tca_msg_release(requests[i]);
    tca_msg_release(big);
}

static void receive_all(struct tca_msg_request *pair)
{
    _Atomic uint32_t *drainer = &lane_in_of(session, 0)->lane.segment->drainer;
    atomic_store(drainer, LANE_RECEIVER);
    struct tca_msg_request *big = begin(TAG, LONG_BYTES);
    while (big->state != MSG_MOVING)
        check(tca_msg_test(big), "the grant");
    await(&board->sent);
    atomic_store(drainer, LANE_NOBODY);
    for (int i = 0; i < COUNT; i++)
        finish(begin(SHORT_TAG, SHORT_BYTES), "a complete message");
    check(tca_msg_start(pair), "start");
    expect(tca_msg_wait(pair, TCA_DEFAULT), 0, NULL, "a complete persistent message");
    atomic_store(&board->received, 1);
    finish(big, "the long message");
}

static void ahead(void)
{
    struct tca_msg_request *first = NULL;
    for (int i = 0; rank == 0 && i < MSG_RING; i++)
        finish(begin(SHORT_TAG, SHORT_BYTES), "a message in the ring");
    if (rank == 1) {
        while (tca_notified_count(session, 0, msg->slot + MSG_SLOT_RING) < MSG_RING)
            usleep(1000);
        first = begin(SHORT_TAG, SHORT_BYTES);
        if (first->state != MSG_DONE)
            expect(tca_msg_test(first), 1, NULL, "the first message");
        atomic_store(&board->received, 1);
        await(&board->sent);
        for (int i = 1; i < MSG_RING + AHEAD; i++)
            finish(begin(SHORT_TAG, SHORT_BYTES), "a message");
        tca_msg_release(first);
        return;
    }
    await(&board->received);
    for (int i = 0; i < AHEAD; i++)
        finish(begin(SHORT_TAG, SHORT_BYTES), "a message ahead of the receiver");
    atomic_store(&board->sent, 1);
}

static void overtake(void)
{
    struct tca_msg_request *pair = make_pair();
    finish(begin(TAG, LONG_BYTES), "the first long message");
    finish(begin(TAG, LONG_BYTES), "the second long message"); /* announces its plan */
    if (rank == 0)
        send_all(pair);
    else
        receive_all(pair);
    tca_msg_release(pair);
}

int main(int argc, char **argv)
{
    (void)argv;
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    check(tca_msg_new(session, NULL, &msg), "messenger");
    check(tca_alloc(session, LONG_BYTES, &data), "memory");
    share_board();
    if (argc > 1)
        ahead();
    else
        overtake();
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_msg_free(msg);
    tca_close(session);
    return wrong;
}
