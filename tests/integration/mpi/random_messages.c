/*
 * Random point-to-point messages whose results MPI determines. With one seed, every MPI prints the
 * same digests of what was received: a line for each scene.
 *
 * usage: mpirun -n N random_messages SEED SCENES [SCENE]
 *
 * All ranks draw the same plan of a scene: messages, their communicators, modes and datatypes. In a
 * scene, receives are made either before all sends, or after them. Where a receive takes any
 * source, only one rank sends with its tag, or all messages with that tag are received in the same
 * way and count as a set. SCENE: plays only this one and tells each rank's results.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/mpi/random_messages.h"

enum { ATTACHED = 64 << 20 };

int rank, size;
unsigned scene_number;
bool telling, bare_openmpi, bare_mpich;

/* Too long for its receive: the receive fails, its neighbours do not. */
static void play_truncation(struct dice *plan)
{
    int from = roll(plan, size), to = roll(plan, size), kind = roll(plan, 4);
    if (bare_openmpi && from == to && size > 1)
        to = (from + 1) % size;
    int ints = 1 + (roll(plan, 2) ? roll(plan, 100) : roll(plan, 100000));
    bool synchronous = roll(plan, 2);
    int *data = calloc((size_t)ints + 1, sizeof(*data)), class = 0, after = -1;
    MPI_Request requests[3] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    MPI_Status statuses[3];
    int *got = calloc((size_t)ints + 1, sizeof(*got));
    if (rank == to && kind != 0) {
        MPI_Irecv(got, ints - 1, MPI_INT, from, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Irecv(&after, 1, MPI_INT, from, 2, MPI_COMM_WORLD, &requests[1]);
    }
    if (rank == from) {
        static const int last = 17;
        MPI_Request sends[2];
        (synchronous ? MPI_Issend : MPI_Isend)(data, ints, MPI_INT, to, 1, MPI_COMM_WORLD,
                                               &sends[0]);
        MPI_Isend(&last, 1, MPI_INT, to, 2, MPI_COMM_WORLD, &sends[1]);
        if (from != to)
            TRY(MPI_Waitall(2, sends, statuses));
        else
            requests[2] = sends[0], MPI_Request_free(&sends[1]);
    }
    if (rank == to) {
        int r = MPI_SUCCESS;
        if (kind == 0) {
            r = MPI_Recv(got, ints - 1, MPI_INT, from, 1, MPI_COMM_WORLD, &statuses[0]);
            MPI_Recv(&after, 1, MPI_INT, from, 2, MPI_COMM_WORLD, &statuses[1]);
        } else if (kind == 1) {
            r = MPI_Wait(&requests[0], &statuses[0]);
            MPI_Wait(&requests[1], &statuses[1]);
        } else {
            MPI_Wait(&requests[1], &statuses[1]);
            r = MPI_Waitall(1, requests, statuses);
            MPI_Error_class(r, &class);
            if (class == MPI_ERR_IN_STATUS)
                r = statuses[0].MPI_ERROR;
        }
        if (rank == from)
            MPI_Wait(&requests[2], MPI_STATUS_IGNORE);
        MPI_Error_class(r, &class);
        if (class != MPI_ERR_TRUNCATE)
            wrong("too long, but not truncated", class);
        if (after != 17)
            wrong("the message behind one that was too long", after);
    }
    free(data);
    free(got);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Receives that nothing matches. */
static void play_cancel(struct dice *plan)
{
    int data[3] = {1, 2, 3}, cancelled = -1, persistent = roll(plan, 2);
    MPI_Request request;
    MPI_Status status;
    if (persistent) {
        MPI_Recv_init(data, 3, MPI_INT, MPI_ANY_SOURCE, 3000, comms[2].comm, &request);
        MPI_Start(&request);
    } else {
        MPI_Irecv(data, 3, MPI_INT, MPI_ANY_SOURCE, 3000, comms[2].comm, &request);
    }
    TRY(MPI_Cancel(&request));
    TRY(MPI_Wait(&request, &status));
    MPI_Test_cancelled(&status, &cancelled);
    if (cancelled != 1)
        wrong("not cancelled", cancelled);
    if (persistent)
        MPI_Request_free(&request);
}

/* Around the ring, and along a line that ends at MPI_PROC_NULL. */
static void play_shift(struct dice *plan)
{
    const struct comm *comm = &comms[roll(plan, COMMS)];
    int members, own, step = roll(plan, size);
    bool replace = roll(plan, 2), line = roll(plan, 2);
    const enum basic basic = draw_basic(plan);
    const int elements = draw_elements(plan);
    const uint64_t form = mix(play_seed, (uint64_t)roll(plan, 1000));
    MPI_Comm_size(comm->comm, &members);
    MPI_Comm_rank(comm->comm, &own);
    int to = (own + step) % members, from = (own + members - step % members) % members;
    if (line && own + step >= members)
        to = MPI_PROC_NULL;
    if (line && own - step < 0)
        from = MPI_PROC_NULL;
    struct memory out, in;
    MPI_Status status;
    int bytes;
    memory_init(&out, basic, elements, form);
    memory_init(&in, basic, elements, mix(form, 1));
    memory_fill(&out, mix(play_seed, (uint64_t)rank));
    memory_fill(&in, 5);
    if (replace)
        TRY(MPI_Sendrecv_replace(out.base, out.count, out.type, to, 4, from, 4, comm->comm,
                                 &status));
    else
        TRY(MPI_Sendrecv(out.base, out.count, out.type, to, 5, in.base, in.count, in.type, from,
                         MPI_ANY_TAG, comm->comm, &status));
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    add_digest("shifted", (uint64_t)rank,
               mix(mix((uint64_t)status.MPI_SOURCE, (uint64_t)status.MPI_TAG),
                   mix((uint64_t)bytes, memory_digest(replace ? &out : &in))));
    memory_deinit(&out);
    memory_deinit(&in);
}

/* Communicators made and freed, with messages on both sides of a fence of two halves. */
static void play_communicators(struct dice *plan)
{
    const int times = 1 + roll(plan, 5), cut = size > 1 ? 1 + roll(plan, size - 1) : 1;
    for (int i = 0; i < times; i++) {
        MPI_Comm copy, half, between;
        int value = 100 * i + rank, got = -1, own, members;
        MPI_Comm_dup(comms[i % COMMS].comm, &copy);
        MPI_Comm_rank(copy, &own);
        MPI_Comm_size(copy, &members);
        MPI_Request request;
        MPI_Irecv(&got, 1, MPI_INT, (own + 1) % members, i, copy, &request);
        MPI_Send(&value, 1, MPI_INT, (own + members - 1) % members, i, copy);
        MPI_Comm_free(&copy); /* while a request is open */
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        add_digest("copy", (uint64_t)i, mix((uint64_t)rank, (uint64_t)got));
        if (size == 1)
            continue;
        MPI_Comm_split(MPI_COMM_WORLD, rank < cut, rank, &half);
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank < cut ? cut : 0, 50, &between);
        MPI_Comm_rank(half, &own);
        MPI_Comm_remote_size(between, &members);
        got = -1;
        if (own < members) {
            MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, between, &request);
            MPI_Send(&value, 1, MPI_INT, own, 7, between);
            int other_half = rank < cut ? size - cut : cut;
            MPI_Status status = {0};
            if (own < other_half)
                MPI_Wait(&request, &status);
            add_digest("between", (uint64_t)i, mix((uint64_t)got, (uint64_t)status.MPI_SOURCE));
        }
        MPI_Comm_free(&between);
        MPI_Comm_free(&half);
    }
}

