/*
 * groups-split SEED ROUNDS AGAIN [VICTIM]: random nested splits, the same ones at all ranks of the
 * session; in each group plans, collective operations and a halo exchange, and other numbers of
 * calls than in the groups beside it; then AGAIN splits that are freed at once. Rank VICTIM kills
 * itself then: groups without it go on, those with it fail, and the survivors are a group. Ends
 * with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/tca-coll.h"
#include "client/include/tca-group.h"
#include "client/include/tca-halo.h"
#include "client/include/tca-msg.h"
#include "tests/integration/expect.h"
#include "tests/integration/groups/world.h"

enum { RANKS_MAX = WORLD_RANKS_MAX, SLOT = 7, DEPTH = 3, COUNT = 200 };

static struct tca *session;
static struct random chosen; /* the same numbers at all ranks of a group */

static void expect_number(uint64_t number, uint64_t wanted, const char *what)
{
    if (number == wanted)
        return;
    printf("rank %u: %s: %lu, not %lu\n", rank, what, number, wanted);
    exit(1);
}

/* ---- in a group */

static void check_ranks(struct tca_group *group, const struct world *world)
{
    uint32_t all[RANKS_MAX];

    expect_number(tca_group_size(group), world->size, "size");
    expect_number(tca_group_rank(group), world_place(world, rank), "rank");
    for (uint32_t i = 0; i < world->size; i++)
        expect_number((uint64_t)tca_group_rank_in_session(group, i), world->ranks[i],
                      "rank of the session");
    for (uint32_t i = 0; i < tca_size(session); i++)
        if (world_place(world, i) < world->size)
            expect_number((uint64_t)tca_group_rank_of(group, i), world_place(world, i),
                          "rank of the group");
        else
            expect(tca_group_rank_of(group, i), -ENOENT, "not in the group", "a rank outside");
    expect(tca_group_rank_in_session(group, world->size), -EINVAL, NULL, "a rank too far");
    check(tca_group_allgather(group, &rank, sizeof(rank), all, TCA_DEFAULT), "allgather");
    for (uint32_t i = 0; i < world->size; i++)
        expect_number(all[i], world->ranks[i], "what a rank has gathered");
}

/* Each rank notifies the next one, and waits for the one before. */
static void ring(struct tca_group *group, const struct world *world)
{
    const uint32_t me = world_place(world, rank), size = world->size;
    const struct tca_plan_args args = {.name = "ring", .group = group};
    struct tca_plan *plan;

    check(tca_plan_new(session, &args, &plan), "plan");
    expect(tca_plan_notify(plan, size, SLOT), -EINVAL, "the group's ranks go from 0 to", "too far");
    tca_plan_free(plan);
    check(tca_plan_new(session, &args, &plan), "plan");
    tca_plan_notify(plan, (me + 1) % size, SLOT);
    tca_plan_chain(plan);
    tca_plan_wait(plan, (me + size - 1) % size, SLOT, 1);
    check(tca_plan_commit(plan, TCA_DEFAULT), "commit");
    for (int i = 0; i < 3; i++) {
        check(tca_start(plan), "start");
        check(tca_wait(plan, TCA_DEFAULT), "wait");
    }
    tca_plan_free(plan);
    check(tca_group_barrier(group, TCA_DEFAULT), "barrier");
}

static void start(struct tca_coll *coll)
{
    check(tca_coll_start(coll), "start of an operation");
    check(tca_coll_wait(coll, TCA_DEFAULT), "wait for an operation");
}

static void reduce(struct tca_group *group, const struct world *world)
{
    const struct tca_coll_operator sum = {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT64};
    const struct tca_coll_args args = {.plan.group = group};
    struct tca_coll *all = NULL, *one = NULL, *barrier = NULL;
    uint64_t *in, *out, total = 0;
    const uint32_t root = world->size - 1;

    check(tca_alloc(session, COUNT * sizeof(*in), (void **)&in), "alloc");
    check(tca_alloc(session, COUNT * sizeof(*out), (void **)&out), "alloc");
    check(tca_coll_allreduce(session, in, out, COUNT, &sum, &args, &all), "allreduce");
    check(tca_coll_broadcast(session, out, COUNT * sizeof(*out), root, &args, &one), "broadcast");
    check(tca_coll_barrier(session, &args, &barrier), "barrier");
    for (uint32_t turn = 0; turn < 3; turn++) {
        for (uint32_t i = 0; i < COUNT; i++)
            in[i] = rank * 1000 + i + turn;
        start(all);
        for (uint32_t i = 0; i < COUNT; i++) {
            total = 0;
            for (uint32_t r = 0; r < world->size; r++)
                total += world->ranks[r] * 1000 + i + turn;
            expect_number(out[i], total, "sum");
        }
        start(barrier);
        if (rank == world->ranks[root])
            out[0] = turn + 5;
        start(one);
        expect_number(out[0], turn + 5, "broadcast");
        start(barrier);
    }
    tca_coll_free(barrier);
    tca_coll_free(one);
    tca_coll_free(all);
    tca_free(session, in);
    tca_free(session, out);
}

