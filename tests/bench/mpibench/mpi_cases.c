/*
 * mpi_cases SECONDS SIZES CASES: what MPI programs do most, by any MPI. Rank 0 writes a line of
 * JSON for each case and size: microseconds for one message or one call, the median of five batches
 * of SECONDS. Each message is checked once, before the timing.
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, AHEAD = 16, BATCHES = 5, CALLS_MAX = 1 << 20 };

struct state {
    int rank, size;
    int bytes;         /* of a message */
    char *out, *in;    /* room for as many messages as there are ranks, or WINDOW */
    MPI_Datatype type; /* of faces */
    MPI_Request *requests;
};

struct kind {
    const char *name;
    void (*begin)(struct state *state); /* or NULL */
    void (*call)(struct state *state);
    void (*end)(struct state *state); /* or NULL */
    int messages;                     /* of each call; their time is divided by it */
    bool pair;                        /* only ranks 0 and 1 take part */
    int bytes_max;
};

static char *room_of(char *base, const struct state *state, int i)
{
    return base + (size_t)i * (size_t)state->bytes;
}

/* ---- point to point */

static void turn(struct state *state, int source, int tag)
{
    const int other = 1 - state->rank;

    if (state->rank == 0)
        MPI_Send(state->out, state->bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD);
    MPI_Recv(state->in, state->bytes, MPI_BYTE, source, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (state->rank == 1)
        MPI_Send(state->out, state->bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD);
}

static void pingpong(struct state *state)
{
    turn(state, 1 - state->rank, 7);
}

static void wildcard(struct state *state)
{
    turn(state, MPI_ANY_SOURCE, MPI_ANY_TAG);
}

static void exchange(struct state *state)
{
    const int other = 1 - state->rank;

    MPI_Irecv(state->in, state->bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD, state->requests);
    MPI_Isend(state->out, state->bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD, state->requests + 1);
    MPI_Waitall(2, state->requests, MPI_STATUSES_IGNORE);
}

static void window(struct state *state)
{
    const int other = 1 - state->rank;

    for (int i = 0; i < WINDOW; i++)
        if (state->rank == 0)
            MPI_Isend(room_of(state->out, state, i), state->bytes, MPI_BYTE, other, 7,
                      MPI_COMM_WORLD, state->requests + i);
        else
            MPI_Irecv(room_of(state->in, state, i), state->bytes, MPI_BYTE, other, 7,
                      MPI_COMM_WORLD, state->requests + i);
    MPI_Waitall(WINDOW, state->requests, MPI_STATUSES_IGNORE);
    if (state->rank == 1)
        MPI_Send(NULL, 0, MPI_BYTE, other, 8, MPI_COMM_WORLD);
    else
        MPI_Recv(NULL, 0, MPI_BYTE, other, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

/* All messages are there before the first receive is posted. */
static void unexpected(struct state *state)
{
    const int other = 1 - state->rank;

    for (int i = 0; i < AHEAD && state->rank == 0; i++)
        MPI_Isend(room_of(state->out, state, i), state->bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD,
                  state->requests + i);
    if (state->rank == 0) {
        MPI_Send(NULL, 0, MPI_BYTE, other, 8, MPI_COMM_WORLD);
        MPI_Waitall(AHEAD, state->requests, MPI_STATUSES_IGNORE);
        MPI_Recv(NULL, 0, MPI_BYTE, other, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Recv(NULL, 0, MPI_BYTE, other, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < AHEAD; i++)
        MPI_Recv(room_of(state->in, state, i), state->bytes, MPI_BYTE, other, 7, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    MPI_Send(NULL, 0, MPI_BYTE, other, 8, MPI_COMM_WORLD);
}

static void everybody(struct state *state)
{
    int count = 0;

    for (int other = 0; other < state->size; other++)
        if (other != state->rank)
            MPI_Irecv(room_of(state->in, state, other), state->bytes, MPI_BYTE, other, 7,
                      MPI_COMM_WORLD, state->requests + count++);
    for (int other = 0; other < state->size; other++)
        if (other != state->rank)
            MPI_Isend(room_of(state->out, state, other), state->bytes, MPI_BYTE, other, 7,
                      MPI_COMM_WORLD, state->requests + count++);
    MPI_Waitall(count, state->requests, MPI_STATUSES_IGNORE);
}

/* ---- persistent requests of faces: blocks of one double or of 64, with gaps as long as they */

static void face_begin(struct state *state, int block)
{
    const int other = 1 - state->rank, doubles = state->bytes / 8;

    block = block < doubles ? block : doubles;
    MPI_Type_vector(doubles / block, block, 2 * block, MPI_DOUBLE, &state->type);
    MPI_Type_commit(&state->type);
    MPI_Recv_init(state->in, 1, state->type, other, 7, MPI_COMM_WORLD, state->requests);
    MPI_Send_init(state->out, 1, state->type, other, 7, MPI_COMM_WORLD, state->requests + 1);
}

static void thin_begin(struct state *state)
{
    face_begin(state, 1);
}

static void thick_begin(struct state *state)
{
    face_begin(state, 64);
}

static void face(struct state *state)
{
    MPI_Startall(2, state->requests);
    MPI_Waitall(2, state->requests, MPI_STATUSES_IGNORE);
}

static void face_end(struct state *state)
{
    MPI_Request_free(state->requests);
    MPI_Request_free(state->requests + 1);
    MPI_Type_free(&state->type);
}

/* ---- collectives */

static void barrier(struct state *state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void bcast(struct state *state)
{
    MPI_Bcast(state->in, state->bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
}

static void allreduce(struct state *state)
{
    MPI_Allreduce(state->out, state->in, state->bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void alltoall(struct state *state)
{
    MPI_Alltoall(state->out, state->bytes, MPI_BYTE, state->in, state->bytes, MPI_BYTE,
                 MPI_COMM_WORLD);
}

enum { LONG = 4 << 20, MEDIUM = 1 << 20, SHORT = 65536 };

static const struct kind kinds[] = {
    {"ping-pong", NULL, pingpong, NULL, 2, true, LONG},
    {"wildcard", NULL, wildcard, NULL, 2, true, LONG},
    {"exchange", NULL, exchange, NULL, 1, true, LONG},
    {"window", NULL, window, NULL, WINDOW, true, SHORT},
    {"unexpected", NULL, unexpected, NULL, AHEAD, true, MEDIUM},
    {"thin-face", thin_begin, face, face_end, 1, true, MEDIUM},
    {"thick-face", thick_begin, face, face_end, 1, true, MEDIUM},
    {"all-pairs", NULL, everybody, NULL, 1, false, MEDIUM},
    {"barrier", NULL, barrier, NULL, 1, false, 0},
    {"bcast", NULL, bcast, NULL, 1, false, LONG},
    {"allreduce", NULL, allreduce, NULL, 1, false, LONG},
    {"alltoall", NULL, alltoall, NULL, 1, false, MEDIUM},
};

/* ---- measuring */

/* What has been sent has arrived, of cases in which the messages are those of a pair. */
static void check(const struct state *state, const struct kind *kind)
{
    if (!kind->pair || kind->begin || state->bytes == 0 ||
        (state->rank == 0 && (kind->call == window || kind->call == unexpected)))
        return;
    for (int i = 0; i < state->bytes; i++)
        if (state->in[i] != (char)(i + 1 - state->rank)) {
            fprintf(stderr, "mpi_cases: %s of %d bytes: byte %d is wrong\n", kind->name,
                    state->bytes, i);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
}

static double batch(struct state *state, const struct kind *kind, int calls)
{
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    if (!kind->pair || state->rank < 2)
        for (int i = 0; i < calls; i++)
            kind->call(state);
    double time = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return time;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(struct state *state, const struct kind *kind, double seconds)
{
    double times[BATCHES];
    int calls =
        8; /* those that are not timed: kinds that are made when they are repeated are made */

    if (kind->begin && state->rank < 2)
        kind->begin(state);
    double time = batch(state, kind, calls);
    check(state, kind);
    while (time < seconds && calls < CALLS_MAX) {
        calls *= time > seconds / 16 ? 2 : 16;
        time = batch(state, kind, calls);
    }
    for (int i = 0; i < BATCHES; i++)
        times[i] = batch(state, kind, calls) / calls / kind->messages * 1e6;
    if (kind->end && state->rank < 2)
        kind->end(state);
    qsort(times, BATCHES, sizeof(times[0]), compare);
    if (state->rank == 0) {
        printf("{\"case\": \"%s\", \"bytes\": %d, \"us\": %.4f}\n", kind->name, state->bytes,
               times[BATCHES / 2]);
        fflush(stdout);
    }
}

static bool is_in(const char *name, const char *list)
{
    const size_t length = strlen(name);

    for (const char *at = list; (at = strstr(at, name)); at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

static void measure_all(const char *sizes, const char *cases, double seconds)
{
    struct state state;

    MPI_Comm_rank(MPI_COMM_WORLD, &state.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &state.size);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        for (const char *at = sizes; at && is_in(kinds[k].name, cases);
             at = strchr(at, ','), at += at != NULL) {
            const int parts = state.size > WINDOW ? state.size : WINDOW;
            state.bytes = kinds[k].call == barrier ? 0 : atoi(at);
            const bool whole = state.bytes % 8 == 0 && state.bytes > 0;
            if (state.bytes > kinds[k].bytes_max ||
                (!whole && (kinds[k].begin || kinds[k].call == allreduce)) ||
                (kinds[k].pair && state.size < 2) || (kinds[k].call == barrier && at != sizes))
                continue;
            const bool many = kinds[k].bytes_max < LONG;
            const size_t room = (size_t)state.bytes * (many ? (size_t)parts : 2) + 8;
            state.out = malloc(room);
            state.in = calloc(1, room);
            state.requests = malloc(2 * (size_t)parts * sizeof(MPI_Request));
            if (!state.out || !state.in || !state.requests)
                MPI_Abort(MPI_COMM_WORLD, 1);
            for (size_t i = 0; i < room; i++)
                state.out[i] =
                    (char)((state.bytes > 0 ? i % (size_t)state.bytes : 0) + (size_t)state.rank);
            measure(&state, &kinds[k], seconds);
            free(state.out);
            free(state.in);
            free(state.requests);
        }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc != 4) {
        fprintf(stderr, "Usage: mpi_cases SECONDS SIZES CASES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    measure_all(argv[2], argv[3], strtod(argv[1], NULL));
    MPI_Finalize();
}
