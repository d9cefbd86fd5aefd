/* Errors at the device, and requests that tcad refuses. */
#include <errno.h>
#include <string.h>

#include "tests/integration/dcfa/tests.h"

/* ---- errors ---- */

/* Rank 0 makes an error; its queue pair fails, and so does rank 1's if the device reports it. */
static void mistake(struct world *world, void (*make)(struct world *world), enum dcfa_result result)
{
    if (world->rank == 0) {
        make(world);
        expect(world_wait(world, world->qps[1]), result);
        const struct dcfa_piece piece = world_piece(world, 0, 8);
        const struct dcfa_send send = {
            .what = DCFA_SEND, .pieces = &piece, .piece_count = 1}; /* errors are always reported */
        GOOD(dcfa_post_send(world->qps[1], &send));
        expect(world_wait(world, world->qps[1]), DCFA_FLUSHED);
    }
    world_barrier(world); /* until then, the peer has its queue pair */
    world_connect(world);
    writes_and_reads(world);
}

static void post(struct world *world, enum dcfa_operation what, struct dcfa_piece piece,
                 uint64_t remote_address, uint32_t remote_key)
{
    const struct dcfa_send send = {.what = what,
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .remote_address = remote_address,
                                   .remote_key = remote_key};
    GOOD(dcfa_post_send(world->qps[1], &send));
}

static void no_such_local_key(struct world *world)
{
    struct dcfa_piece piece = world_piece(world, 0, 64);
    piece.key ^= 0x55555;
    post(world, DCFA_WRITE, piece, world->cards[1].memory, world->cards[1].key);
}

static void local_end(struct world *world)
{
    post(world, DCFA_WRITE, world_piece(world, MEMORY_BYTES - 32, 64), world->cards[1].memory,
         world->cards[1].key);
}

static void released_key(struct world *world)
{
    struct dcfa_mr *mr;
    GOOD(dcfa_mr_new(world->pd, world->memory, 4096, DCFA_LOCAL, &mr));
    struct dcfa_piece piece = {world->memory, 64, dcfa_mr_local_key(mr)};
    GOOD(dcfa_mr_free(mr));
    post(world, DCFA_WRITE, piece, world->cards[1].memory, world->cards[1].key);
}

static void other_domain(struct world *world)
{
    struct dcfa_pd *pd;
    struct dcfa_mr *mr;
    GOOD(dcfa_pd_new(world->processor, &pd));
    GOOD(dcfa_mr_new(pd, world->memory, 4096, DCFA_LOCAL, &mr));
    CHECK(dcfa_pd_free(pd) == -EBUSY, "a domain in use was released");
    struct dcfa_piece piece = {world->memory, 64, dcfa_mr_local_key(mr)};
    post(world, DCFA_WRITE, piece, world->cards[1].memory, world->cards[1].key);
}

static void remote_end(struct world *world)
{
    post(world, DCFA_WRITE, world_piece(world, 0, 64), world->cards[1].memory + MEMORY_BYTES - 32,
         world->cards[1].key);
}

static void closed_to_writes(struct world *world)
{
    post(world, DCFA_WRITE, world_piece(world, 0, 64), world->cards[1].memory,
         world->cards[1].closed_key);
}

static void closed_to_reads(struct world *world)
{
    post(world, DCFA_READ, world_piece(world, 0, 64), world->cards[1].memory,
         world->cards[1].closed_key);
}

/* A message that is longer than the receive. */
static void too_long(struct world *world)
{
    const struct dcfa_piece piece = world_piece(world, 0, world->rank == 0 ? 65 : 64);
    if (world->rank == 1) {
        GOOD(dcfa_post_receive(world->qps[0], 3, &piece, 1));
        const struct dcfa_completion completion = world_wait(world, world->qps[0]);
        const bool loop = strcmp(dcfa_device(world->processor), "loop") == 0;
        if (loop || completion.result != DCFA_ACCESS) /* see enum dcfa_result */
            expect(completion, DCFA_LENGTH);
    } else {
        const struct dcfa_send send = {.what = DCFA_SEND, .pieces = &piece, .piece_count = 1};
        GOOD(dcfa_post_send(world->qps[1], &send));
        expect(world_wait(world, world->qps[1]), DCFA_REMOTE_REFUSED);
    }
    world_barrier(world);
    world_connect(world);
    writes_and_reads(world);
}

void errors(struct world *world)
{
    mistake(world, no_such_local_key, DCFA_ACCESS);
    mistake(world, local_end, DCFA_ACCESS);
    mistake(world, released_key, DCFA_ACCESS);
    mistake(world, other_domain, DCFA_ACCESS);
    mistake(world, remote_end, DCFA_REMOTE_ACCESS);
    mistake(world, closed_to_writes, DCFA_REMOTE_ACCESS);
    mistake(world, closed_to_reads, DCFA_REMOTE_ACCESS);
    too_long(world);
}

/* ---- commands that tcad refuses ---- */

static void refused(int r, int error, const char *text)
{
    CHECK(r == error && strstr(tca_error_text(), text), "%d: %s", r, tca_error_text());
}

void commands(struct world *world)
{
    struct dcfa *processor;
    struct dcfa_cq *cq, *others[64];
    struct dcfa_qp *qp;
    struct dcfa_mr *mr;
    struct dcfa_address nonsense = {{1, 2, 3}}, released;
    refused(dcfa_open(world->session, 4096, &processor), -EEXIST, "already");
    refused(dcfa_cq_new(world->processor, 3, &cq), -EINVAL, "power of two");
    refused(dcfa_cq_new(world->processor, 32768, &cq), -EINVAL, "16384");
    refused(dcfa_mr_new(world->pd, world->memory - 4096, 8192, DCFA_LOCAL, &mr), -EINVAL,
            "dcfa_memory()");
    refused(dcfa_mr_new(world->pd, world->memory, 4096, 8, &mr), -EINVAL, "access 0x8");
    refused(dcfa_cq_free(world->cq), -EBUSY, "is used by");
    GOOD(dcfa_cq_new(world->processor, 16, &cq));
    struct dcfa_qp_args args = {cq, cq, 16, 16};
    refused(dcfa_qp_new(world->pd, &args, &qp), -ENOSPC, "create a longer one");
    args.send_entries = args.receive_entries = 8;
    GOOD(dcfa_qp_new(world->pd, &args, &qp));
    const struct dcfa_send send = {.what = DCFA_SEND};
    refused(dcfa_post_send(qp, &send), -ENOTCONN, "dcfa_qp_connect");
    refused(dcfa_qp_connect(qp, &nonsense), -EINVAL, "address");
    dcfa_qp_address(qp, &released);
    GOOD(dcfa_qp_free(qp));
    GOOD(dcfa_qp_new(world->pd, &args, &qp));
    if (strcmp(dcfa_device(world->processor), "loop") == 0)
        refused(dcfa_qp_connect(qp, &released), -ECONNREFUSED, "was released");
    GOOD(dcfa_qp_free(qp));
    GOOD(dcfa_cq_free(cq));
    uint32_t n = 0;
    while (n < 64 && dcfa_cq_new(world->processor, 2, &others[n]) == 0)
        n++;
    CHECK(n == 63, "%u completion queues", n);
    refused(dcfa_cq_new(world->processor, 2, &cq), -EDQUOT, "at most 64 completion queues");
    while (n > 0)
        GOOD(dcfa_cq_free(others[--n]));
}
