/*
 * coll-errors: what the functions of tca-coll.h reject, at both ranks of a group of two. Ends with
 * 0, or prints what was wrong.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"

enum { COUNT = 10, LONG = 1000, OPERATIONS = 130, STARTS = 4 };

static struct tca *session;
static double *in, *out;

static void add(const void *left, const void *right, void *result, uint64_t count, void *context)
{
    (void)context;
    for (uint64_t i = 0; i < count; i++)
        ((double *)result)[i] = ((const double *)left)[i] + ((const double *)right)[i];
}

static const struct tca_coll_operator sum = {.function = add, .element_bytes = sizeof(double)};

/* An error of one rank is one of both; the other one's text names it. */
static void by_one_rank(void)
{
    double outside[LONG];
    struct tca_coll_operator nothing = sum;
    struct tca_coll *coll = NULL;

    nothing.function = NULL;
    expect(tca_coll_allreduce(session, in, rank == 1 ? NULL : out, COUNT, &sum, NULL, &coll),
           -EINVAL, rank == 1 ? "out is NULL" : "rank 1: out is NULL", "no memory");
    expect(tca_coll_allreduce(session, in, rank == 0 ? outside : out, LONG, &sum, NULL, &coll),
           -EINVAL, rank == 0 ? "out: " : "rank 0: out: ", "memory of no region");
    expect(tca_coll_allreduce(session, in, out, COUNT, rank == 1 ? &nothing : &sum, NULL, &coll),
           -EINVAL, rank == 1 ? "or a function" : "rank 1: a reduction needs", "no function");
    nothing = (struct tca_coll_operator){.combine = TCA_COMBINE_BIT_AND, .type = TCA_TYPE_DOUBLE};
    expect(tca_coll_allreduce(session, in, out, COUNT, &nothing, NULL, &coll), -EINVAL, NULL,
           "bits of numbers");
    nothing.type = (enum tca_type)99;
    expect(tca_coll_allreduce(session, in, out, COUNT, rank == 1 ? &nothing : &sum, NULL, &coll),
           -EINVAL, rank == 1 ? "type 99" : "rank 1: ", "no type");
    expect(tca_coll_broadcast(session, out, COUNT, rank == 1 ? 2 : 0, NULL, &coll), -EINVAL,
           rank == 1 ? "root 2: the group has the ranks 0 to 1" : "rank 1: root 2", "root");
    expect(tca_coll_alltoall(session, in, out, rank == 0 ? UINT64_MAX : 8, NULL, &coll), -EINVAL,
           rank == 0 ? "shorter than 2^48 bytes" : "elements of 2 bytes", "length");
    expect(tca_coll_allgatherv(session, in, out, NULL, NULL, &coll), -EINVAL, "spans is NULL",
           "spans");
    struct tca_coll_edge edge = {.rank = rank == 1 ? 2 : 0, .source = in, .bytes = 8};
    expect(tca_coll_neighbours(session, &edge, 1, out, 64, NULL, &coll), -EINVAL,
           rank == 1 ? "edge 0 leads to rank 2" : "rank 1: edge 0", "edge");
    edge = (struct tca_coll_edge){.rank = 1 - rank, .source = in, .bytes = rank == 1 ? 65 : 8};
    expect(tca_coll_neighbours(session, &edge, 1, out, 64, NULL, &coll), -EINVAL,
           rank == 1 ? NULL : "rank 1: ", "edge beyond the neighbour's memory");
    expect(coll != NULL, 0, NULL, "an operation in spite of the error");
}

/* What tcad rejects when a plan is committed. */
static void by_rail(void)
{
    struct tca_coll_args args = {.plan.rail_name = rank == 1 ? "nonsense" : NULL};
    struct tca_coll *coll = NULL;

    expect(tca_coll_allreduce(session, in, out, COUNT, &sum, &args, &coll), -EINVAL,
           rank == 1 ? "rail nonsense" : "rank 1: plan \"allreduce, ", "rail");
    expect(tca_coll_broadcast(session, out, COUNT, 1, &args, &coll), -EINVAL, "rail nonsense",
           "rail of a broadcast");
    expect(coll != NULL, 0, NULL, "an operation in spite of the error");
}

