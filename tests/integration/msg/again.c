/*
 * msg-again: makes and releases messengers one after the other, and grids of tca-qmp.h. Through
 * each messenger goes one message of each kind to every rank, this one too; ranks release theirs
 * without waiting for others, sometimes after the next one is made. Every message is checked. Ends
 * with 0, or prints what was wrong.
 *
 * msg-again ended: rank 1 is killed. Rank 0, which does nothing but send to it, is told.
 */
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "client/include/tca-msg.h"
#include "client/include/tca-qmp.h"
#include "tests/integration/expect.h"

enum { ROUNDS = 100, GRIDS = 20, RANKS_MAX = 8, STARTS = 3, SENDS = 1000 };

/* One-shot: short, long; persistent: short, long. */
enum { KINDS = 4 };
static const uint32_t kind_bytes[KINDS] = {8, 20000, 8, 5000};

static struct tca *session;
static uint32_t size;
static uint8_t sent[KINDS][RANKS_MAX][20000], got[KINDS][RANKS_MAX][20000];

static uint8_t value_of(uint32_t round, uint32_t start, uint32_t from, uint32_t to)
{
    return (uint8_t)(1 + round * 7 + start * 31 + from * 5 + to);
}

static void fill(uint32_t round, uint32_t start)
{
    for (uint32_t kind = 0; kind < KINDS; kind++)
        for (uint32_t peer = 0; peer < size; peer++) {
            memset(sent[kind][peer], value_of(round, start, rank, peer), kind_bytes[kind]);
            memset(got[kind][peer], 0, kind_bytes[kind]);
        }
}

static void compare(uint32_t first, uint32_t kinds, uint32_t round, uint32_t start)
{
    for (uint32_t kind = first; kind < first + kinds; kind++)
        for (uint32_t peer = 0; peer < size; peer++)
            for (uint32_t i = 0; i < kind_bytes[kind]; i += kind_bytes[kind] - 1)
                expect(got[kind][peer][i], value_of(round, start, peer, rank), NULL, "a byte");
}

static struct tca_msg_buffer buffer_of(uint8_t (*memory)[20000], uint32_t kind, uint32_t peer)
{
    return (struct tca_msg_buffer){memory[peer], kind_bytes[kind], NULL};
}

static void once(struct tca_msg *msg, uint32_t round)
{
    struct tca_msg_request *requests[4 * RANKS_MAX];
    uint32_t count = 0;
    fill(round, 0);
    for (uint32_t peer = 0; peer < size; peer++)
        for (uint32_t kind = 0; kind < 2; kind++) {
            const struct tca_msg_buffer to = buffer_of(got[kind], kind, peer),
                                        from = buffer_of(sent[kind], kind, peer);
            check(tca_msg_recv(msg, peer, kind, &to, &requests[count++]), "receive");
            check(tca_msg_send(msg, peer, kind, &from, &requests[count++]), "send");
        }
    check(tca_msg_wait_all(requests, count, TCA_DEFAULT), "wait");
    for (uint32_t i = 0; i < count; i++)
        tca_msg_release(requests[i]);
    compare(0, 2, round, 0);
}

static void pairs(struct tca_msg *msg, uint32_t round)
{
    struct tca_msg_request *requests[4 * RANKS_MAX];
    uint32_t count = 0;
    for (uint32_t peer = 0; peer < size; peer++)
        for (uint32_t kind = 2; kind < KINDS; kind++) {
            const struct tca_msg_buffer to = buffer_of(got[kind], kind, peer),
                                        from = buffer_of(sent[kind], kind, peer);
            check(tca_msg_recv_init(msg, peer, kind, &to, &requests[count++]), "receive");
            check(tca_msg_send_init(msg, peer, kind, &from, &requests[count++]), "send");
        }
    for (uint32_t start = 0; start < STARTS; start++) {
        fill(round, start);
        for (uint32_t i = 0; i < count; i++)
            check(tca_msg_start(requests[i]), "start");
        check(tca_msg_wait_all(requests, count, TCA_DEFAULT), "wait");
        compare(2, 2, round, start);
    }
    for (uint32_t i = 0; i < count; i++)
        tca_msg_release(requests[i]);
}

static void many(void)
{
    struct tca_msg *last = NULL;
    for (uint32_t round = 0; round < ROUNDS && !wrong; round++) {
        struct tca_msg *msg;
        check(tca_msg_new(session, NULL, &msg), "a messenger");
        if (round % 2 == 0)
            pairs(msg, round);
        once(msg, round); /* after it, what releasing the pairs has sent has come, too */
        tca_msg_free(last);
        last = round % 3 == 0 ? msg : tca_msg_free(msg);
    }
    tca_msg_free(last);
    for (uint32_t round = 0; round < GRIDS && !wrong; round++) {
        struct tca_qmp *grid;
        check(tca_qmp_new(session, NULL, 1, &size, NULL, NULL, &grid), "a grid");
        tca_qmp_free(grid);
    }
}

static void to_one_that_has_ended(void)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    struct tca_msg *msg;
    int r = 0;
    check(tca_msg_new(session, NULL, &msg), "a messenger");
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    if (rank == 1)
        raise(SIGKILL);
    for (int i = 0; i < SENDS && r >= 0; i++) {
        const struct tca_msg_buffer buffer = {sent[0][1], 8, NULL};
        struct tca_msg_request *request = NULL;
        r = tca_msg_send(msg, 1, 0, &buffer, &request);
        tca_msg_release(request);
        nanosleep(&pause, NULL);
    }
    expect(r, -EOWNERDEAD, "rank 1", "a send to a rank that has ended");
    tca_msg_free(msg);
}

int main(int argc, char **argv)
{
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    size = tca_size(session);
    if (argc > 1)
        to_one_that_has_ended();
    else
        many();
    tca_close(session);
    return wrong;
}
