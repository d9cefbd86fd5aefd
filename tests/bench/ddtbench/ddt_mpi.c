/*
 * ddt_mpi: the patterns by MPI: with datatypes and with packing by hand, each by ordinary and by
 * persistent calls. Two ranks; rank 0 writes a line of JSON for each pattern and way to stdout.
 *
 *     ddt_mpi SIDE_FILE SECONDS CHECK NUMBER[,NUMBER...]
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/ddtbench/arguments.h"
#include "tests/bench/ddtbench/measure.h"
#include "tests/bench/ddtbench/mpi_types.h"

#define BIG_AREA (64u << 20) /* checked for damage once, not for every kind of call */
#define REQUESTS 4

struct peer {
    struct bench *bench;
    int other;
    MPI_Datatype send_type, receive_type;
    char *out, *in; /* packed; an exchange has one part for each rank */
    int part_bytes; /* of one rank's data */
    /* persistent: in a ping-pong send and receive; in an exchange all of one half */
    MPI_Request send, receive;
    MPI_Request swap[2][REQUESTS];
    int swap_count;
};

static char *send_at(struct peer *peer, int half, int rank)
{
    return peer->bench->area + pattern_send_at(&peer->bench->pattern, half, (uint32_t)rank);
}

static char *receive_at(struct peer *peer, int half, int rank)
{
    return peer->bench->area + pattern_receive_at(&peer->bench->pattern, half, (uint32_t)rank);
}

/* ---- datatypes */

static void typed_send(void *context)
{
    struct peer *peer = context;

    MPI_Send(send_at(peer, 0, 0), 1, peer->send_type, peer->other, 0, MPI_COMM_WORLD);
}

