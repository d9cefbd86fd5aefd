/*
 * mpi_bench: what tca-bench measures, by MPI's persistent requests, for Open MPI and MPICH. Two
 * ranks; rank 0 writes JSON lines of the same form to stdout. The work beside the communication is
 * tca-bench's own (work.h).
 *
 *     mpi_bench SECONDS_PER_ROW BENCH[,BENCH...] BYTES[,BYTES...] [block-stride]
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/tca-bench/work.h"

#define AREA_BYTES  (8u << 20)
#define SAMPLES_MAX 2000
#define WINDOW      16
#define STARTS      8

struct bench {
    int me, peer;
    double seconds;
    bool strided;
    struct shape shape;
    MPI_Datatype type; /* the shape */
    char *send, *receive;
    uint64_t value;
    uint64_t ps[SAMPLES_MAX];
    uint64_t samples;
    double transfer_ns, compute_ns, hidden; /* overlap */
};

static void sample(struct bench *bench, uint64_t ns, uint64_t rounds)
{
    if (bench->samples < SAMPLES_MAX)
        bench->ps[bench->samples++] = ns * 1000 / rounds;
}

/* As tca-bench does: at least 11 samples of at least 50 us. */
static void schedule(const struct bench *bench, uint64_t round_ns, uint64_t *ret_rounds,
                     uint64_t *ret_batches)
{
    uint64_t both[2];

    round_ns = round_ns ? round_ns : 1;
    both[0] = round_ns < 50000 ? 50000 / round_ns : 1;
    both[1] = (uint64_t)(bench->seconds * 1e9) / (both[0] * round_ns);
    both[1] = both[1] < 11 ? 11 : both[1] > SAMPLES_MAX ? SAMPLES_MAX : both[1];
    MPI_Bcast(both, sizeof(both), MPI_BYTE, 0, MPI_COMM_WORLD);
    *ret_rounds = both[0];
    *ret_batches = both[1];
}

/* ---- ping-pong */

static void send_one(struct bench *bench, MPI_Request *out)
{
    touch_write(bench->send, &bench->shape, bench->value++);
    MPI_Start(out);
    MPI_Wait(out, MPI_STATUS_IGNORE);
}

static void receive_one(struct bench *bench, MPI_Request *in)
{
    MPI_Wait(in, MPI_STATUS_IGNORE);
    touch_read(bench->receive, &bench->shape);
}

static uint64_t round_trips(struct bench *bench, MPI_Request *out, MPI_Request *in, uint64_t count)
{
    uint64_t start_ns = now_ns();

    while (count--) {
        MPI_Start(in); /* before the other side can send: never unexpected */
        if (bench->me == 0)
            send_one(bench, out);
        receive_one(bench, in);
        if (bench->me == 1)
            send_one(bench, out);
    }
    return now_ns() - start_ns;
}

static void pingpong(struct bench *bench)
{
    MPI_Request out;
    MPI_Request in;
    uint64_t warm_up = warm_up_rounds(&bench->shape);
    uint64_t rounds;
    uint64_t batches;

    MPI_Send_init(bench->send, 1, bench->type, bench->peer, 0, MPI_COMM_WORLD, &out);
    MPI_Recv_init(bench->receive, 1, bench->type, bench->peer, 0, MPI_COMM_WORLD, &in);
    round_trips(bench, &out, &in, warm_up);
    schedule(bench, round_trips(bench, &out, &in, warm_up) / warm_up, &rounds, &batches);
    round_trips(bench, &out, &in, warm_up);
    for (uint64_t batch = 0; batch < batches; batch++)
        sample(bench, round_trips(bench, &out, &in, rounds), 2 * rounds);
    MPI_Request_free(&out);
    MPI_Request_free(&in);
}

/* ---- one-way bandwidth */

static uint64_t windows(struct bench *bench, MPI_Request *window, MPI_Request *answer,
                        uint64_t count)
{
    uint64_t start_ns = now_ns();

    while (count--) {
        if (bench->me == 0)
            MPI_Start(answer);
        MPI_Startall(WINDOW, window);
        MPI_Waitall(WINDOW, window, MPI_STATUSES_IGNORE);
        if (bench->me == 1)
            MPI_Start(answer);
        MPI_Wait(answer, MPI_STATUS_IGNORE);
    }
    return now_ns() - start_ns;
}

