/* What MPI promises of messages, checked by an MPI program that knows nothing of tcad: any MPI must
 * run it with success, bare and under tca-mpi. Prints what is wrong, and ends with 1.
 *
 *     mpirun -n 2 messages [thread]
 */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size, wrong;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank %d: line %d: %s\n", rank, __LINE__, #condition);                 \
            wrong++;                                                                               \
        }                                                                                          \
    } while (0)

static int count_of(const MPI_Status *status, MPI_Datatype type)
{
    int count;

    MPI_Get_count(status, type, &count);
    return count;
}

/* All modes, lengths around the limits of protocols, blocking and not, both ways at once. */
static void modes(MPI_Comm comm)
{
    static const int lengths[] = {0, 1, 8, 508, 509, 1024, 16384, 16385, 300000};
    enum { MOST = 300000 };
    int *out = malloc(MOST * sizeof(int)), *in = malloc(MOST * sizeof(int)), me, all;
    MPI_Status status;

    MPI_Comm_rank(comm, &me);
    MPI_Comm_size(comm, &all);
    const int right = (me + 1) % all, left = (me + all - 1) % all;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (int mode = 0; mode < 6; mode++) {
            const int n = lengths[i], tag = mode * 10;
            MPI_Request requests[2];
            memset(in, 0, MOST * sizeof(int));
            for (int k = 0; k < n; k++)
                out[k] = me * 1000003 + mode * 101 + k;
            MPI_Irecv(in, MOST, MPI_INT, left, tag, comm, &requests[0]);
            switch (mode) {
            case 0:
                MPI_Isend(out, n, MPI_INT, right, tag, comm, &requests[1]);
                break;
            case 1:
                MPI_Issend(out, n, MPI_INT, right, tag, comm, &requests[1]);
                break;
            case 2:
                MPI_Send(out, n, MPI_INT, right, tag, comm);
                requests[1] = MPI_REQUEST_NULL;
                break;
            case 3:
                MPI_Ssend(out, n, MPI_INT, right, tag, comm);
                requests[1] = MPI_REQUEST_NULL;
                break;
            case 4:
                MPI_Barrier(comm);
                MPI_Irsend(out, n, MPI_INT, right, tag, comm, &requests[1]);
                break;
            case 5: {
                int bytes = n * (int)sizeof(int) + MPI_BSEND_OVERHEAD;
                void *buffer = malloc(bytes), *back;
                MPI_Buffer_attach(buffer, bytes);
                MPI_Bsend(out, n, MPI_INT, right, tag, comm);
                memset(out, 0xee, n * sizeof(int));
                requests[1] = MPI_REQUEST_NULL;
                MPI_Wait(&requests[0], &status);
                MPI_Buffer_detach(&back, &bytes);
                CHECK(back == buffer);
                free(buffer);
                break;
            }
            }
            if (mode < 5) {
                MPI_Status statuses[2];
                MPI_Waitall(2, requests, statuses);
                status = statuses[0];
            }
            CHECK(requests[0] == MPI_REQUEST_NULL && requests[1] == MPI_REQUEST_NULL);
            CHECK(status.MPI_SOURCE == left && status.MPI_TAG == tag);
            CHECK(count_of(&status, MPI_INT) == n);
            int bad = 0;
            for (int k = 0; k < n; k++)
                bad += in[k] != left * 1000003 + mode * 101 + k;
            CHECK(bad == 0);
        }
    }
    free(out);
    free(in);
}

