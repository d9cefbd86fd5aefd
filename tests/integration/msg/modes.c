/*
 * msg-modes: what a send or a receive is, beyond its data: contexts keep messages apart, a
 * synchronous send is complete only when it is received, a message that was taken is received by
 * name only, also when its rank has ended, a receive that is cancelled gets nothing. Each rank
 * sends to the next one, or to itself. Rank 1 is killed at the end. Ends with 0, or prints what was
 * wrong.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"

enum { LONG = 9000, MESSAGES = 4 /* that rank 1 has sent when it is killed */, POLLS = 200 };

static struct tca *session;
static struct tca_msg *msg;
static uint32_t size;
static uint8_t mine[LONG], got[LONG];

static void meet(void)
{
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
}

static struct tca_msg_request *send_to(uint32_t to, uint32_t tag, uint32_t context, uint32_t flags,
                                       uint64_t bytes)
{
    const struct tca_msg_envelope envelope = {
        .rank = to, .tag = tag, .context = context, .flags = flags};
    struct tca_msg_request *request;
    memset(mine, (int)(1 + tag + context), bytes);
    check(tca_msg_send_to(msg, &envelope, &(struct tca_msg_buffer){mine, bytes, NULL}, &request),
          "send");
    return request;
}

static struct tca_msg_request *receive_from(uint32_t from, uint32_t tag, uint32_t context,
                                            uint64_t bytes)
{
    const struct tca_msg_envelope envelope = {.rank = from, .tag = tag, .context = context};
    struct tca_msg_request *request;
    memset(got, 0, sizeof(got));
    check(tca_msg_recv_from(msg, &envelope, &(struct tca_msg_buffer){got, bytes, NULL}, &request),
          "receive");
    return request;
}

static void end(struct tca_msg_request *request, int result, const char *what)
{
    expect(tca_msg_wait(request, TCA_DEFAULT), result, NULL, what);
    tca_msg_release(request);
}

static void not_done(struct tca_msg_request *request, const char *what)
{
    for (int i = 0; i < POLLS; i++) {
        tca_msg_progress(msg);
        expect(tca_msg_is_done(request), 0, NULL, what);
    }
}

static void is_message(uint32_t tag, uint32_t context, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (got[i] != (uint8_t)(1 + tag + context)) {
            expect(got[i], (uint8_t)(1 + tag + context), NULL, "a byte of a message");
            return;
        }
}

static struct tca_msg_message *take(uint32_t from, uint32_t tag, uint32_t context, uint64_t bytes)
{
    const struct tca_msg_envelope envelope = {.rank = from, .tag = tag, .context = context};
    struct tca_msg_message *message;
    struct tca_msg_status status;
    check(tca_msg_take(msg, &envelope, TCA_DEFAULT, &message, &status), "take");
    expect((long)status.bytes, (long)bytes, NULL, "the bytes of what was taken");
    return message;
}

/* A receive takes nothing of another context; a probe finds nothing of it. */
static void contexts(uint32_t to, uint32_t from, uint64_t bytes)
{
    const struct tca_msg_envelope other = {.rank = TCA_MSG_ANY, .tag = TCA_MSG_ANY, .context = 2};
    struct tca_msg_request *receive = receive_from(from, 7, UINT32_MAX, bytes), *sends[2];
    struct tca_msg_message *message;
    struct tca_msg_status status;
    sends[0] = send_to(to, 7, 1, 0, bytes);
    check(tca_msg_probe_from(msg, &(struct tca_msg_envelope){.rank = from, .tag = 7, .context = 1},
                             TCA_DEFAULT, &status),
          "probe");
    not_done(receive, "a receive of another context");
    expect(tca_msg_probe_from(msg, &other, 0, &status), -ETIMEDOUT, "none to receive",
           "a probe of another context");
    expect(tca_msg_take(msg, &other, 1000000, &message, &status), -ETIMEDOUT, "none to receive",
           "taking from another context");
    end(receive_from(TCA_MSG_ANY, TCA_MSG_ANY, 1, bytes), 0, "the receive of context 1");
    is_message(7, 1, bytes);
    end(sends[0], 0, "the send of context 1");
    meet();
    sends[1] = send_to(to, 7, UINT32_MAX, 0, bytes);
    end(receive, 0, "the receive of the last context");
    is_message(7, UINT32_MAX, bytes);
    end(sends[1], 0, "the send of the last context");
    meet();
}

