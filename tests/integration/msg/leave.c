/*
 * msg-leave: rank 0 sends more messages than the ring holds to rank 1, which takes none, and frees
 * its messenger, whose wait for them times out. Rank 1 then receives those that the ring held. Ends
 * with 0, or prints what was wrong.
 */
#include "client/core/session.h"
#include "client/msg/msg.h"
#include "tests/integration/expect.h"

enum { TAG, SENT = MSG_RING + 4, SHORT_NS = 50 * 1000 * 1000 };

static struct tca *session;
static struct tca_msg *msg;

static void send_all(void)
{
    static int values[SENT];
    struct tca_msg_request *requests[SENT];

    for (int i = 0; i < SENT; i++) {
        const struct tca_msg_buffer buffer = {&values[i], sizeof(values[i]), NULL};
        values[i] = i;
        check(tca_msg_send(msg, 1, TAG, &buffer, &requests[i]), "send");
    }
    expect(tca_msg_test(requests[MSG_RING - 1]), 1, NULL, "the last message in the ring");
    expect(tca_msg_test(requests[MSG_RING]), 0, NULL, "a message beyond the ring");
    tca_msg_release(requests[SENT - 1]);
    const int64_t timeout_ns = session->settings.timeout_ns;
    session->settings.timeout_ns = SHORT_NS;
    msg = tca_msg_free(msg);
    session->settings.timeout_ns = timeout_ns;
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
}

static void receive_all(void)
{
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    for (int i = 0; i < MSG_RING; i++) {
        int value = -1;
        const struct tca_msg_buffer buffer = {&value, sizeof(value), NULL};
        struct tca_msg_request *request;
        check(tca_msg_recv(msg, 0, TAG, &buffer, &request), "receive");
        check(tca_msg_wait(request, TCA_DEFAULT), "wait");
        expect(value, i, NULL, "value");
        tca_msg_release(request);
    }
}

int main(void)
{
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    check(tca_msg_new(session, NULL, &msg), "messenger");
    if (rank == 0)
        send_all();
    else
        receive_all();
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_msg_free(msg);
    tca_close(session);
    return wrong;
}