/* Blocks of different lengths, and edges to the next rank. */
static void exchange(struct tca_group *group, const struct world *world)
{
    const uint32_t me = world_place(world, rank), size = world->size;
    struct tca_coll_span sent[RANKS_MAX], received[RANKS_MAX];
    const struct tca_coll_args args = {.plan.group = group};
    struct tca_coll *coll = NULL;
    uint32_t *in, *out;

    check(tca_alloc(session, RANKS_MAX * RANKS_MAX * sizeof(*in), (void **)&in), "alloc");
    check(tca_alloc(session, RANKS_MAX * RANKS_MAX * sizeof(*out), (void **)&out), "alloc");
    for (uint32_t other = 0; other < size; other++) {
        sent[other] = (struct tca_coll_span){other * RANKS_MAX * 4, (me + other + 1) % 5 * 4};
        received[other] = (struct tca_coll_span){other * RANKS_MAX * 4, (me + other + 1) % 5 * 4};
        for (uint32_t i = 0; i < 5; i++)
            in[other * RANKS_MAX + i] = rank * 10000 + other * 100 + i;
    }
    check(tca_coll_alltoallv(session, in, sent, out, received, &args, &coll), "alltoallv");
    start(coll);
    for (uint32_t other = 0; other < size; other++)
        for (uint32_t i = 0; i < (me + other + 1) % 5; i++)
            expect_number(out[other * RANKS_MAX + i], world->ranks[other] * 10000 + me * 100 + i,
                          "alltoallv");
    tca_coll_free(coll);
    const struct tca_coll_edge edge = {.rank = (me + 1) % size, .source = in, .bytes = 4};
    check(tca_coll_neighbours(session, &edge, 1, out, 4, &args, &coll), "neighbours");
    start(coll);
    expect_number(out[0], world->ranks[(me + size - 1) % size] * 10000, "neighbour");
    tca_coll_free(coll);
    tca_free(session, in);
    tca_free(session, out);
}

/* A ring of one element each. */
static void halo(struct tca_group *group, const struct world *world)
{
    const uint32_t me = world_place(world, rank), size = world->size;
    struct tca_halo_array array = {
        .element_bytes = 8, .extents = {1}, .low = {1}, .high = {1}, .memory = {NULL, NULL}};
    struct tca_halo_args args = {.dimensions = 1,
                                 .grid = {size + 1},
                                 .periodic = {1},
                                 .arrays = &array,
                                 .array_count = 1,
                                 .plan.group = group};
    struct tca_halo *halo;
    uint64_t *cells;

    check(tca_alloc(session, 3 * sizeof(*cells), (void **)&cells), "alloc");
    array.memory[0] = cells;
    expect(tca_halo_new(session, &args, &halo), -EINVAL, "size of the group", "another grid");
    args.grid[0] = size;
    check(tca_halo_new(session, &args, &halo), "halo");
    for (uint32_t step = 0; step < 3; step++) {
        cells[1] = 100 * step + rank;
        check(tca_halo_start(halo), "start of a halo exchange");
        check(tca_halo_wait(halo, TCA_DEFAULT), "wait for a halo exchange");
        expect_number(cells[0], 100 * step + world->ranks[(me + size - 1) % size], "halo below");
        expect_number(cells[2], 100 * step + world->ranks[(me + 1) % size], "halo above");
    }
    tca_halo_free(halo);
    check(tca_group_barrier(group, TCA_DEFAULT), "barrier");
    tca_free(session, cells);
}

/* ---- splits */

static void nest(struct tca_group *parent, const struct world *of_parent, unsigned depth)
{
    struct tca_group *group = NULL;
    struct world world;
    int32_t key = 0;
    const struct random before = chosen;
    const uint32_t colour = world_split(of_parent, tca_size(session), rank, &chosen, &world, &key);

    check(tca_group_split(session, parent, colour, key, TCA_DEFAULT, &group), "split");
    if ((group == NULL) != (colour == TCA_GROUP_NONE)) {
        printf("rank %u: a group for colour %u\n", rank, colour);
        exit(1);
    }
    if (group) {
        check_ranks(group, &world);
        for (uint32_t i = 0; i < colour % 5; i++)
            check(tca_group_barrier(group, TCA_DEFAULT), "barrier");
        ring(group, &world);
        if (depth % 2 == 0)
            reduce(group, &world);
        else
            exchange(group, &world);
        halo(group, &world);
        chosen.state = before.state + 1000 + world.ranks[0];
        if (depth < DEPTH)
            nest(group, &world, depth + 1);
    }
    chosen.state = before.state + 1;
    if (group)
        check(tca_group_barrier(group, TCA_DEFAULT), "barrier before the end");
    tca_group_free(group);
}

