/*
 * coll-alike: whatever ranks give differently, they choose the same algorithm. Ranks differ in
 * their environment, and in turn in who does it in place, in the seat and in the thread that they
 * ask for; the lengths are such that these would change the choice. Every element is checked. Ends
 * with 0, or prints what was wrong.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"

enum { RANKS_MAX = 8, COUNT_MAX = 20000, STARTS = 2 };

static struct tca *session;
static uint32_t size;
static uint64_t *in, *out;

enum kind { REDUCE, ALLREDUCE, ALLGATHER, KINDS };

/* What the ranks do differently. */
enum turn { ROOT_IN_PLACE, ONE_IN_PLACE, SEATS, THREADS, TURNS };

static uint64_t value(uint32_t of_rank, uint32_t start, uint64_t i)
{
    return of_rank * 1000003 + start * 7919 + i;
}

static bool in_place(enum kind kind, enum turn turn, uint32_t root)
{
    if (kind == REDUCE)
        return rank == root && (turn == ROOT_IN_PLACE || turn == SEATS);
    return turn == ONE_IN_PLACE && rank == root;
}

static struct tca_coll *make(enum kind kind, enum turn turn, uint64_t count, uint32_t root)
{
    const struct tca_coll_operator add = {.combine = TCA_COMBINE_SUM, .type = TCA_TYPE_UINT64};
    struct tca_coll_args args = {.thread = turn == THREADS && rank == root};
    const void *from = in_place(kind, turn, root) ? NULL : in;
    struct tca_coll *coll = NULL;

    if (turn == SEATS)
        args.plan.seat = rank % 2 ? TCA_SEAT_DAEMON : TCA_SEAT_ANY;
    check(kind == REDUCE ? tca_coll_reduce(session, from, out, count, &add, root, &args, &coll)
          : kind == ALLREDUCE
              ? tca_coll_allreduce(session, from, out, count, &add, &args, &coll)
              : tca_coll_allgather(session, from, out, count * sizeof(*in), &args, &coll),
          "preparing it");
    return coll;
}

/* All ranks have chosen the same. */
static void compare_choice(const struct tca_coll *coll)
{
    uint32_t all[RANKS_MAX], mine = tca_coll_algorithm_of(coll);

    check(tca_allgather(session, &mine, sizeof(mine), all, TCA_DEFAULT), "comparing");
    for (uint32_t r = 0; r < size; r++)
        expect((int)all[r], (int)mine, NULL, "algorithm of another rank");
}

static void compare(enum kind kind, uint64_t count, uint32_t root, uint32_t start)
{
    uint64_t expected[RANKS_MAX] = {0}, blocks = kind == ALLGATHER ? size : 1;

    for (uint64_t i = 0; i < blocks * count; i++) {
        expected[0] = 0;
        for (uint32_t r = 0; r < size; r++)
            expected[0] += value(r, start, i);
        if (kind == ALLGATHER)
            expected[0] = value((uint32_t)(i / count), start, i % count);
        if ((kind == REDUCE && rank != root) || out[i] == expected[0])
            continue;
        printf("rank %u: kind %d of %lu elements, root %u, start %u: element %lu is %lu, not %lu\n",
               rank, kind, count, root, start, i, out[i], expected[0]);
        exit(1);
    }
}

static void run(enum kind kind, enum turn turn, uint64_t count, uint32_t root)
{
    struct tca_coll *coll = make(kind, turn, count, root);

    compare_choice(coll);
    for (uint32_t start = 0; start < STARTS; start++) {
        uint64_t *own = !in_place(kind, turn, root) ? in
                        : kind == ALLGATHER         ? out + rank * count
                                                    : out;
        memset(out, 0x5a, size * COUNT_MAX * sizeof(*out));
        for (uint64_t i = 0; i < count; i++)
            own[i] = value(rank, start, i);
        check(tca_coll_start(coll), "start");
        check(tca_coll_wait(coll, TCA_DEFAULT), "wait");
        compare(kind, count, root, start);
    }
    tca_coll_free(coll);
}

/* Before the session is opened. */
static void differ(void)
{
    static const char *const tune[] = {"on", "off", "frozen"},
                             *const copy[] = {"any", "push", "pull"},
                             *const seat[] = {"any", "daemon", "any"};
    const char *number = getenv("TCA_RANK");
    uint32_t me = number ? (uint32_t)strtoul(number, NULL, 10) : 0;

    setenv("TCA_TUNE", tune[me % 3], 1);
    setenv("TCA_COPY", copy[me % 3], 1);
    setenv("TCA_SEAT", seat[me % 3], 1);
    setenv("TCA_WISDOM", me % 2 ? "" : "/nowhere/wisdom", 1);
}

int main(void)
{
    differ();
    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    size = tca_size(session);
    if (size > RANKS_MAX)
        return 2;
    check(tca_alloc(session, COUNT_MAX * sizeof(*in), (void **)&in), "memory");
    check(tca_alloc(session, size * COUNT_MAX * sizeof(*out), (void **)&out), "memory");
    uint32_t turn = 0;
    for (uint64_t count = 64; count < COUNT_MAX; count += count / 4, turn++) {
        run(REDUCE, ROOT_IN_PLACE, count, turn % size);
        run((enum kind)(turn % KINDS), (enum turn)(ONE_IN_PLACE + turn / 2 % (TURNS - 1)), count,
            (turn + 1) % size);
    }
    tca_close(session);
    return wrong;
}