static void typed_receive(void *context)
{
    struct peer *peer = context;

    MPI_Recv(receive_at(peer, 0, 0), 1, peer->receive_type, peer->other, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
}

static void typed_swap(void *context, int half)
{
    struct peer *peer = context;

    MPI_Alltoall(send_at(peer, half, 0), 1, peer->send_type, receive_at(peer, half, 0), 1,
                 peer->receive_type, MPI_COMM_WORLD);
}

/* ---- persistent requests, with datatypes; the packed ones are started by these too */

static void persistent_send(void *context)
{
    struct peer *peer = context;

    MPI_Start(&peer->send);
    MPI_Wait(&peer->send, MPI_STATUS_IGNORE);
}

static void persistent_receive(void *context)
{
    struct peer *peer = context;

    MPI_Start(&peer->receive);
    MPI_Wait(&peer->receive, MPI_STATUS_IGNORE);
}

static void persistent_swap(void *context, int half)
{
    struct peer *peer = context;

    MPI_Startall(peer->swap_count, peer->swap[half]);
    MPI_Waitall(peer->swap_count, peer->swap[half], MPI_STATUSES_IGNORE);
}

static void init_typed(struct peer *peer)
{
    peer->swap_count = REQUESTS;
    if (!peer->bench->pattern.exchange) {
        MPI_Send_init(send_at(peer, 0, 0), 1, peer->send_type, peer->other, 0, MPI_COMM_WORLD,
                      &peer->send);
        MPI_Recv_init(receive_at(peer, 0, 0), 1, peer->receive_type, peer->other, 0, MPI_COMM_WORLD,
                      &peer->receive);
        return;
    }
    for (int half = 0; half < 2; half++)
        for (int rank = 0; rank < 2; rank++) {
            MPI_Recv_init(receive_at(peer, half, rank), 1, peer->receive_type, rank, 0,
                          MPI_COMM_WORLD, &peer->swap[half][rank]);
            MPI_Send_init(send_at(peer, half, rank), 1, peer->send_type, rank, 0, MPI_COMM_WORLD,
                          &peer->swap[half][2 + rank]);
        }
}

/* ---- packed by hand; a single block is sent as it is */

static char *out_buffer(struct peer *peer)
{
    int64_t at = pieces_contiguous(&peer->bench->send);

    return at < 0 ? peer->out : send_at(peer, 0, 0) + at;
}

static char *in_buffer(struct peer *peer)
{
    int64_t at = pieces_contiguous(&peer->bench->receive);

    return at < 0 ? peer->in : receive_at(peer, 0, 0) + at;
}

static void pack(struct peer *peer)
{
    if (pieces_contiguous(&peer->bench->send) < 0)
        pieces_pack(&peer->bench->send, send_at(peer, 0, 0), peer->out);
}

static void unpack(struct peer *peer)
{
    if (pieces_contiguous(&peer->bench->receive) < 0)
        pieces_unpack(&peer->bench->receive, receive_at(peer, 0, 0), peer->in);
}

static void packed_send(void *context)
{
    struct peer *peer = context;

    pack(peer);
    MPI_Send(out_buffer(peer), peer->part_bytes, MPI_BYTE, peer->other, 0, MPI_COMM_WORLD);
}

static void packed_receive(void *context)
{
    struct peer *peer = context;

    MPI_Recv(in_buffer(peer), peer->part_bytes, MPI_BYTE, peer->other, 0, MPI_COMM_WORLD,
             MPI_STATUS_IGNORE);
    unpack(peer);
}

static void pack_part(struct peer *peer, int half, int rank)
{
    pieces_pack(&peer->bench->send, send_at(peer, half, rank),
                peer->out + (size_t)rank * (size_t)peer->part_bytes);
}

static void unpack_part(struct peer *peer, int half, int rank, const char *buffer)
{
    pieces_unpack(&peer->bench->receive, receive_at(peer, half, rank),
                  buffer + (size_t)rank * (size_t)peer->part_bytes);
}

static void packed_swap(void *context, int half)
{
    struct peer *peer = context;

    for (int rank = 0; rank < 2; rank++)
        pack_part(peer, half, rank);
    MPI_Alltoall(peer->out, peer->part_bytes, MPI_BYTE, peer->in, peer->part_bytes, MPI_BYTE,
                 MPI_COMM_WORLD);
    for (int rank = 0; rank < 2; rank++)
        unpack_part(peer, half, rank, peer->in);
}

static void packed_persistent_send(void *context)
{
    pack(context);
    persistent_send(context);
}

static void packed_persistent_receive(void *context)
{
    persistent_receive(context);
    unpack(context);
}

/* The rank's own part bypasses MPI. */
static void packed_persistent_swap(void *context, int half)
{
    struct peer *peer = context;
    int me = peer->bench->me;

    pack_part(peer, half, peer->other);
    MPI_Startall(peer->swap_count, peer->swap[half]);
    pack_part(peer, half, me);
    unpack_part(peer, half, me, peer->out);
    MPI_Waitall(peer->swap_count, peer->swap[half], MPI_STATUSES_IGNORE);
    unpack_part(peer, half, peer->other, peer->in);
}

static void init_packed(struct peer *peer)
{
    size_t other = (size_t)peer->other * (size_t)peer->part_bytes;

    peer->swap_count = 2;
    if (!peer->bench->pattern.exchange) {
        MPI_Send_init(out_buffer(peer), peer->part_bytes, MPI_BYTE, peer->other, 0, MPI_COMM_WORLD,
                      &peer->send);
        MPI_Recv_init(in_buffer(peer), peer->part_bytes, MPI_BYTE, peer->other, 0, MPI_COMM_WORLD,
                      &peer->receive);
        return;
    }
    for (int half = 0; half < 2; half++) {
        MPI_Recv_init(peer->in + other, peer->part_bytes, MPI_BYTE, peer->other, 0, MPI_COMM_WORLD,
                      &peer->swap[half][0]);
        MPI_Send_init(peer->out + other, peer->part_bytes, MPI_BYTE, peer->other, 0, MPI_COMM_WORLD,
                      &peer->swap[half][1]);
    }
}

static void free_requests(struct peer *peer)
{
    if (!peer->bench->pattern.exchange) {
        MPI_Request_free(&peer->send);
        MPI_Request_free(&peer->receive);
        return;
    }
    for (int half = 0; half < 2; half++)
        for (int n = 0; n < peer->swap_count; n++)
            MPI_Request_free(&peer->swap[half][n]);
}

/* ---- all of it */

static const struct way {
    const char *how, *way;
    void (*init)(struct peer *peer); /* requests; NULL: none */
    void (*send)(void *context);
    void (*receive)(void *context);
    void (*swap)(void *context, int half);
} ways[] = {
    {"datatypes", "ordinary", NULL, typed_send, typed_receive, typed_swap},
    {"datatypes", "persistent", init_typed, persistent_send, persistent_receive, persistent_swap},
    {"packing", "ordinary", NULL, packed_send, packed_receive, packed_swap},
    {"packing", "persistent", init_packed, packed_persistent_send, packed_persistent_receive,
     packed_persistent_swap},
};

static void run_way(struct peer *peer, const struct way *way, bool gaps)
{
    struct mover mover = {
        .send = way->send, .receive = way->receive, .swap = way->swap, .context = peer};
    char what[64];

    snprintf(what, sizeof(what), "%s, %s", way->how, way->way);
    if (way->init)
        way->init(peer);
    bench_check(peer->bench, &mover, what, gaps);
    struct timing timing = bench_time(peer->bench, &mover);
    if (way->init)
        free_requests(peer);
    bench_report(peer->bench, way->how, way->way, &timing);
}

/* One element's extent is the distance between the data of two ranks, where there are several. */
static MPI_Datatype committed(const struct form *form, uint64_t step)
{
    MPI_Datatype type = mpi_type(form);

    if (step) {
        MPI_Datatype resized;

        MPI_Type_create_resized(type, 0, (MPI_Aint)step, &resized);
        MPI_Type_free(&type);
        type = resized;
    }
    MPI_Type_commit(&type);
    return type;
}

static void run_pattern(struct bench *bench, uint32_t number)
{
    struct peer peer = {.bench = bench, .other = 1 - bench->me};

    bench_begin(bench, number);
    peer.part_bytes = (int)bench->send.bytes;
    peer.out = aligned_alloc(4096, (bench->pattern.bytes + 4095) / 4096 * 4096);
    peer.in = aligned_alloc(4096, (bench->pattern.bytes + 4095) / 4096 * 4096);
    if (!peer.out || !peer.in)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(peer.out, 1, bench->pattern.bytes);
    memset(peer.in, 1, bench->pattern.bytes);
    peer.send_type = committed(bench->pattern.send, bench->pattern.send_step);
    peer.receive_type = committed(bench->pattern.receive, bench->pattern.receive_step);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        run_way(&peer, &ways[i],
                bench->check_gaps && (i == 0 || bench->pattern.area_bytes <= BIG_AREA));
    MPI_Type_free(&peer.send_type);
    MPI_Type_free(&peer.receive_type);
    free(peer.out);
    free(peer.in);
    bench_end(bench);
}

int main(int argc, char **argv)
{
    struct arguments arguments;
    struct bench bench = {0};
    struct side side;
    int ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &bench.me);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (arguments_init(&arguments, argc, argv) < 0 || ranks != 2) {
        fputs("Usage, with two ranks: ddt_mpi " ARGUMENTS_USAGE "\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    side_open(&side, arguments.side_path, bench.me);
    bench.side = &side;
    bench.seconds = arguments.seconds;
    bench.check_gaps = arguments.check_gaps;
    bench.area = aligned_alloc(4096, (arguments.area_bytes + 4095) / 4096 * 4096);
    if (!bench.area)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(bench.area, 1, arguments.area_bytes);
    for (uint32_t i = 0; i < arguments.count; i++)
        run_pattern(&bench, arguments.numbers[i]);
    free(bench.area);
    side_close(&side);
    arguments_deinit(&arguments);
    MPI_Finalize();
    return 0;
}
