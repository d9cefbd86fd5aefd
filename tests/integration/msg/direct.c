/*
 * msg-direct: messages between two ranks of a node that copy without plans. Each goes between other
 * memory, some of it regions that are made for it and freed after it: a plan that was kept for it
 * would still use them. The receive is made first, or the message is sent first; receives are
 * withdrawn before their messages; memory of one side is private, or has a layout. Ends with 0, or
 * prints what was wrong.
 */
#include <errno.h>
#include <stdbool.h>

#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum { COUNT = 16 }; /* NEAR_REGIONS */
enum { ROUNDS = 300, BYTES_MAX = 65520, BLOCK = 24, STRIDE = 40 };

enum memory { REGION, ALLOCATED, PRIVATE, BLOCKS, MEMORIES };

struct side {
    enum memory memory;
    struct tca_region *region;
    uint8_t *address, *blocks; /* blocks: packed, of a layout */
    struct tca_layout *layout;
};

static struct tca *session;
static struct tca_msg *msg;

static void begin(struct side *side, enum memory memory, uint64_t bytes)
{
    void *address = NULL;
    *side = (struct side){.memory = memory};
    if (memory == REGION) {
        check(tca_region_alloc(session, bytes, &side->region), "region");
        side->address = tca_region_address(side->region);
    } else if (memory == ALLOCATED) {
        check(tca_alloc(session, bytes, &address), "memory");
        side->address = address;
    } else {
        side->address = calloc(1, bytes * 2 + STRIDE);
    }
    if (memory == BLOCKS)
        check(tca_layout_strided(bytes / BLOCK, BLOCK, STRIDE, &side->layout), "layout");
}

static void end(struct side *side)
{
    tca_layout_free(side->layout);
    if (side->memory == REGION)
        expect(tca_region_free(side->region), 0, NULL, "a region that no plan uses");
    else if (side->memory == ALLOCATED)
        check(tca_free(session, side->address), "free");
    else
        free(side->address);
}

static uint8_t *byte_of(const struct side *side, uint64_t n)
{
    return side->address + (side->layout ? n / BLOCK * STRIDE + n % BLOCK : n);
}

static uint8_t content(uint64_t round, uint64_t n)
{
    return (uint8_t)(1 + (n * 7 + round * 13 + n / 256) % 255);
}

static void send_one(uint64_t round, uint64_t bytes, enum memory memory, bool first)
{
    struct tca_msg_request *request;
    struct side side;
    begin(&side, memory, bytes);
    for (uint64_t n = 0; n < bytes; n++)
        *byte_of(&side, n) = content(round, n);
    if (!first) /* the receive is */
        check(tca_notified_wait(session, 1, 0, TCA_DEFAULT), "the receive is made");
    const struct tca_msg_buffer buffer = {side.address, bytes, side.layout};
    check(tca_msg_send(msg, 1, (uint32_t)round % 3, &buffer, &request), "send");
    check(tca_msg_wait(request, TCA_DEFAULT), "wait for the send");
    tca_msg_release(request);
    end(&side);
}

static void receive_one(uint64_t round, uint64_t bytes, enum memory memory, bool first,
                        struct tca_plan *made)
{
    struct tca_msg_request *request, *withdrawn;
    struct tca_msg_status status;
    struct side side;
    begin(&side, memory, bytes);
    const struct tca_msg_buffer buffer = {side.address, bytes, side.layout};
    const uint32_t tag = round % 4 == 0 ? TCA_MSG_ANY : (uint32_t)round % 3;
    if (first) {
        check(tca_msg_probe(msg, 0, tag, TCA_DEFAULT, &status), "probe");
        expect((long)status.bytes, (long)bytes, NULL, "the length");
    } else {
        check(tca_msg_recv(msg, 0, tag, &buffer, &withdrawn), "a receive to withdraw");
        tca_msg_release(withdrawn);
    }
    expect(tca_msg_recv(msg, 0, tag, &buffer, &request), 0, NULL, "receive");
    if (!first)
        check(tca_start(made), "start");
    check(tca_msg_wait(request, TCA_DEFAULT), "wait for the receive");
    tca_msg_status(request, &status);
    expect((long)status.bytes, (long)bytes, NULL, "the length");
    expect(status.tag, round % 3, NULL, "the tag");
    for (uint64_t n = 0; n < bytes; n++)
        if (*byte_of(&side, n) != content(round, n)) {
            printf("round %lu: byte %lu of %lu is wrong\n", round, n, bytes);
            exit(1);
        }
    tca_msg_release(request);
    end(&side);
    if (!first)
        check(tca_wait(made, TCA_DEFAULT), "wait");
}

