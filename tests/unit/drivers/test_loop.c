/* drivers/manycore/loop.c: the RDMA device in software, driven step by step. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "drivers/manycore/loop.h"

enum { BYTES = 16 * LOOP_SLICE_BYTES, ENTRIES = 8, PIECE = 4096 };

static struct verbs_device *device;
static const struct verbs_ops *ops;

/* One offload processor: memory with every access, a queue pair, its completions. */
struct side {
    uint8_t data[BYTES];
    struct verbs_domain *domain;
    struct verbs_memory *memory;
    struct verbs_cq *cq;
    struct verbs_qp *qp;
};
static struct side sides[4];

static void make_qp(struct side *side)
{
    const struct verbs_qp_args args = {side, side->domain, side->cq, side->cq, ENTRIES, ENTRIES};
    cr_assert_eq(ops->qp_new(&args, &side->qp), 0);
}

static void make_side(struct side *side)
{
    cr_assert_eq(ops->domain_new(device, &side->domain), 0);
    cr_assert_eq(ops->memory_new(side->domain, side->data, BYTES, (uintptr_t)side->data,
                                 DCFA_ACCESS_ALL, &side->memory),
                 0);
    cr_assert_eq(ops->cq_new(device, 4 * ENTRIES, &side->cq), 0);
    make_qp(side);
}

static void free_qp(struct side *side)
{
    if (side->qp)
        ops->qp_free(side->qp);
    side->qp = NULL;
}

static void set_up(void)
{
    cr_assert_eq(verbs_open_loop(&device), 0);
    ops = device->ops;
    for (unsigned i = 0; i < 4; i++)
        make_side(&sides[i]);
    for (unsigned i = 0; i < 4; i++)
        cr_assert_eq(ops->qp_connect(sides[i].qp, sides[i ^ 1].qp->address), 0);
}

static void tear_down(void)
{
    for (unsigned i = 0; i < 4; i++) {
        free_qp(&sides[i]);
        ops->cq_free(sides[i].cq);
        if (sides[i].memory)
            ops->memory_free(sides[i].memory);
        ops->domain_free(sides[i].domain);
    }
    ops->close(device);
}

TestSuite(loop, .init = set_up, .fini = tear_down, .timeout = 60);

static struct dcfa_piece_entry piece_of(const struct side *side, uint32_t bytes)
{
    return (struct dcfa_piece_entry){(uintptr_t)side->data, bytes, side->memory->local_key};
}

static void post(struct side *side, enum dcfa_opcode opcode, uint32_t bytes, uint64_t token)
{
    const struct side *peer = &sides[(side - sides) ^ 1];
    const struct dcfa_entry entry = {.opcode = (uint8_t)opcode,
                                     .count = 1,
                                     .pieces = {piece_of(side, bytes)},
                                     .remote_address = (uintptr_t)peer->data,
                                     .remote_key = peer->memory->remote_key};
    cr_assert_eq(ops->post_send(side->qp, &entry, token), 0);
}

static void receive(struct side *side, uint32_t bytes, uint64_t token)
{
    const struct dcfa_entry entry = {.count = 1, .pieces = {piece_of(side, bytes)}};
    cr_assert_eq(ops->post_receive(side->qp, &entry, token), 0);
}

/* The next completion must be this one. */
static void expect(struct side *side, uint64_t token, enum dcfa_status status)
{
    struct verbs_completion completion;
    cr_assert_eq(ops->poll(side->cq, &completion, 1), 1, "no completion of %d", (int)token);
    cr_expect_eq(completion.token, token);
    cr_expect_eq(completion.status, status, "%d: %d", (int)token, completion.status);
}

static void expect_none(struct side *side)
{
    struct verbs_completion completion;
    cr_expect_eq(ops->poll(side->cq, &completion, 1), 0);
}

static void finish_all(void)
{
    while (ops->progress(device) > 0)
        ;
}

Test(loop, long_transfers_let_others_pass)
{
    memset(sides[0].data, 7, BYTES);
    post(&sides[0], DCFA_OP_WRITE, BYTES, 1);
    for (unsigned slice = 1; slice <= 16; slice++) {
        post(&sides[2], DCFA_OP_WRITE, 8, slice);
        ops->progress(device);
        expect(&sides[2], slice, DCFA_ST_OK);
        if (slice < 16)
            expect_none(&sides[0]);
    }
    expect(&sides[0], 1, DCFA_ST_OK);
    cr_expect_arr_eq(sides[1].data, sides[0].data, BYTES);
}

Test(loop, sends_wait_for_receives)
{
    post(&sides[0], DCFA_OP_SEND, PIECE, 1);
    cr_expect_eq(ops->progress(device), 0);
    expect_none(&sides[0]);
    receive(&sides[1], PIECE, 2);
    finish_all();
    expect(&sides[0], 1, DCFA_ST_OK);
    expect(&sides[1], 2, DCFA_ST_OK);
}

Test(loop, keys_end_with_their_memory)
{
    struct side *side = &sides[0];
    const uint32_t old = side->memory->local_key;
    ops->memory_free(side->memory);
    cr_assert_eq(ops->memory_new(side->domain, side->data, BYTES, (uintptr_t)side->data,
                                 DCFA_ACCESS_ALL, &side->memory),
                 0);
    const uint32_t new = side->memory->local_key;
    cr_expect_neq(new, old);
    side->memory->local_key = old; /* for post() */
    post(side, DCFA_OP_WRITE, PIECE, 1);
    side->memory->local_key = new;
    finish_all();
    expect(side, 1, DCFA_ST_LOCAL_ACCESS);
}

