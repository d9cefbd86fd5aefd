#include "tests/integration/dcfa/world.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void exchange_cards(struct world *world)
{
    struct card own = {.memory = (uintptr_t)world->memory,
                       .key = dcfa_mr_remote_key(world->mr),
                       .closed_key = dcfa_mr_remote_key(world->closed)};
    for (uint32_t i = 0; i < world->size; i++)
        dcfa_qp_address(world->qps[i], &own.addresses[i]);
    GOOD(tca_allgather(world->session, &own, sizeof(own), world->cards, TCA_FOREVER));
}

void world_connect(struct world *world)
{
    const struct dcfa_qp_args args = {world->cq, world->cq, ENTRIES, ENTRIES};
    struct dcfa_completion rest;
    for (uint32_t i = 0; i < world->size; i++) {
        GOOD(dcfa_qp_free(world->qps[i]));
        GOOD(dcfa_qp_new(world->pd, &args, &world->qps[i]));
    }
    while (dcfa_poll(world->cq, 1, &rest) > 0)
        ;
    exchange_cards(world);
    for (uint32_t i = 0; i < world->size; i++)
        GOOD(dcfa_qp_connect(world->qps[i], &world->cards[i].addresses[world->rank]));
    world_barrier(world);
}

void world_open(struct world *world, const char *group, uint32_t rank, uint32_t size)
{
    const struct tca_open_args args = {
        .group = group, .rank = rank, .size = size, .timeout_ns = 100000000000};
    uint64_t bytes;
    *world = (struct world){.rank = rank, .size = size};
    GOOD(tca_open(&args, &world->session));
    GOOD(dcfa_open(world->session, MEMORY_BYTES, &world->processor));
    world->memory = dcfa_memory(world->processor, &bytes);
    CHECK(bytes == MEMORY_BYTES, "%llu", (unsigned long long)bytes);
    GOOD(dcfa_pd_new(world->processor, &world->pd));
    GOOD(dcfa_cq_new(world->processor, CQ_ENTRIES, &world->cq));
    GOOD(dcfa_mr_new(world->pd, world->memory, bytes, DCFA_REMOTE_WRITE | DCFA_REMOTE_READ,
                     &world->mr));
    GOOD(dcfa_mr_new(world->pd, world->memory, bytes, DCFA_LOCAL, &world->closed));
    world_connect(world);
}

void world_close(struct world *world)
{
    dcfa_close(world->processor);
    tca_close(world->session);
}

void world_barrier(struct world *world)
{
    GOOD(tca_barrier(world->session, TCA_FOREVER));
}

int world_run(uint32_t size, int dies, void (*run)(struct world *world))
{
    pid_t pids[RANKS_MAX];
    char group[32];
    int failed = 0;
    snprintf(group, sizeof(group), "dcfa%d", getpid());
    for (uint32_t rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            static struct world world;
            prctl(PR_SET_PDEATHSIG, 9);
            world_open(&world, group, rank, size);
            run(&world);
            world_close(&world);
            exit(0);
        }
        CHECK(pids[rank] > 0, "fork");
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        int status;
        CHECK(waitpid(pids[rank], &status, 0) == pids[rank], "waitpid");
        if ((int)rank == dies ? WIFSIGNALED(status) : status == 0)
            continue;
        fprintf(stderr, "rank %u ended with 0x%x\n", rank, (unsigned)status);
        failed = 1;
    }
    return failed;
}

struct dcfa_completion world_wait(struct world *world, const struct dcfa_qp *qp)
{
    struct dcfa_completion completion;
    GOOD(dcfa_wait(world->cq, 1, TCA_DEFAULT, &completion));
    CHECK(!qp || completion.qp == dcfa_qp_number(qp), "a completion of queue pair %u",
          completion.qp);
    return completion;
}

struct dcfa_piece world_piece(const struct world *world, uint64_t offset, uint32_t bytes)
{
    return (struct dcfa_piece){world->memory + offset, bytes, dcfa_mr_local_key(world->mr)};
}

struct dcfa_completion world_move(struct world *world, uint32_t peer, enum dcfa_operation what,
                                  uint64_t mine, uint64_t theirs, uint32_t bytes)
{
    const struct dcfa_piece piece = world_piece(world, mine, bytes);
    const struct dcfa_send send = {.id = 77,
                                   .what = what,
                                   .flags = DCFA_SIGNALLED,
                                   .pieces = &piece,
                                   .piece_count = 1,
                                   .immediate = peer,
                                   .remote_address = world->cards[peer].memory + theirs,
                                   .remote_key = world->cards[peer].key};
    GOOD(dcfa_post_send(world->qps[peer], &send));
    return world_wait(world, world->qps[peer]);
}

void world_fill(uint8_t *at, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)((i + seed) * 2654435761u >> 24);
}

bool world_is(const uint8_t *at, uint32_t bytes, uint32_t seed)
{
    for (uint32_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)((i + seed) * 2654435761u >> 24))
            return false;
    return true;
}