/* A synchronous send is not complete while nobody receives it, or has only taken it. */
static void synchronous(uint32_t to, uint32_t from, uint64_t bytes)
{
    struct tca_msg_request *send = send_to(to, 1, 3, TCA_MSG_SYNCHRONOUS, bytes), *receive;
    meet();
    not_done(send, "a send that nobody receives");
    meet();
    struct tca_msg_message *message = take(from, 1, 3, bytes);
    meet();
    not_done(send, "a send that was taken");
    meet();
    memset(got, 0, sizeof(got));
    check(tca_msg_recv_message(message, &(struct tca_msg_buffer){got, LONG, NULL}, &receive),
          "receive what was taken");
    end(receive, 0, "the receive");
    is_message(1, 3, bytes);
    end(send, 0, "the send that was received");
    meet();
    receive = receive_from(from, 2, 3, LONG);
    meet();
    end(send_to(to, 2, 3, TCA_MSG_SYNCHRONOUS, bytes), 0, "a send to a receive");
    end(receive, 0, "that receive");
    is_message(2, 3, bytes);
    meet();
    receive = receive_from(from, 2, 3, 4); /* a receive that fails has matched it, too */
    meet();
    end(send_to(to, 2, 3, TCA_MSG_SYNCHRONOUS, bytes), 0, "a send that is too long");
    end(receive, bytes > 4 ? -EMSGSIZE : 0, "a receive that is too short");
    meet();
}

/* What was taken is found by no receive, nor by a probe, also if it was not the first. */
static void taken(uint32_t to, uint32_t from, uint64_t bytes)
{
    const struct tca_msg_envelope any = {.rank = TCA_MSG_ANY, .tag = TCA_MSG_ANY, .context = 4};
    struct tca_msg_request *sends[2] = {send_to(to, 1, 4, 0, 8), NULL}, *receive;
    struct tca_msg_status status;
    check(tca_msg_wait(sends[0], TCA_DEFAULT), "send");
    sends[1] = send_to(to, 2, 4, 0, bytes);
    struct tca_msg_message *second = take(from, 2, 4, bytes), *first = take(from, 1, 4, 8);
    expect(tca_msg_probe_from(msg, &any, 0, &status), -ETIMEDOUT, NULL, "a probe after taking");
    receive = receive_from(from, TCA_MSG_ANY, 4, bytes);
    not_done(receive, "a receive after taking");
    expect(tca_msg_cancel(receive), 1, NULL, "cancelling it");
    tca_msg_release(receive);
    check(tca_msg_recv_message(first, &(struct tca_msg_buffer){got, 4, NULL}, &receive), "receive");
    expect((long)tca_msg_bytes(receive), 8, NULL, "the bytes of a message that is too long");
    end(receive, -EMSGSIZE, "a message that was taken, and is too long");
    check(tca_msg_recv_message(second, &(struct tca_msg_buffer){got, LONG, NULL}, &receive),
          "receive");
    end(receive, 0, "a message that was taken");
    is_message(2, 4, bytes);
    end(sends[0], 0, "a short send");
    end(sends[1], 0, "a send that was taken");
    meet();
}