static void by_disagreement(void)
{
    struct tca_coll_span sent[2] = {{0, 8}, {8, 8}}, received[2] = {{0, 8}, {8, 8}};
    struct tca_coll_args args = {.algorithm = rank ? TCA_COLL_CHAIN : TCA_COLL_BINOMIAL};
    struct tca_coll *coll = NULL;

    if (rank == 0)
        expect(tca_coll_barrier(session, NULL, &coll), -EPROTO, "different operations", "barrier");
    else
        expect(tca_coll_alltoall(session, in, out, 8, NULL, &coll), -EPROTO, "different operations",
               "alltoall");
    expect(tca_coll_broadcast(session, out, COUNT + rank, 0, NULL, &coll), -EPROTO,
           "ranks 0 and 1 disagree", "lengths");
    expect(tca_coll_broadcast(session, out, COUNT, 0, &args, &coll), -EPROTO,
           "ranks 0 and 1 disagree", "algorithms");
    args.algorithm = rank ? TCA_COLL_DIRECT : TCA_COLL_ANY;
    expect(tca_coll_broadcast(session, out, COUNT, 0, &args, &coll), -EPROTO,
           "ranks 0 and 1 disagree", "one of them requests an algorithm");
    if (rank == 1)
        received[0].bytes = 16;
    expect(tca_coll_alltoallv(session, in, sent, out, received, NULL, &coll), -EPROTO,
           rank == 0 ? "sends 8 bytes to rank 1, which expects 16" : "rank 0: this rank sends",
           "alltoallv");
    expect(coll != NULL, 0, NULL, "an operation in spite of the error");
}

static void by_algorithm(void)
{
    struct tca_coll_args args = {.algorithm = TCA_COLL_RING};
    struct tca_coll_operator ordered = sum;
    struct tca_coll *coll = NULL;

    expect(tca_coll_broadcast(session, out, COUNT, 0, &args, &coll), -EINVAL,
           "\"ring\" does not suit", "ring");
    ordered.ordered = 1;
    expect(tca_coll_allreduce(session, in, out, COUNT, &ordered, &args, &coll), -EINVAL,
           "\"ring\" does not suit", "ordered ring");
}

/* Operations one after the other, and many at once. */
static void by_number(void)
{
    struct tca_coll *colls[OPERATIONS] = {0};

    for (int i = 0; i < 2 * OPERATIONS; i++) {
        expect(tca_coll_barrier(session, NULL, &colls[0]), 0, NULL, "barrier");
        colls[0] = tca_coll_free(colls[0]);
    }
    for (int i = 0; i < OPERATIONS; i++)
        expect(tca_coll_barrier(session, NULL, &colls[i]), 0, NULL, "one of many barriers");
    for (int i = 0; i < OPERATIONS; i++)
        colls[i] = tca_coll_free(colls[i]);
}

static void by_state(void)
{
    struct tca_coll *coll = NULL;
    char text[1024], little[8];

    expect(tca_coll_broadcast(session, out, COUNT, 1, NULL, &coll), 0, NULL, "broadcast");
    if (!coll)
        return;
    expect(tca_coll_test(coll), 1, NULL, "test before a start");
    expect(tca_coll_wait(coll, 0), 0, NULL, "wait before a start");
    if (rank == 0) { /* the root starts only after this has been seen */
        expect(tca_coll_start(coll), 0, NULL, "start");
        expect(tca_coll_start(coll), -EBUSY, "still running", "second start");
        expect(tca_coll_wait(coll, 1000), -ETIMEDOUT, "within 1e-06 s", "wait");
        expect(tca_coll_test(coll), 0, NULL, "test");
    }
    struct tca_coll_args args = {.thread = 1};
    struct tca_coll *other = NULL;
    expect(tca_coll_barrier(session, &args, &other), -EBUSY,
           rank == 0 ? "is running" : "rank 0: ", "a thread while an operation runs");
    if (rank == 1)
        expect(tca_coll_start(coll), 0, NULL, "start");
    expect(tca_coll_wait(coll, TCA_DEFAULT), 0, NULL, "wait");
    tca_coll_explain(coll, text, sizeof(text));
    if (!strstr(text, "broadcast of 2 ranks") || !strstr(text, "* ") || !strstr(text, "trinary")) {
        printf("rank %u: explained as %s\n", rank, text);
        wrong = 1;
    }
    tca_coll_explain(coll, little, sizeof(little));
    expect((int)strlen(little), sizeof(little) - 1, NULL, "length of a truncated text");
    tca_coll_free(coll);
}

/* A forked child, which has no such thread, frees its copy. */
static void free_in_child(struct tca_coll *coll)
{
    int status = -1;
    const pid_t child = fork();

    if (child == 0) {
        alarm(30);
        tca_coll_free(coll);
        _exit(0);
    }
    waitpid(child, &status, 0);
    expect(status, 0, NULL, "an operation that a child frees");
}

