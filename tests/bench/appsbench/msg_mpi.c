/* msg_mpi SIZES [here|elsewhere]: what msg_tca.c measures, by MPI, with persistent requests and
 * without. Rank 0 writes a line of JSON for each. */
#include <errno.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "cases.h"
#include "tests/bench/overlap.h"

enum how { PERSISTENT, ONE_SHOT, HOWS };
static const char *const names[HOWS] = {"persistent", "one-shot"};

static bool overlaps;

struct bench {
    int rank, bytes;
    uint64_t *sent, *kept;
    MPI_Request send, receive;
    uint64_t messages;
};

static void send(struct bench *b, enum how how)
{
    *b->sent = ++b->messages;
    if (how == PERSISTENT) {
        MPI_Start(&b->send);
        MPI_Wait(&b->send, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(b->sent, b->bytes, MPI_BYTE, 1 - b->rank, 1, MPI_COMM_WORLD);
    }
}

static void expect(struct bench *b, enum how how, MPI_Request *ret_request)
{
    if (how == PERSISTENT)
        MPI_Start(&b->receive);
    else
        MPI_Irecv(b->kept, b->bytes, MPI_BYTE, 1 - b->rank, 1, MPI_COMM_WORLD, ret_request);
}

static void receive(struct bench *b, enum how how, MPI_Request *request)
{
    MPI_Wait(how == PERSISTENT ? &b->receive : request, MPI_STATUS_IGNORE);
    if (*b->kept != ++b->messages) {
        fprintf(stderr, "msg_mpi: rank %d: a wrong message\n", b->rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static double measure(struct bench *b, enum how how, uint64_t count)
{
    MPI_Request request;

    expect(b, how, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    uint64_t start_ns = now_ns();
    for (uint64_t n = 0; n < count; n++) {
        if (b->rank == 0)
            send(b, how);
        receive(b, how, &request);
        if (n + 1 < count)
            expect(b, how, &request);
        if (b->rank == 1)
            send(b, how);
    }
    return (double)(now_ns() - start_ns) / 2e3 / (double)count;
}

/* ---- both at once */

struct operation {
    struct bench *b;
    enum how how;
    MPI_Request once[2];
};

static void start(void *operation)
{
    struct operation *o = operation;

    expect(o->b, o->how, &o->once[0]);
    if (o->how == PERSISTENT)
        MPI_Start(&o->b->send);
    else
        MPI_Isend(o->b->sent, o->b->bytes, MPI_BYTE, 1 - o->b->rank, 1, MPI_COMM_WORLD,
                  &o->once[1]);
}

static void await(void *operation)
{
    struct operation *o = operation;

    if (o->how == ONE_SHOT) {
        MPI_Waitall(2, o->once, MPI_STATUSES_IGNORE);
        return;
    }
    MPI_Wait(&o->b->receive, MPI_STATUS_IGNORE);
    MPI_Wait(&o->b->send, MPI_STATUS_IGNORE);
}

static void together(void)
{
    MPI_Barrier(MPI_COMM_WORLD);
}

static double of_rank_0(double number)
{
    MPI_Bcast(&number, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    return number;
}

static double hidden(struct bench *b, enum how how)
{
    struct operation operation = {.b = b, .how = how};

    together();
    double us = of_rank_0((double)complete_all(&operation, WARM) / 1e3 / WARM);
    return hidden_part(&operation, of_rank_0(median_us(complete_all, &operation, count_for(us))));
}

static int run(struct bench *b)
{
    const struct bench_case one = {.bytes = (uint64_t)b->bytes};
    double us[HOWS][REPEATS];
    uint64_t counts[HOWS];

    b->sent = calloc(1, (size_t)b->bytes);
    b->kept = calloc(1, (size_t)b->bytes);
    if (!b->sent || !b->kept)
        return -ENOMEM;
    MPI_Send_init(b->sent, b->bytes, MPI_BYTE, 1 - b->rank, 0, MPI_COMM_WORLD, &b->send);
    MPI_Recv_init(b->kept, b->bytes, MPI_BYTE, 1 - b->rank, 0, MPI_COMM_WORLD, &b->receive);
    for (enum how how = 0; how < HOWS; how++) {
        counts[how] = count_for(2 * measure(b, how, WARM));
        MPI_Bcast(&counts[how], 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    }
    for (int n = 0; n < REPEATS; n++)
        for (enum how how = 0; how < HOWS; how++)
            us[how][n] = measure(b, how, counts[how]);
    for (enum how how = 0; how < HOWS; how++) {
        double part = overlaps ? hidden(b, how) : 0;
        if (b->rank == 0)
            case_print(&one, names[how], median_of_doubles(us[how], REPEATS),
                       overlaps ? &part : NULL);
    }
    MPI_Request_free(&b->send);
    MPI_Request_free(&b->receive);
    free(b->sent);
    free(b->kept);
    return 0;
}

int main(int argc, char **argv)
{
    struct bench b = {.messages = 0};
    int size, r;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    r = (argc == 2 || argc == 3) && size == 2 ? 0 : -EINVAL;
    overlaps = argc == 3;
    if (overlaps)
        compute_where(argv[2]);
    for (char *next = argv[1]; r >= 0 && *next; next += *next == ',') {
        b.bytes = (int)strtoul(next, &next, 10);
        r = b.bytes >= 8 && (*next == ',' || !*next) ? run(&b) : -EINVAL;
    }
    if (r < 0) {
        fprintf(stderr,
                "Usage: msg_mpi SIZES [here|elsewhere], of at least 8 bytes, with two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return 0;
}
