/*
 * msg-straight: rank 1 receives messages of rank 0 into blocks of a region, full and shorter ones,
 * by pairs and as long messages; no byte between the blocks may change. Those of pairs go straight
 * to the blocks: from the second round on, rank 1 does not use its messenger until they have
 * arrived. Ends with 0, or prints what was wrong.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"

enum { BLOCKS = 100, BLOCK = 48, STRIDE = 80, FULL = BLOCKS * BLOCK, SHORTER = FULL - 1000 };
enum { BEFORE = 3 * STRIDE, BYTES = BEFORE + BLOCKS * STRIDE, MESSAGES = 3, ROUNDS = 3 };
enum { PAIR, LONG, ARRIVED };

static struct tca *session;
static struct tca_msg *msg;

static uint8_t byte_of(uint32_t message, uint32_t round, uint32_t at)
{
    return (uint8_t)(1 + (at * 7 + message * 50 + round * 90) % 255);
}

static const uint32_t lengths[MESSAGES] = {FULL, SHORTER, FULL};

/* ---- the sender, which notifies the receiver when all has arrived */

static void send_all(void)
{
    static uint8_t data[MESSAGES][FULL];
    struct tca_msg_request *requests[MESSAGES];
    struct tca_plan *arrived;
    const struct tca_plan_args landed = {.flags = TCA_PLAN_LANDED};
    check(tca_plan_new(session, &landed, &arrived), "plan");
    check(tca_plan_notify(arrived, 1, ARRIVED), "notify");
    check(tca_plan_commit(arrived, TCA_DEFAULT), "commit");
    for (uint32_t i = 0; i < 2; i++) {
        const struct tca_msg_buffer buffer = {.address = data[i], .bytes = lengths[i]};
        check(tca_msg_send_init(msg, 1, PAIR, &buffer, &requests[i]), "send_init");
    }
    for (uint32_t round = 0; round < ROUNDS; round++) {
        const struct tca_msg_buffer last = {.address = data[2], .bytes = lengths[2]};
        for (uint32_t i = 0; i < MESSAGES; i++)
            for (uint32_t k = 0; k < lengths[i]; k++)
                data[i][k] = byte_of(i, round, k);
        for (uint32_t i = 0; i < 2; i++)
            check(tca_msg_start(requests[i]), "start");
        check(tca_msg_wait_all(requests, 2, TCA_DEFAULT), "wait");
        check(tca_start(arrived), "start");
        check(tca_wait(arrived, TCA_DEFAULT), "wait");
        check(tca_msg_send(msg, 1, LONG, &last, &requests[2]), "send");
        check(tca_msg_wait(requests[2], TCA_DEFAULT), "wait");
        tca_msg_release(requests[2]);
        check(tca_barrier(session, TCA_DEFAULT), "barrier");
    }
    tca_msg_release(requests[0]);
    tca_msg_release(requests[1]);
}

/* ---- the receiver */

static void compare(const uint8_t *memory, uint32_t message, uint32_t round)
{
    const uint32_t length = lengths[message];
    for (uint32_t i = 0; i < BYTES; i++) {
        const uint32_t at = i - BEFORE, place = at / STRIDE * BLOCK + at % STRIDE;
        const bool inside = i >= BEFORE && at % STRIDE < BLOCK && place < length;
        const uint8_t wanted = inside ? byte_of(message, round, place) : 0;
        if (memory[i] == wanted)
            continue;
        printf("round %u, message %u: byte %u is %u, not %u\n", round, message, i, memory[i],
               wanted);
        wrong = 1;
        return;
    }
}

static void receive_all(void)
{
    struct tca_msg_request *requests[MESSAGES];
    struct tca_layout *blocks;
    void *memory;
    check(tca_layout_strided(BLOCKS, BLOCK, STRIDE, &blocks), "layout");
    check(tca_alloc(session, MESSAGES * BYTES, &memory), "memory");
    uint8_t *bytes = memory;
    struct tca_msg_buffer buffers[MESSAGES];
    for (uint32_t i = 0; i < MESSAGES; i++)
        buffers[i] =
            (struct tca_msg_buffer){.address = bytes + i * BYTES + BEFORE, .layout = blocks};
    for (uint32_t i = 0; i < 2; i++)
        check(tca_msg_recv_init(msg, 0, PAIR, &buffers[i], &requests[i]), "recv_init");
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memset(bytes, 0, MESSAGES * BYTES);
        for (uint32_t i = 0; i < 2; i++)
            check(tca_msg_start(requests[i]), "start");
        if (round == 0) /* the two sides of the pairs meet */
            check(tca_msg_wait_all(requests, 2, TCA_DEFAULT), "wait");
        check(tca_notified_wait(session, 0, ARRIVED, TCA_DEFAULT), "arrived");
        for (uint32_t i = 0; i < 2; i++)
            compare(bytes + i * BYTES, i, round);
        check(tca_msg_wait_all(requests, 2, TCA_DEFAULT), "wait");
        check(tca_msg_recv(msg, 0, LONG, &buffers[2], &requests[2]), "receive");
        check(tca_msg_wait(requests[2], TCA_DEFAULT), "wait");
        for (uint32_t i = 0; i < MESSAGES; i++)
            compare(bytes + i * BYTES, i, round);
        tca_msg_release(requests[2]);
        check(tca_barrier(session, TCA_DEFAULT), "barrier");
    }
    tca_msg_release(requests[0]);
    tca_msg_release(requests[1]);
    tca_layout_free(blocks);
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
    tca_msg_free(msg);
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    tca_close(session);
    return wrong;
}