/* Rank 1 starts only after rank 0 has seen all this. */
static void by_thread(void)
{
    struct tca_coll_args args = {.thread = 1};
    struct tca_coll *coll = NULL, *gate = NULL;
    char text[1024];

    expect(tca_coll_barrier(session, NULL, &gate), 0, NULL, "barrier");
    expect(tca_coll_broadcast(session, out, COUNT, 1, &args, &coll), 0, NULL, "broadcast");
    if (!coll || !gate)
        return;
    if (rank == 0) {
        expect(tca_coll_start(coll), 0, NULL, "start");
        expect(tca_coll_start(coll), -EBUSY, "still running", "second start");
        expect(tca_coll_wait(coll, 1000), -ETIMEDOUT, "within 1e-06 s", "wait");
        expect(tca_coll_test(coll), 0, NULL, "test");
    }
    expect(tca_coll_start(gate), 0, NULL, "start");
    expect(tca_coll_wait(gate, TCA_DEFAULT), 0, NULL, "wait");
    if (rank == 1)
        expect(tca_coll_start(coll), 0, NULL, "start");
    expect(tca_coll_wait(coll, TCA_DEFAULT), 0, NULL, "wait");
    expect(tca_coll_test(coll), 1, NULL, "test");
    tca_coll_explain(coll, text, sizeof(text));
    expect(!strstr(text, "by a thread"), 0, NULL, "text");
    free_in_child(coll);
    tca_coll_free(coll);
    tca_coll_free(gate);
}

/* Each rank in turn begins an alltoall long before the other one, whose memory it must not touch.
 * An earlier operation has left nothing in the slots. */
static void expect_order(const char *what)
{
    const struct tca_coll_args direct = {.algorithm = TCA_COLL_DIRECT};
    struct tca_coll *coll = NULL;

    expect(tca_coll_alltoall(session, in, out, sizeof(*in), &direct, &coll), 0, NULL, what);
    for (uint32_t start = 0; coll && start < STARTS; start++) {
        in[0] = 10 * start + rank;
        in[1] = 10 * start + rank + 0.5;
        out[0] = out[1] = -1;
        check(tca_barrier(session, TCA_DEFAULT), "barrier");
        if (rank == start % 2) {
            expect(tca_coll_start(coll), 0, NULL, what);
            for (int look = 0; look < 30; look++) {
                tca_coll_test(coll);
                usleep(200);
            }
        }
        check(tca_barrier(session, TCA_DEFAULT), "barrier");
        if (rank != start % 2) {
            expect((int)out[start % 2], -1, NULL, what);
            expect(tca_coll_start(coll), 0, NULL, what);
        }
        expect(tca_coll_wait(coll, TCA_DEFAULT), 0, NULL, what);
        for (uint32_t r = 0; r < 2; r++)
            expect(out[r] == 10 * start + r + rank * 0.5, 1, NULL, what);
    }
    tca_coll_free(coll);
}

/* Nobody is notified in the slots of an operation that another rank could not prepare, nor in those
 * of an operation that the ranks did not start equally often. */
static void by_slots(void)
{
    struct tca_coll_args client = {.plan.seat = TCA_SEAT_CLIENT}, nowhere = {0};
    struct tca_coll *coll = NULL;

    for (uint32_t failing = 0; failing < 2; failing++) {
        nowhere.plan.rail_name = rank == failing ? "nonsense" : NULL;
        expect(tca_coll_broadcast(session, out, 13, failing, &nowhere, &coll), -EINVAL,
               "rail nonsense", "no rail at the root");
        expect_order("after a root without a rail");
        expect(tca_coll_broadcast(session, out, 13, 1 - failing, &nowhere, &coll), -EINVAL,
               "rail nonsense", "no rail at the other rank");
        expect_order("after a rank without a rail");
    }
    if (tca_coll_broadcast(session, out, 13, 1, &client, &coll) == 0)
        tca_coll_free(coll);
    expect_order("after a broadcast in the client's seat");

    expect(tca_coll_broadcast(session, out, 13, 0, NULL, &coll), 0, NULL, "broadcast");
    for (uint32_t start = 0; coll && start < 2 - rank; start++) {
        expect(tca_coll_start(coll), 0, NULL, "start");
        expect(tca_coll_wait(coll, TCA_DEFAULT), 0, NULL, "wait");
    }
    tca_coll_free(coll);
    expect_order("after a broadcast that the root started once more");
}

int main(void)
{
    if (tca_open(NULL, &session) < 0) {
        printf("tca_open(): %s\n", tca_error_text());
        return 1;
    }
    rank = tca_rank(session);
    void *memory[2];
    for (int i = 0; i < 2; i++)
        if (tca_alloc(session, LONG * sizeof(double), &memory[i]) < 0)
            return 1;
    in = memory[0];
    out = memory[1];
    by_one_rank();
    by_rail();
    by_disagreement();
    by_algorithm();
    by_number();
    by_state();
    by_thread();
    by_slots();
    tca_close(session);
    return wrong;
}