Test(loop, memory_is_released_during_its_transfer)
{
    sides[1].data[BYTES - 1] = 1;
    post(&sides[0], DCFA_OP_WRITE, BYTES, 1);
    post(&sides[0], DCFA_OP_WRITE, 8, 2);
    ops->progress(device);
    ops->memory_free(sides[0].memory);
    sides[0].memory = NULL;
    finish_all();
    expect(&sides[0], 1, DCFA_ST_LOCAL_ACCESS);
    expect(&sides[0], 2, DCFA_ST_FLUSHED);
    cr_expect_eq(sides[1].data[BYTES - 1], 1);
}

Test(loop, peers_that_go_fail_what_was_sent_to_them)
{
    post(&sides[0], DCFA_OP_SEND, PIECE, 1);
    finish_all();
    free_qp(&sides[1]);
    finish_all();
    expect(&sides[0], 1, DCFA_ST_UNREACHABLE);
    post(&sides[0], DCFA_OP_SEND, PIECE, 2);
    expect(&sides[0], 2, DCFA_ST_FLUSHED);
}

/* Whoever waits for a message from a peer that is gone learns it. */
Test(loop, peers_that_go_fail_what_is_received_from_them)
{
    receive(&sides[0], PIECE, 1);
    free_qp(&sides[1]);
    expect(&sides[0], 1, DCFA_ST_FLUSHED);
    receive(&sides[0], PIECE, 2);
    expect(&sides[0], 2, DCFA_ST_FLUSHED);
}

static void expect_unreached(struct side *side)
{
    receive(side, PIECE, 1);
    expect(side, 1, DCFA_ST_FLUSHED);
    expect_none(side);
}

/* Whatever is made later never is the peer that has gone, however often somebody tries, even if
 * they know where to connect. */
Test(loop, connections_that_lost_their_peer_stay_broken)
{
    enum { TRIES = 5000 };
    uint8_t gone[VERBS_ADDRESS_BYTES];
    struct side *survivor = &sides[0], *other = &sides[1];
    memcpy(gone, other->qp->address, sizeof(gone));
    for (unsigned i = 0; i < TRIES; i++) {
        free_qp(other);
        make_qp(other);
        cr_assert_neq(memcmp(gone, other->qp->address, sizeof(gone)), 0, "after %u", i);
        cr_assert_eq(ops->qp_connect(other->qp, survivor->qp->address), 0);
        post(other, DCFA_OP_SEND_IMMEDIATE, 8, 1);
        finish_all();
        expect(other, 1, DCFA_ST_UNREACHABLE);
        expect_unreached(survivor);
    }
    post(survivor, DCFA_OP_WRITE, 8, 2);
    finish_all();
    expect(survivor, 2, DCFA_ST_UNREACHABLE);
    expect_none(other);
}

Test(loop, released_peers_cannot_be_connected_to)
{
    uint8_t gone[VERBS_ADDRESS_BYTES];
    memcpy(gone, sides[1].qp->address, sizeof(gone));
    free_qp(&sides[1]);
    free_qp(&sides[0]);
    make_qp(&sides[0]);
    cr_expect_eq(ops->qp_connect(sides[0].qp, gone), -ECONNREFUSED);
}

Test(loop, queue_pairs_can_be_connected_to_themselves)
{
    struct side *side = &sides[0];
    free_qp(side);
    make_qp(side);
    cr_assert_eq(ops->qp_connect(side->qp, side->qp->address), 0);
    receive(side, PIECE, 2);
    post(side, DCFA_OP_SEND, PIECE, 1);
    finish_all();
    expect(side, 2, DCFA_ST_OK);
    expect(side, 1, DCFA_ST_OK);
}

/* All 32 bits of keys change from each to the next, none in the same way twice in a row. */
Test(loop, keys_cannot_be_guessed)
{
    enum { KEYS = 64 };
    struct side *side = &sides[0];
    uint32_t last = side->memory->local_key, changed = 0, step = 0;
    for (unsigned i = 0; i < KEYS; i++) {
        ops->memory_free(side->memory);
        cr_assert_eq(ops->memory_new(side->domain, side->data, BYTES, (uintptr_t)side->data,
                                     DCFA_ACCESS_ALL, &side->memory),
                     0);
        const uint32_t key = side->memory->remote_key;
        cr_expect_neq(key - last, step);
        step = key - last;
        changed |= key ^ last;
        last = key;
    }
    cr_expect_eq(changed, UINT32_MAX, "0x%x", changed);
}

Test(loop, another_device_cannot_be_reached)
{
    struct verbs_device *other;
    struct side *side = &sides[0];
    cr_assert_eq(verbs_open_loop(&other), 0);
    struct verbs_domain *domain;
    struct verbs_cq *cq;
    struct verbs_qp *qp;
    cr_assert_eq(ops->domain_new(other, &domain), 0);
    cr_assert_eq(ops->cq_new(other, 4, &cq), 0);
    const struct verbs_qp_args args = {&other, domain, cq, cq, 2, 2};
    cr_assert_eq(ops->qp_new(&args, &qp), 0);
    cr_expect_eq(ops->qp_connect(qp, side->qp->address), -EHOSTUNREACH);
    ops->qp_free(qp);
    ops->cq_free(cq);
    ops->domain_free(domain);
    ops->close(other);
}