static void bandwidth(struct bench *bench)
{
    MPI_Request window[WINDOW];
    MPI_Request answer;
    uint64_t word = 0;
    uint64_t rounds;
    uint64_t batches;

    for (int n = 0; n < WINDOW; n++) {
        if (bench->me == 0)
            MPI_Send_init(bench->send, 1, bench->type, 1, 0, MPI_COMM_WORLD, &window[n]);
        else
            MPI_Recv_init(bench->receive, 1, bench->type, 0, 0, MPI_COMM_WORLD, &window[n]);
    }
    if (bench->me == 0)
        MPI_Recv_init(&word, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &answer);
    else
        MPI_Send_init(&word, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &answer);
    schedule(bench, windows(bench, window, &answer, 5) / 5, &rounds, &batches);
    for (uint64_t batch = 0; batch < batches; batch++)
        sample(bench, windows(bench, window, &answer, rounds), rounds * WINDOW);
    for (int n = 0; n < WINDOW; n++)
        MPI_Request_free(&window[n]);
    MPI_Request_free(&answer);
}

/* ---- MPI_Start alone */

static void start(struct bench *bench)
{
    MPI_Request requests[STARTS];

    for (int n = 0; n < STARTS; n++) {
        if (bench->me == 0)
            MPI_Send_init(bench->send, 1, bench->type, 1, 0, MPI_COMM_WORLD, &requests[n]);
        else
            MPI_Recv_init(bench->receive, 1, bench->type, 0, 0, MPI_COMM_WORLD, &requests[n]);
    }
    for (int n = 0; n < 550; n++) {
        uint64_t start_ns;
        uint64_t took_ns;

        if (bench->me == 1)
            MPI_Startall(STARTS, requests);
        MPI_Barrier(MPI_COMM_WORLD); /* the receives are there */
        start_ns = now_ns();
        for (int i = 0; i < STARTS && bench->me == 0; i++)
            MPI_Start(&requests[i]);
        took_ns = now_ns() - start_ns;
        MPI_Waitall(STARTS, requests, MPI_STATUSES_IGNORE);
        if (n >= 50)
            sample(bench, took_ns, STARTS);
    }
    for (int n = 0; n < STARTS; n++)
        MPI_Request_free(&requests[n]);
}

/* ---- a transfer while rank 0 computes */

static uint64_t transfer(struct bench *bench, MPI_Request *data, MPI_Request *answer,
                         uint64_t rounds)
{
    uint64_t start_ns;

    if (bench->me == 0)
        MPI_Start(answer);
    else
        MPI_Start(data);
    MPI_Barrier(MPI_COMM_WORLD); /* the receive is there before the clock runs */
    start_ns = now_ns();
    if (bench->me == 0) {
        MPI_Start(data);
        if (rounds)
            compute(rounds);
    }
    MPI_Wait(data, MPI_STATUS_IGNORE);
    if (bench->me == 1)
        MPI_Start(answer);
    MPI_Wait(answer, MPI_STATUS_IGNORE);
    return now_ns() - start_ns;
}

/* As tools/tca-bench/overlap.c does it. */
static void overlap(struct bench *bench)
{
    enum { SAMPLES = 21, WARM_UP = 5 };
    uint64_t alone_ns[SAMPLES], computing_ns[SAMPLES];
    double hidden[SAMPLES];
    uint64_t word = 0;
    MPI_Request data;
    MPI_Request answer;

    if (bench->me == 0) {
        MPI_Send_init(bench->send, 1, bench->type, 1, 0, MPI_COMM_WORLD, &data);
        MPI_Recv_init(&word, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &answer);
    } else {
        MPI_Recv_init(bench->receive, 1, bench->type, 0, 0, MPI_COMM_WORLD, &data);
        MPI_Send_init(&word, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &answer);
    }
    for (int n = 0; n < WARM_UP; n++)
        transfer(bench, &data, &answer, 0);
    const uint64_t rounds_per_ms = compute_rounds(1000000);
    for (int n = 0; n < SAMPLES; n++) {
        alone_ns[n] = transfer(bench, &data, &answer, 0);
        uint64_t rounds = alone_ns[n] * rounds_per_ms / 1000000 + 1;
        uint64_t start_ns = now_ns();
        if (bench->me == 0)
            compute(rounds);
        computing_ns[n] = now_ns() - start_ns;
        uint64_t both_ns = transfer(bench, &data, &answer, rounds);
        sample(bench, both_ns, 1);
        hidden[n] = hidden_share(alone_ns[n], computing_ns[n], both_ns);
    }
    bench->transfer_ns = (double)median_of(alone_ns, SAMPLES);
    bench->compute_ns = (double)median_of(computing_ns, SAMPLES);
    bench->hidden = median_of_doubles(hidden, SAMPLES);
    MPI_Request_free(&data);
    MPI_Request_free(&answer);
}