static uint64_t play_scene(uint64_t seed)
{
    struct dice plan = {mix(seed, scene_number)};
    play_seed = plan.state;
    play_dice = (struct dice){mix(plan.state, (uint64_t)rank)};
    play_digest = 0;
    switch (roll(&plan, 10)) {
    case 0:
        play_truncation(&plan);
        break;
    case 1:
        play_cancel(&plan);
        break;
    case 2:
    case 3:
        play_shift(&plan);
        break;
    case 4:
        play_communicators(&plan);
        break;
    default:
        play_messages(&plan);
    }
    uint64_t all[RANKS_MAX], digest = 0;
    MPI_Gather(&play_digest, 1, MPI_UINT64_T, all, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    for (int i = 0; rank == 0 && i < size; i++)
        digest = mix(digest, all[i]);
    return digest;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || size > RANKS_MAX) {
        fprintf(stderr, "usage: mpirun -n N random_messages SEED SCENES [SCENE]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (getenv("RANDOM_MESSAGES_BARE")) {
#ifdef OPEN_MPI
        bare_openmpi = true;
#else
        bare_mpich = true;
#endif
    }
    const uint64_t seed = strtoull(argv[1], NULL, 0);
    const unsigned scenes = (unsigned)strtoul(argv[2], NULL, 0);
    struct dice plan = {mix(seed, 1)};
    comms_init(&plan);
    setvbuf(stdout, NULL, _IOLBF, 0);
    void *attached = malloc(ATTACHED), *detached;
    int bytes;
    MPI_Buffer_attach(attached, ATTACHED);
    for (scene_number = 0; scene_number < scenes; scene_number++) {
        if (argc > 3 && scene_number != strtoul(argv[3], NULL, 0))
            continue;
        telling = argc > 3;
        uint64_t digest = play_scene(seed);
        if (rank == 0)
            printf("%u %016llx\n", scene_number, (unsigned long long)digest);
    }
    unsigned all_wrong = 0;
    MPI_Reduce(&wrong_count, &all_wrong, 1, MPI_UNSIGNED, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Buffer_detach(&detached, &bytes);
    free(attached);
    comms_deinit();
    MPI_Finalize();
    return all_wrong > 0;
}