/* A group of another session is refused: its ranks and numbers mean something else here. */
static void refuse_foreign(void)
{
    static const char refusal[] = "belongs to another session";
    char name[32];
    snprintf(name, sizeof(name), "second-%d", getpid());
    const struct tca_open_args open_args = {.group = name, .size = 1};
    struct tca_halo_array nothing = {.element_bytes = 8};
    struct tca_halo_args halo_args = {.dimensions = 1,
                                      .grid = {tca_size(session)},
                                      .periodic = {1},
                                      .arrays = &nothing,
                                      .array_count = 1};
    struct tca_coll_args coll_args = {0};
    struct tca *second;
    struct tca_group *group, *none;
    struct tca_plan *plan;
    struct tca_coll *barrier;
    struct tca_halo *halo;
    struct tca_msg *msg;

    check(tca_group_split(session, NULL, 0, 0, TCA_DEFAULT, &group), "split");
    check(tca_open(&open_args, &second), "a second session");
    halo_args.plan.group = coll_args.plan.group = group;
    expect(tca_group_split(second, group, 0, 0, TCA_DEFAULT, &none), -EINVAL, refusal, "split");
    expect(tca_group_shrink(second, group, TCA_DEFAULT, &none), -EINVAL, refusal, "shrink");
    expect(tca_plan_new(second, &coll_args.plan, &plan), -EINVAL, refusal, "plan");
    expect(tca_coll_barrier(second, &coll_args, &barrier), -EINVAL, refusal, "operation");
    expect(tca_halo_new(second, &halo_args, &halo), -EINVAL, refusal, "halo");
    expect(tca_msg_new(second, &coll_args.plan, &msg), -EINVAL, refusal, "messenger");
    tca_close(second);
    check(tca_group_barrier(group, TCA_DEFAULT), "the group's session goes on");
    tca_group_free(group);
}

static void again(uint32_t count)
{
    struct tca_group *group;

    for (uint32_t i = 0; i < count; i++) {
        check(tca_group_split(session, NULL, (rank + i) % 3, 0, TCA_DEFAULT, &group),
              "split again");
        tca_group_free(group);
    }
}

/* ---- an end */

/* What is left is a group like any other. */
static void survive(uint32_t victim)
{
    struct tca_group *group;
    struct world world = {0};

    check(tca_group_shrink(session, NULL, TCA_DEFAULT, &group), "shrink");
    for (uint32_t r = 0; r < tca_size(session); r++)
        if (r != victim)
            world.ranks[world.size++] = r;
    check_ranks(group, &world);
    ring(group, &world);
    reduce(group, &world);
    halo(group, &world);
    nest(group, &world, DEPTH);
    check(tca_group_barrier(group, TCA_DEFAULT), "barrier of the survivors");
    tca_group_free(group);
}

static void lose(uint32_t victim)
{
    struct tca_group *with, *without;
    uint32_t value = rank, all[RANKS_MAX];
    int r;

    check(tca_group_split(session, NULL, rank % 3 == victim % 3, 0, TCA_DEFAULT, &with), "split");
    check(tca_group_split(session, with, rank == victim, 0, TCA_DEFAULT, &without), "split");
    if (rank == victim)
        raise(SIGKILL);
    r = tca_group_barrier(with, TCA_DEFAULT);
    if (rank % 3 == victim % 3)
        expect(r, -EOWNERDEAD, "has ended", "a group whose rank has ended");
    else
        expect(r, 0, NULL, "a group without it");
    expect(tca_group_allgather(without, &value, sizeof(value), all, TCA_DEFAULT), 0, NULL,
           "a group that it has left");
    expect(tca_group_split(session, without, 0, 0, TCA_DEFAULT, &with), 0, NULL, "its split");
    expect(tca_group_barrier(with, TCA_DEFAULT), 0, NULL, "a barrier there");
    survive(victim);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    check(tca_open(NULL, &session), "open");
    rank = tca_rank(session);
    const struct world all = world_all(tca_size(session));
    for (int round = 0; round < atoi(argv[2]); round++) {
        chosen.state = strtoull(argv[1], NULL, 0) + (uint64_t)round * 1000003;
        nest(NULL, &all, 0);
    }
    refuse_foreign();
    again((uint32_t)atoi(argv[3]));
    if (argc > 4)
        lose((uint32_t)atoi(argv[4]));
    else
        check(tca_barrier(session, TCA_DEFAULT), "last barrier");
    tca_close(session);
    return wrong;
}