/* ---- all of it */

static void set_shape(struct bench *bench, uint64_t bytes)
{
    uint64_t block = bytes < 512 ? 8 : 512;
    bool strided = bench->strided && bytes >= 2 * block;

    bench->shape = (struct shape){.count = 1, .block = bytes, .stride = bytes};
    if (strided)
        bench->shape = (struct shape){.count = bytes / block, .block = block, .stride = 2 * block};
    if (strided)
        MPI_Type_vector((int)bench->shape.count, (int)block, (int)bench->shape.stride, MPI_BYTE,
                        &bench->type);
    else
        MPI_Type_contiguous((int)bytes, MPI_BYTE, &bench->type);
    MPI_Type_commit(&bench->type);
}

static void report(struct bench *bench, const char *name)
{
    double median_ns = (double)median_of(bench->ps, bench->samples) / 1000;
    double p99_ns = (double)bench->ps[bench->samples - 1 - bench->samples / 100] / 1000;
    uint64_t bytes = shape_bytes(&bench->shape);

    printf("{\"bench\":\"%s\",\"layout\":\"%s\",\"bytes\":%llu,\"median_ns\":%.3f,\"p99_ns\":%.3f,"
           "\"gbps\":%.4f,"
           "\"transfer_ns\":%.0f,\"compute_ns\":%.0f,\"hidden\":%.4f}\n",
           name, bench->shape.count > 1 ? "block-stride" : "contiguous", (unsigned long long)bytes,
           median_ns, p99_ns, (double)bytes * 8 / median_ns, bench->transfer_ns, bench->compute_ns,
           bench->hidden);
    fflush(stdout);
}

static int run(struct bench *bench, const char *name, uint64_t bytes)
{
    bench->samples = 0;
    bench->transfer_ns = bench->compute_ns = bench->hidden = 0;
    set_shape(bench, bytes);
    if (strcmp(name, "pingpong") == 0)
        pingpong(bench);
    else if (strcmp(name, "bandwidth") == 0)
        bandwidth(bench);
    else if (strcmp(name, "start") == 0)
        start(bench);
    else if (strcmp(name, "overlap") == 0)
        overlap(bench);
    else
        return 2;
    if (bench->me == 0)
        report(bench, name);
    MPI_Type_free(&bench->type);
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    int ranks;
    int status = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    bench.peer = 1 - bench.me;
    bench.send = aligned_alloc(4096, AREA_BYTES);
    bench.receive = aligned_alloc(4096, AREA_BYTES);
    if (argc < 4 || ranks != 2 || !bench.send || !bench.receive) {
        fprintf(stderr, "Usage, with two ranks: mpi_bench SECONDS BENCH[,BENCH...] "
                        "BYTES[,BYTES...] [block-stride]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    bench.seconds = atof(argv[1]);
    bench.strided = argc > 4 && strcmp(argv[4], "block-stride") == 0;
    memset(bench.send, 1, AREA_BYTES);
    memset(bench.receive, 1, AREA_BYTES);
    for (char *rest, *name = strtok_r(argv[2], ",", &rest); name && !status;
         name = strtok_r(NULL, ",", &rest)) {
        char sizes[256];

        snprintf(sizes, sizeof(sizes), "%s", argv[3]);
        for (char *more, *bytes = strtok_r(sizes, ",", &more); bytes && !status;
             bytes = strtok_r(NULL, ",", &more))
            status = run(&bench, name, strtoull(bytes, NULL, 10));
    }
    free(bench.send);
    free(bench.receive);
    MPI_Finalize();
    return status;
}