/* The regions of one rank, which the other one has read and which are freed, leave it room for its
 * own: more of them than a region tries addresses. */
static void make_room(void)
{
    struct side sides[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        struct tca_msg_request *request;
        struct tca_msg_status status;
        begin(&sides[i], rank == 0 ? REGION : PRIVATE, BYTES_MAX);
        const struct tca_msg_buffer buffer = {sides[i].address, BYTES_MAX, NULL};
        if (rank == 0)
            check(tca_msg_send(msg, 1, 0, &buffer, &request), "send");
        else
            check(tca_msg_probe(msg, 0, 0, TCA_DEFAULT, &status), "probe");
        if (rank == 1)
            check(tca_msg_recv(msg, 0, 0, &buffer, &request), "receive");
        check(tca_msg_wait(request, TCA_DEFAULT), "wait");
        tca_msg_release(request);
    }
    for (uint32_t i = 0; i < COUNT; i++)
        end(&sides[i]);
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    for (uint32_t i = 0; i < COUNT && rank == 1; i++)
        begin(&sides[i], REGION, BYTES_MAX);
    for (uint32_t i = 0; i < COUNT && rank == 1; i++)
        end(&sides[i]);
}

/* A receive that its messenger's release has ended gets nothing afterwards. */
static void abandon(void)
{
    struct tca_msg_request *request;
    struct side side;
    begin(&side, REGION, BYTES_MAX);
    memset(side.address, 1 + (int)rank, BYTES_MAX);
    const struct tca_msg_buffer buffer = {side.address, BYTES_MAX, NULL};
    if (rank == 1) {
        check(tca_msg_recv(msg, 0, 0, &buffer, &request), "receive");
        msg = tca_msg_free(msg);
    }
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    if (rank == 0)
        tca_msg_send(msg, 1, 0, &buffer, &request); /* to nobody */
    check(tca_barrier(session, TCA_DEFAULT), "barrier");
    for (uint64_t n = 0; n < BYTES_MAX; n++)
        if (side.address[n] != 1 + rank) {
            expect(side.address[n], 1 + (int)rank, NULL, "memory of an abandoned receive");
            break;
        }
    tca_msg_free(msg);
    end(&side);
}

int main(void)
{
    struct random random = {11};
    struct tca_plan *made;
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    check(tca_msg_new(session, NULL, &msg), "messenger");
    check(tca_plan_new(session, NULL, &made), "plan");
    check(tca_plan_notify(made, 0, 0), "notify");
    check(tca_plan_commit(made, TCA_DEFAULT), "commit");
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t bytes = BLOCK * (100 + random_below(&random, BYTES_MAX / BLOCK - 100));
        if (round % 5 == 0) /* others than before: those that come again would get a plan */
            bytes = BYTES_MAX + BLOCK * (1 + round);
        const bool first = random_below(&random, 2); /* sent, before it is received */
        enum memory from = (enum memory)random_below(&random, MEMORIES);
        enum memory to = (enum memory)random_below(&random, MEMORIES);
        if (first && from >= PRIVATE) /* only whoever copies may have these */
            from = REGION;
        if (!first && to >= PRIVATE)
            to = REGION;
        if (rank == 0)
            send_one(round, bytes, from, first);
        else
            receive_one(round, bytes, to, first, made);
    }
    make_room();
    abandon();
    tca_close(session);
    return wrong;
}