/* A cancelled receive leaves its message to the next one, and its memory as it was. */
static void cancelled(uint32_t to, uint32_t from, uint64_t bytes)
{
    struct tca_msg_request *gone = receive_from(from, 5, 5, bytes), *receive;
    expect(tca_msg_cancel(gone), 1, NULL, "cancelling");
    meet();
    struct tca_msg_request *send = send_to(to, 5, 5, 0, bytes);
    check(tca_msg_probe_from(msg, &(struct tca_msg_envelope){.rank = from, .tag = 5, .context = 5},
                             TCA_DEFAULT, &(struct tca_msg_status){0}),
          "probe");
    expect(got[0], 0, NULL, "memory of a cancelled receive");
    end(gone, -ECANCELED, "a cancelled receive");
    receive = receive_from(from, 5, 5, bytes);
    end(receive, 0, "the next receive");
    is_message(5, 5, bytes);
    expect(tca_msg_cancel(send), 0, NULL, "cancelling a send");
    end(send, 0, "the send");
    meet();
    receive = receive_from(TCA_MSG_ANY, TCA_MSG_ANY, 5, bytes);
    expect(tca_msg_cancel(receive), 1, NULL, "cancelling a receive from any");
    end(receive, -ECANCELED, "a cancelled receive from any");
}

static void refused(void)
{
    const struct tca_msg_buffer buffer = {got, 8, NULL};
    const struct tca_msg_envelope odd = {.flags = 2}, receive = {.flags = TCA_MSG_SYNCHRONOUS};
    struct tca_msg_request *request;
    expect(tca_msg_send_to(msg, &odd, &buffer, &request), -EINVAL, "TCA_MSG_SYNCHRONOUS",
           "a send with a flag that does not exist");
    expect(tca_msg_recv_from(msg, &receive, &buffer, &request), -EINVAL, "flags 0x1",
           "a synchronous receive");
    struct tca_msg_status status;
    const struct tca_msg_envelope flagged = {.rank = 0, .flags = TCA_MSG_SYNCHRONOUS};
    expect(tca_msg_probe_from(msg, &flagged, 0, &status), -EINVAL, "flags 1",
           "a synchronous probe");
}

/* What rank 1 has sent, and rank 0 taken: it ends before that is received. */
static void ended(void)
{
    static const uint64_t bytes[MESSAGES] = {8, 8, 0, LONG};
    struct tca_msg_message *messages[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES && rank == 1; i++)
        send_to(0, i, 6, i > 0 ? TCA_MSG_SYNCHRONOUS : 0, bytes[i]);
    for (uint32_t i = 0; i < MESSAGES && rank == 0; i++)
        messages[i] = take(1, i, 6, bytes[i]);
    meet();
    if (rank == 1)
        kill(getpid(), SIGKILL);
    if (rank != 0)
        return;
    const struct tca_msg_envelope more = {.rank = 1, .tag = 9, .context = 6};
    struct tca_msg_request *receive;
    struct tca_msg_status status;
    expect(tca_msg_probe_from(msg, &more, TCA_DEFAULT, &status), -EOWNERDEAD, NULL,
           "a probe of a rank that has ended");
    for (uint32_t i = 0; i < MESSAGES; i++) {
        const struct tca_msg_buffer room = {got, LONG, NULL};
        const int r = tca_msg_recv_message(messages[i], &room, &receive);
        expect(r, i < 3 ? 0 : -EOWNERDEAD, NULL, "a message of a rank that has ended");
        if (r < 0)
            continue;
        end(receive, 0, "a message that had arrived");
        is_message(i, 6, bytes[i]);
    }
}

int main(void)
{
    static const uint64_t sizes[] = {0, 8, 1992, 2000, 2032, 2040, LONG};
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    size = tca_size(session);
    check(tca_msg_new(session, NULL, &msg), "messenger");
    refused();
    for (uint32_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        const uint64_t bytes = sizes[i / 2];
        const uint32_t to = i % 2 ? rank : (rank + 1) % size,
                       from = i % 2 ? rank : (rank + size - 1) % size;
        contexts(to, from, bytes);
        synchronous(to, from, bytes);
        taken(to, from, bytes);
        cancelled(to, from, bytes);
    }
    if (size > 1)
        ended();
    tca_msg_free(msg);
    tca_close(session);
    return wrong;
}
