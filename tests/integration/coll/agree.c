/*
 * coll-agree SEED ROUNDS: a collective operation or a halo exchange is made at all ranks or at
 * none. In each round, none, some or all ranks give something wrong, or something else than the
 * others; all ranks know which, and expect the same. What is made is used once. Ends with 0, or
 * prints what was wrong.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "client/include/tca-coll.h"
#include "client/include/tca-halo.h"
#include "tests/integration/expect.h"

enum { RANKS_MAX = 32, COUNT = 300 };

enum kind { ALLREDUCE, ALLTOALL, NEIGHBOURS, HALO, KINDS };

/* What a rank gives: */
enum given {
    GOOD,
    NOWHERE, /* memory of no region, or none where short operations take any */
    NO_RAIL, /* what tcad refuses when the plans are made, but for operations of one rank */
    LONGER,  /* than the others */
    IN_PLACE,
    BY_DAEMON,
    GIVEN,
};

static struct tca *session;
static uint32_t size;
static uint64_t *in, *out;
static uint64_t nowhere[COUNT * RANKS_MAX];
static uint64_t state;

/* The same at all ranks. */
static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return (uint32_t)(state >> 33) % below;
}

static int make_allreduce(enum given mine, const struct tca_coll_args *args, uint64_t count,
                          struct tca_coll **ret_coll)
{
    const struct tca_coll_operator add = {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT64};

    return tca_coll_allreduce(session, mine == IN_PLACE ? NULL : in, mine == NOWHERE ? NULL : out,
                              count, &add, args, ret_coll);
}

static int make_neighbours(enum given mine, const struct tca_coll_args *args, uint64_t count,
                           struct tca_coll **ret_coll)
{
    const struct tca_coll_edge edge = {
        .rank = (rank + 1) % size, .source = in, .bytes = count * sizeof(*in)};

    return tca_coll_neighbours(session, &edge, 1, mine == NOWHERE ? nowhere : out,
                               COUNT * sizeof(*out), args, ret_coll);
}

static int make_halo(enum given mine, const struct tca_coll_args *args, uint64_t count,
                     struct tca_halo **ret_halo)
{
    const struct tca_halo_array array = {.memory = {mine == NOWHERE ? nowhere : out},
                                         .element_bytes = mine == LONGER ? 16 : 8,
                                         .extents = {count / 2},
                                         .low = {1},
                                         .high = {1}};
    const struct tca_halo_args halo = {.dimensions = 1,
                                       .grid = {size},
                                       .periodic = {1},
                                       .arrays = &array,
                                       .array_count = 1,
                                       .plan = args->plan};

    return tca_halo_new(session, &halo, ret_halo);
}

/* 0, or the error of all: that of the first rank that fails by itself, or a disagreement. */
static int expected(enum kind kind, const enum given *given)
{
    bool longer = false, shorter = false;

    for (uint32_t r = 0; r < size; r++)
        if (given[r] == NOWHERE)
            return -EINVAL;
    for (uint32_t r = 0; r < size; r++) {
        longer |= given[r] == LONGER;
        shorter |= given[r] != LONGER;
    }
    if (longer && shorter && kind != NEIGHBOURS)
        return -EPROTO;
    for (uint32_t r = 0; r < size; r++)
        if (given[r] == NO_RAIL)
            return -EINVAL;
    return 0;
}

static void use(enum kind kind, const enum given *given, struct tca_coll *coll,
                struct tca_halo *halo, uint64_t count)
{
    uint64_t sum = 0;

    for (uint32_t r = 0; r < size; r++)
        sum += r + 1;
    memset(out, 0, COUNT * size * sizeof(*out));
    for (uint64_t i = 0; i < count * size; i++)
        in[i] = rank + 1;
    for (uint64_t i = 0; i < COUNT && (kind == HALO || given[rank] == IN_PLACE); i++)
        out[i] = rank + 1;
    if (kind == HALO) {
        check(tca_barrier(session, TCA_DEFAULT), "meeting");
        check(tca_halo_start(halo), "start");
        check(tca_halo_wait(halo, TCA_DEFAULT), "wait");
        expect((int)out[0], (int)((rank + size - 1) % size + 1), NULL, "what the halo has brought");
        check(tca_barrier(session, TCA_DEFAULT), "meeting");
        tca_halo_free(halo);
        return;
    }
    check(tca_barrier(session, TCA_DEFAULT), "meeting");
    check(tca_coll_start(coll), "start");
    check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
    if (kind == ALLREDUCE)
        expect((int)out[count - 1], (int)sum, NULL, "the sum");
    for (uint32_t r = 0; kind == ALLTOALL && r < size; r++)
        expect((int)out[(r + 1) * count - 1], (int)r + 1, NULL, "a block of the alltoall");
    if (kind == NEIGHBOURS)
        expect((int)out[0], (int)((rank + size - 1) % size + 1), NULL, "the neighbour's");
    tca_coll_free(coll);
}

static void run_round(uint32_t round)
{
    const enum kind kind = (enum kind)draw(KINDS);
    const uint32_t rarely = draw(3) == 0 ? 1 : 2 + draw(2 * size);
    const uint32_t what = 1 + draw(GIVEN - 1);
    const uint64_t count = 16 + 2 * draw(COUNT / 2 - 20);
    enum given given[RANKS_MAX];
    struct tca_coll_args args = {0};
    struct tca_coll *coll = NULL;
    struct tca_halo *halo = NULL;
    char text[96];

    for (uint32_t r = 0; r < size; r++) {
        given[r] =
            draw(rarely) == 0 ? (enum given)(draw(4) == 0 ? 1 + draw(GIVEN - 1) : what) : GOOD;
        if (given[r] == IN_PLACE && kind != ALLREDUCE)
            given[r] = GOOD;
        if (given[r] == NO_RAIL && (size == 1 || kind == HALO))
            given[r] = NOWHERE;
    }
    const enum given mine = given[rank];
    const uint64_t own = mine == LONGER ? count + 2 : count;
    if (mine == BY_DAEMON)
        args.plan.seat = TCA_SEAT_DAEMON;
    if (mine == NO_RAIL)
        args.plan.rail_name = "nonsense";
    const int r = kind == ALLREDUCE  ? make_allreduce(mine, &args, own, &coll)
                  : kind == ALLTOALL ? tca_coll_alltoall(session, in, mine == NOWHERE ? NULL : out,
                                                         own * sizeof(*in), &args, &coll)
                  : kind == NEIGHBOURS ? make_neighbours(mine, &args, own, &coll)
                                       : make_halo(mine, &args, own, &halo);
    const int error = expected(kind, given);
    snprintf(text, sizeof(text), "round %u, kind %d, given %d", round, kind, mine);
    expect(r, error, NULL, text);
    if (wrong)
        exit(1); /* the ranks may not be in the same call any more */
    if (r >= 0)
        use(kind, given, coll, halo, own);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    state = strtoul(argv[1], NULL, 10);
    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    size = tca_size(session);
    if (size > RANKS_MAX)
        return 2;
    check(tca_alloc(session, (COUNT + 2) * size * sizeof(*in), (void **)&in), "memory");
    check(tca_alloc(session, (COUNT + 2) * size * sizeof(*out), (void **)&out), "memory");
    for (uint32_t round = 0; round < (uint32_t)atoi(argv[2]); round++)
        run_round(round);
    tca_close(session);
    return wrong;
}