/* Many that nobody expects yet, received in another order of tags, and by wildcards. */
static void unexpected(void)
{
    enum { N = 200 };
    int value, flag;
    MPI_Status status;

    if (rank == 0)
        for (int i = 0; i < N; i++)
            MPI_Send(&i, 1, MPI_INT, 1, i % 4, MPI_COMM_WORLD);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 1) {
        for (int tag = 3; tag >= 1; tag--)
            for (int i = tag; i < N; i += 4) {
                MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, tag, MPI_COMM_WORLD, &status);
                CHECK(value == i && status.MPI_SOURCE == 0 && status.MPI_TAG == tag);
            }
        for (int i = 0; i < N; i += 4) {
            MPI_Probe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK(status.MPI_SOURCE == 0 && status.MPI_TAG == 0 && count_of(&status, MPI_INT) == 1);
            MPI_Recv(&value, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
            CHECK(value == i && status.MPI_TAG == 0);
        }
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* A matched probe takes its message out of the sight of other receives. */
static void matched(void)
{
    int values[2] = {10, 20}, got = 0, flag = 0;
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;

    if (rank == 0) {
        MPI_Send(&values[0], 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
        MPI_Ssend(&values[1], 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Mprobe(0, 7, MPI_COMM_WORLD, &message, &status);
        CHECK(count_of(&status, MPI_INT) == 1 && message != MPI_MESSAGE_NULL);
        MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &status);
        CHECK(got == 20);
        MPI_Imrecv(&got, 1, MPI_INT, &message, &request);
        CHECK(message == MPI_MESSAGE_NULL);
        MPI_Wait(&request, &status);
        CHECK(got == 10 && status.MPI_SOURCE == 0 && status.MPI_TAG == 7);
        MPI_Improbe(0, 7, MPI_COMM_WORLD, &flag, &message, &status);
        CHECK(!flag);
    }
    MPI_Mprobe(MPI_PROC_NULL, 3, MPI_COMM_WORLD, &message, &status);
    CHECK(message == MPI_MESSAGE_NO_PROC && status.MPI_SOURCE == MPI_PROC_NULL);
    MPI_Mrecv(&got, 1, MPI_INT, &message, &status);
    CHECK(status.MPI_SOURCE == MPI_PROC_NULL && count_of(&status, MPI_INT) == 0);
}

/* Persistent requests meet any others, in the order of their starts (mpi-forum#708). */
static void persistent(void)
{
    int out[2] = {0, 0}, in[2] = {0, 0}, flag, index;
    MPI_Request requests[3];
    MPI_Status status, statuses[3];

    if (rank == 0) {
        MPI_Send_init(&out[0], 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Send_init(&out[1], 1, MPI_INT, 1, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Send_init(&out[1], 1, MPI_INT, MPI_PROC_NULL, 1, MPI_COMM_WORLD, &requests[2]);
        for (int i = 0; i < 10; i++) {
            out[0] = 2 * i;
            out[1] = 2 * i + 1;
            MPI_Start(&requests[1]); /* first */
            MPI_Start(&requests[0]);
            MPI_Start(&requests[2]);
            MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        }
    } else if (rank == 1) {
        MPI_Recv_init(&in[0], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Recv_init(&in[1], 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                      &requests[1]);
        requests[2] = MPI_REQUEST_NULL;
        MPI_Test(&requests[0], &flag, &status); /* inactive */
        CHECK(flag && status.MPI_SOURCE == MPI_ANY_SOURCE && status.MPI_TAG == MPI_ANY_TAG);
        CHECK(count_of(&status, MPI_INT) == 0 && requests[0] != MPI_REQUEST_NULL);
        MPI_Waitany(3, requests, &index, &status);
        CHECK(index == MPI_UNDEFINED);
        for (int i = 0; i < 10; i++) {
            if (i % 2) { /* plain receives take them as well */
                MPI_Recv(&in[0], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status);
                MPI_Recv(&in[1], 1, MPI_INT, 0, 1, MPI_COMM_WORLD, &status);
            } else {
                MPI_Startall(2, requests);
                MPI_Waitall(3, requests, statuses);
                CHECK(statuses[1].MPI_SOURCE == 0 && statuses[1].MPI_TAG == 1);
                CHECK(statuses[2].MPI_SOURCE == MPI_ANY_SOURCE);
            }
            CHECK(in[0] == 2 * i + 1 && in[1] == 2 * i);
        }
    }
    if (rank < 2) {
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        if (rank == 0)
            MPI_Request_free(&requests[2]);
    }
    MPI_Startall(0, requests);
    MPI_Barrier(MPI_COMM_WORLD);
}

/* Ours and the MPI's in one call: a nonblocking collective operation among messages. */
static void mixed(void)
{
    int in[2] = {-1, -1}, out = rank, index, count, indices[4], sum = 0, done = 0, flag;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request requests[4];
    MPI_Status statuses[4];

    for (int way = 0; way < 6; way++) {
        MPI_Irecv(&in[0], 1, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[1]);
        MPI_Irecv(&in[1], 1, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, &requests[2]);
        MPI_Isend(&out, 1, MPI_INT, right, 0, MPI_COMM_WORLD, &requests[3]);
        done = 0;
        switch (way) {
        case 0:
            MPI_Waitall(4, requests, statuses);
            CHECK(statuses[0].MPI_SOURCE == left && statuses[0].MPI_TAG == 0);
            done = 4;
            break;
        case 1:
            for (; done < 4; done++) {
                MPI_Waitany(4, requests, &index, statuses);
                CHECK(index >= 0 && index < 4 && requests[index] == MPI_REQUEST_NULL);
                CHECK(index != 0 || statuses[0].MPI_SOURCE == left);
            }
            MPI_Waitany(4, requests, &index, statuses);
            CHECK(index == MPI_UNDEFINED);
            break;
        case 2:
            while (done < 4) {
                MPI_Waitsome(4, requests, &count, indices, statuses);
                CHECK(count > 0);
                for (int i = 0; i < count; i++)
                    CHECK(indices[i] != 0 || statuses[i].MPI_SOURCE == left);
                done += count;
            }
            MPI_Waitsome(4, requests, &count, indices, statuses);
            CHECK(count == MPI_UNDEFINED);
            break;
        case 3:
            do
                MPI_Testall(4, requests, &flag, statuses);
            while (!flag);
            done = 4;
            break;
        case 4:
            while (done < 4) {
                MPI_Testany(4, requests, &index, &flag, statuses);
                done += flag;
                CHECK(!flag || index != MPI_UNDEFINED);
            }
            break;
        case 5:
            while (done < 4) {
                MPI_Testsome(4, requests, &count, indices, statuses);
                done += count;
            }
            break;
        }
        CHECK(done == 4 && in[0] == left && sum == size * (size - 1) / 2);
        for (int i = 0; i < 4; i++)
            CHECK(requests[i] == MPI_REQUEST_NULL);
    }
}

/* Longer than the receive: an error of the receiver alone, and in the statuses of several. */
static void errors(void)
{
    int out[4] = {1, 2, 3, 4}, in[4] = {0}, class, r;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    MPI_Comm comm;

    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN); /* MPICH's MPI_Waitall() calls it */
    if (rank == 0) {
        CHECK(MPI_Send(out, 4, MPI_INT, 1, 0, comm) == MPI_SUCCESS);
        CHECK(MPI_Send(out, 4, MPI_INT, 1, 1, comm) == MPI_SUCCESS);
        CHECK(MPI_Send(out, 1, MPI_INT, 1, 2, comm) == MPI_SUCCESS);
        CHECK(MPI_Send(out, 3, MPI_INT, 1, 3, comm) == MPI_SUCCESS);
    } else if (rank == 1) {
        r = MPI_Recv(in, 2, MPI_INT, 0, 0, comm, &statuses[0]);
        MPI_Error_class(r, &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        MPI_Irecv(in, 2, MPI_INT, 0, 1, comm, &requests[0]);
        MPI_Irecv(in, 4, MPI_INT, 0, 2, comm, &requests[1]);
        r = MPI_Waitall(2, requests, statuses);
        MPI_Error_class(r, &class);
        CHECK(class == MPI_ERR_IN_STATUS);
        MPI_Error_class(statuses[0].MPI_ERROR, &class);
        CHECK(class == MPI_ERR_TRUNCATE);
        MPI_Error_class(statuses[1].MPI_ERROR, &class);
        CHECK(class == MPI_SUCCESS || class == MPI_ERR_PENDING);
        statuses[0].MPI_ERROR = 77; /* not set by a call for one */
        CHECK(MPI_Recv(in, 4, MPI_INT, 0, 3, comm, &statuses[0]) == MPI_SUCCESS);
        CHECK(count_of(&statuses[0], MPI_INT) == 3 && statuses[0].MPI_ERROR == 77);
    }
    MPI_Error_class(MPI_Send(out, 1, MPI_INT, size, 0, comm), &class);
    CHECK(class == MPI_ERR_RANK);
    MPI_Error_class(MPI_Send(out, -1, MPI_INT, 0, 0, comm), &class);
    CHECK(class == MPI_ERR_COUNT);
    MPI_Error_class(MPI_Send(out, 1, MPI_INT, 0, -5, comm), &class);
    CHECK(class == MPI_ERR_TAG);
    MPI_Error_class(MPI_Send(out, 1, MPI_DATATYPE_NULL, 0, 0, comm), &class);
    CHECK(class == MPI_ERR_TYPE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_free(&comm);
}

/* Itself, MPI_PROC_NULL on one side, data that is replaced; receives that are cancelled or that
 * nobody waits for. */
static void single(void)
{
    int out = rank + 5, in = 0, flag;
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;
    MPI_Request request;
    MPI_Status status;

    MPI_Sendrecv(&out, 1, MPI_INT, rank, 1, &in, 1, MPI_INT, rank, 1, MPI_COMM_WORLD, &status);
    CHECK(in == rank + 5 && status.MPI_SOURCE == rank);
    MPI_Sendrecv(&out, 1, MPI_INT, 0, 1, &in, 1, MPI_INT, 0, 1, MPI_COMM_SELF, &status);
    CHECK(in == rank + 5 && status.MPI_SOURCE == 0);
    int to = rank == size - 1 ? MPI_PROC_NULL : rank + 1,
        from = rank == 0 ? MPI_PROC_NULL : rank - 1;
    in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, to, 2, &in, 1, MPI_INT, from, 2, MPI_COMM_WORLD, &status);
    CHECK(in == (rank == 0 ? -1 : rank + 4) && status.MPI_SOURCE == from);
    CHECK(count_of(&status, MPI_INT) == (rank > 0));
    MPI_Sendrecv_replace(&out, 1, MPI_INT, right, 3, left, 3, MPI_COMM_WORLD, &status);
    CHECK(out == left + 5);
    MPI_Irecv(&in, 1, MPI_INT, left, 99, MPI_COMM_WORLD, &request);
    MPI_Request_get_status(request, &flag, &status);
    CHECK(!flag);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    CHECK(flag);
    MPI_Irecv(&in, 1, MPI_INT, left, 4, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Isend(&rank, 1, MPI_INT, right, 4, MPI_COMM_WORLD, &request);
    MPI_Request_free(&request);
    MPI_Send(&rank, 1, MPI_INT, right, 5, MPI_COMM_WORLD);
    MPI_Recv(&flag, 1, MPI_INT, left, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in == left); /* it came before the second */
}

/* Communicators keep their messages apart, also many that live for a short time. */
static void communicators(void)
{
    int in = 0, value, me, all, period = 1, dim = size, flag;
    MPI_Comm dup, half, cart, background, none;
    MPI_Request request;
    MPI_Status status;
    MPI_Group group, world;

    MPI_Comm_dup(MPI_COMM_WORLD, &dup);
    if (rank == 0) {
        value = 1;
        MPI_Send(&value, 1, MPI_INT, 1, 0, dup);
        value = 2;
        MPI_Send(&value, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
    } else if (rank == 1) {
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
        CHECK(in == 2);
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &status);
        CHECK(!flag);
        MPI_Recv(&in, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, dup, &status);
        CHECK(in == 1);
    }
    MPI_Comm_split(dup, rank % 2, -rank, &half); /* the other way round */
    modes(half);
    MPI_Comm_rank(half, &me);
    MPI_Comm_size(half, &all);
    MPI_Sendrecv(&rank, 1, MPI_INT, all - 1 - me, 0, &in, 1, MPI_INT, MPI_ANY_SOURCE, 0, half,
                 &status);
    CHECK(status.MPI_SOURCE == all - 1 - me);
    MPI_Comm_free(&half);
    MPI_Comm_split(dup, rank == 0 ? MPI_UNDEFINED : 1, 0, &none);
    CHECK((none == MPI_COMM_NULL) == (rank == 0));
    if (none != MPI_COMM_NULL)
        MPI_Comm_free(&none);
    MPI_Cart_create(MPI_COMM_WORLD, 1, &dim, &period, 1, &cart);
    modes(cart);
    MPI_Comm_free(&cart);
    MPI_Comm_idup(MPI_COMM_WORLD, &background, &request);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 9, &in, 1, MPI_INT, MPI_ANY_SOURCE, 9,
                 MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&rank, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, MPI_ANY_SOURCE, 0,
                 background, &status);
    CHECK(in == (rank + size - 1) % size);
    MPI_Comm_free(&background);
    MPI_Request two[2];
    int index;
    MPI_Irecv(&in, 1, MPI_INT, (rank + 1) % size, 10, MPI_COMM_WORLD, &two[0]);
    MPI_Comm_idup(MPI_COMM_WORLD, &background, &two[1]);
    for (int i = 0; i < 1000; i++) { /* both cannot be complete; one may be */
        MPI_Testall(2, two, &flag, MPI_STATUSES_IGNORE);
        CHECK(!flag);
    }
    MPI_Waitany(2, two, &index, MPI_STATUS_IGNORE);
    CHECK(index == 1);
    MPI_Barrier(background);
    MPI_Send(&rank, 1, MPI_INT, (rank + size - 1) % size, 10, MPI_COMM_WORLD);
    MPI_Wait(&two[0], MPI_STATUS_IGNORE);
    CHECK(in == (rank + 1) % size);
    MPI_Comm_free(&background);
    MPI_Comm_group(MPI_COMM_WORLD, &world);
    MPI_Group_incl(world, 2, (const int[]){1, 0}, &group);
    if (rank < 2) {
        MPI_Comm_create_group(MPI_COMM_WORLD, group, 3, &half);
        MPI_Sendrecv(&rank, 1, MPI_INT, rank, 0, &in, 1, MPI_INT, MPI_ANY_SOURCE, 0, half,
                     &status); /* its rank here is the other's there */
        CHECK(in == 1 - rank || in == rank);
        MPI_Comm_free(&half);
    }
    MPI_Group_free(&group);
    MPI_Group_free(&world);
    for (int i = 0; i < 100; i++) {
        MPI_Comm_dup(MPI_COMM_WORLD, &half);
        MPI_Sendrecv(&i, 1, MPI_INT, (rank + 1) % size, 0, &in, 1, MPI_INT, MPI_ANY_SOURCE, 0, half,
                     &status);
        CHECK(in == i);
        MPI_Comm_free(&half);
    }
    MPI_Comm_free(&dup);
}

/* Not carried: between two groups. The two kinds go on side by side, and the merged one is carried
 * again. */
static void between(void)
{
    int in = -1, half_rank;
    MPI_Comm half, inter, merged;
    MPI_Status status;

    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_rank(half, &half_rank);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 17, &inter);
    if (half_rank == 0) {
        MPI_Sendrecv(&rank, 1, MPI_INT, 0, 0, &in, 1, MPI_INT, 0, 0, inter, &status);
        CHECK(in == 1 - rank % 2 && status.MPI_SOURCE == 0);
    }
    MPI_Intercomm_merge(inter, rank % 2, &merged);
    modes(merged);
    MPI_Comm_free(&merged);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* A type with gaps, freed before its message is complete, received as plain integers and back. */
static void types(void)
{
    int out[64], in[64], plain[32];
    MPI_Datatype type;
    MPI_Request requests[2];
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;

    for (int i = 0; i < 64; i++)
        out[i] = rank * 64 + i;
    memset(in, 0xff, sizeof(in));
    MPI_Type_vector(32, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Irecv(plain, 32, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Isend(out, 1, type, right, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    MPI_Irecv(in, 1, type, right, 0, MPI_COMM_WORLD, &requests[0]);
    MPI_Type_free(&type);
    MPI_Isend(plain, 32, MPI_INT, left, 0, MPI_COMM_WORLD, &requests[1]);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    for (int i = 0; i < 64; i++)
        CHECK(in[i] == (i % 2 ? -1 : out[i]));
    MPI_Aint address;
    int value = rank + 3, got = 0;
    MPI_Get_address(&value, &address);
    MPI_Type_create_hindexed(1, (const int[]){1}, &address, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Sendrecv(MPI_BOTTOM, 1, type, right, 1, &got, 1, MPI_INT, left, 1, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    CHECK(got == left + 3);
    MPI_Type_free(&type);
}

/* A long message is under way while this rank waits in the MPI for others. */
static void progress(void)
{
    enum { N = 1 << 20 };
    static char out[N], in[N];
    MPI_Request requests[2];
    int sum;

    for (int i = 0; i < 3; i++) {
        memset(out, rank + i, N);
        if (rank == 0) {
            MPI_Isend(out, N, MPI_CHAR, 1, 0, MPI_COMM_WORLD, &requests[0]);
            MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        } else {
            if (rank == 1) { /* needs rank 0 before it comes to the others */
                MPI_Recv(in, N, MPI_CHAR, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                CHECK(in[0] == i && in[N - 1] == i);
            }
            MPI_Allreduce(&i, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        }
        CHECK(sum == size * i);
        /* the reverse: the MPI's goes on while this rank waits for ours */
        MPI_Iallreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &requests[0]);
        if (rank == 0) {
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
            MPI_Send(out, 1, MPI_CHAR, 1, 1, MPI_COMM_WORLD);
        } else {
            if (rank == 1)
                MPI_Recv(in, 1, MPI_CHAR, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
        }
    }
}

/* Two threads of each rank, each waiting for its own. */
static void *talk(void *argument)
{
    const int tag = *(int *)argument;
    int value, right = (rank + 1) % size, left = (rank + size - 1) % size;

    for (int i = 0; i < 200; i++) {
        MPI_Sendrecv(&i, 1, MPI_INT, right, tag, &value, 1, MPI_INT, left, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (value != i)
            return (void *)1;
    }
    /* this thread of rank 0 waits for what the other sends at its end */
    if (size > 1 && rank == 0 && tag == 0)
        MPI_Recv(&value, 1, MPI_INT, 0, 50, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else if (rank == 0)
        MPI_Send(&value, 1, MPI_INT, 0, 50, MPI_COMM_WORLD);
    return NULL;
}

static void threads(void)
{
    pthread_t other;
    int tags[2] = {0, 1};
    void *failed;

    pthread_create(&other, NULL, talk, &tags[1]);
    CHECK(talk(&tags[0]) == NULL);
    pthread_join(other, &failed);
    CHECK(failed == NULL);
}

#ifdef LOADED
#define main run /* by loaded.c, which does not know any MPI */
int run(int argc, char **argv);
#endif

int main(int argc, char **argv)
{
    int provided = MPI_THREAD_SINGLE, all;

    if (argc > 1)
        MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    else
        MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    modes(MPI_COMM_WORLD);
    modes(MPI_COMM_SELF);
    unexpected();
    matched();
    persistent();
    mixed();
    errors();
    single();
    communicators();
    between();
    types();
    progress();
    if (provided == MPI_THREAD_MULTIPLE)
        threads();
    MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("%d wrong\n", all);
    MPI_Finalize();
    return all > 0;
}
