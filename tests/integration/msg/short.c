/* msg-short: short persistent messages between two ranks, in turn. Ends with 0, or prints what was
 * wrong. */
#include <stdio.h>

#include "client/include/tca-msg.h"

enum { MESSAGES = 100, TAG = 3 };

static int wrong(const struct tca *session, const char *what)
{
    printf("rank %u: %s: %s\n", tca_rank(session), what, tca_error_text());
    return 1;
}

static int turns(const struct tca *session, struct tca_msg_request *send,
                 struct tca_msg_request *receive, uint64_t *sent, const uint64_t *received)
{
    const uint32_t rank = tca_rank(session);

    for (uint64_t i = 0; i < MESSAGES; i++) {
        *sent = 2 * i + rank;
        if (rank == 0 && tca_msg_start(send) < 0)
            return wrong(session, "send");
        if (tca_msg_start(receive) < 0 || tca_msg_wait(receive, TCA_DEFAULT) < 0)
            return wrong(session, "receive");
        if (*received != 2 * i + 1 - rank)
            return wrong(session, "data");
        if ((rank == 1 && tca_msg_start(send) < 0) || tca_msg_wait(send, TCA_DEFAULT) < 0)
            return wrong(session, "send");
    }
    return 0;
}

int main(void)
{
    struct tca_msg_request *send, *receive;
    uint64_t sent, received;
    struct tca *session;
    struct tca_msg *msg;

    if (tca_open(NULL, &session) < 0) {
        printf("tca_open(): %s\n", tca_error_text());
        return 1;
    }
    const uint32_t other = 1 - tca_rank(session);
    if (tca_msg_new(session, NULL, &msg) < 0 ||
        tca_msg_send_init(msg, other, TAG, &(struct tca_msg_buffer){&sent, sizeof(sent), NULL},
                          &send) < 0 ||
        tca_msg_recv_init(msg, other, TAG,
                          &(struct tca_msg_buffer){&received, sizeof(received), NULL},
                          &receive) < 0)
        return wrong(session, "preparing it");
    int r = turns(session, send, receive, &sent, &received);
    tca_msg_free(msg);
    tca_close(session);
    return r;
}
