/*
 * coll-neighbours SEED ROUNDS STARTS: alltoall between random neighbours, the same ones at all
 * ranks of the group: rows of a matrix become columns of the neighbour's, and the other way round.
 * Every element is checked after every start. Each edge has one beside it over which nothing goes.
 * In some rounds, the matrices are attached memory. Ends with 0, or prints what was wrong.
 */
#include <unistd.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"
#include "tests/unit/proto/random.h"

enum { RANKS = 16, SIDE_MAX = 24, EDGES_MAX = 3 * RANKS, UNTOUCHED = -1 };

/* Line `from_line` of the sender becomes line `to_line` of the receiver. No two go to the same
 * lines. */
struct edge {
    uint32_t from, to, from_line, to_line;
};

static struct tca *session;
static uint32_t size, side;
static struct edge edges[EDGES_MAX];
static uint32_t edge_count;
static int32_t *in, *out;

static int32_t value(uint32_t start, uint32_t from, uint32_t line, uint32_t i)
{
    return (int32_t)(((start * RANKS + from) * SIDE_MAX + line) * SIDE_MAX + i);
}

/* Each receiver has as many lines as there may be edges to it, taken in turn. */
static void choose(struct random *random)
{
    uint32_t taken[RANKS] = {0};

    side = 3 + (uint32_t)random_below(random, SIDE_MAX - 3);
    edge_count = 0;
    for (uint64_t n = random_below(random, 3 * size); n > 0; n--) {
        struct edge edge = {.from = (uint32_t)random_below(random, size),
                            .to = (uint32_t)random_below(random, size),
                            .from_line = (uint32_t)random_below(random, side)};
        edge.to_line = taken[edge.to]++;
        if (edge.to_line < side)
            edges[edge_count++] = edge;
    }
}

static struct tca_coll *make(void)
{
    struct tca_coll_edge mine[2 * EDGES_MAX];
    struct tca_layout *column, *empty;
    struct tca_coll *coll;
    uint32_t count = 0;

    check(tca_layout_strided(side, sizeof(*out), side * (int64_t)sizeof(*out), &column), "layout");
    check(tca_layout_contiguous(0, &empty), "layout");
    for (uint32_t i = 0; i < edge_count; i++)
        if (edges[i].from == rank) { /* from a row to a column */
            mine[count++] =
                (struct tca_coll_edge){.rank = edges[i].to,
                                       .source = in + (size_t)edges[i].from_line * side,
                                       .target_offset_bytes = edges[i].to_line * sizeof(*out),
                                       .target_layout = column};
            mine[count++] = (struct tca_coll_edge){.rank = edges[i].to, .target_layout = empty};
        }
    check(tca_coll_neighbours(session, mine, count, out, (uint64_t)side * side * sizeof(*out), NULL,
                              &coll),
          "preparing it");
    tca_layout_free(column);
    tca_layout_free(empty);
    return coll;
}

static void compare(uint32_t start)
{
    for (uint32_t line = 0; line < side; line++) {
        const struct edge *edge = NULL;
        for (uint32_t i = 0; i < edge_count; i++)
            if (edges[i].to == rank && edges[i].to_line == line)
                edge = &edges[i];
        for (uint32_t i = 0; i < side; i++) {
            int32_t got = out[(size_t)i * side + line];
            int32_t expected = edge ? value(start, edge->from, edge->from_line, i) : UNTOUCHED;
            if (got == expected)
                continue;
            printf("rank %u, start %u: element %u of column %u is %d, not %d\n", rank, start, i,
                   line, got, expected);
            exit(1);
        }
    }
}

static void run(struct random *delays, uint64_t starts)
{
    struct tca_coll *coll = make();

    for (uint32_t start = 0; start < starts; start++) {
        memset(out, 0xff, (size_t)side * side * sizeof(*out));
        for (uint32_t i = 0; i < side * side; i++)
            in[i] = value(start, rank, i / side, i % side);
        if (random_below(delays, 4) == 0)
            usleep((useconds_t)random_below(delays, 2000));
        check(tca_coll_start(coll), "start");
        check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
        compare(start);
    }
    tca_coll_free(coll);
}

/* The same matrices for all rounds, and others that are attached. */
static int32_t *memory[2][2];

static void take_memory(void)
{
    static int32_t attached[2][SIDE_MAX * SIDE_MAX];
    struct tca_region *region;

    for (int i = 0; i < 2; i++) {
        check(tca_alloc(session, sizeof(attached[i]), (void **)&memory[0][i]), "memory");
        memory[1][i] = attached[i];
        check(tca_region_attach(session, attached[i], sizeof(attached[i]), &region), "attaching");
    }
}

/* Blocks of 0 bytes need no memory. */
static void nothing(void)
{
    static const struct tca_coll_span none[RANKS];
    struct tca_coll *coll;

    check(tca_coll_alltoallv(session, NULL, none, NULL, none, NULL, &coll), "preparing nothing");
    for (int start = 0; start < 3; start++) {
        check(tca_coll_start(coll), "start");
        check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
    }
    tca_coll_free(coll);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    check(tca_open(NULL, &session), "opening");
    struct random random = {strtoull(argv[1], NULL, 0)};
    rank = tca_rank(session);
    size = tca_size(session);
    struct random delays = {random.state * 64 + rank};
    if (size > RANKS)
        return 2;
    take_memory();
    nothing();
    for (uint64_t rounds = strtoull(argv[2], NULL, 0); rounds > 0; rounds--) {
        choose(&random);
        in = memory[random_below(&delays, 2)][0];
        out = memory[random_below(&delays, 2)][1];
        run(&delays, strtoull(argv[3], NULL, 0));
    }
    tca_close(session);
    return wrong;
}
