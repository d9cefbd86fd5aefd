/*
 * commit_mpi: the same blocks as an MPI datatype: made and committed, sent for the first time and
 * once more. Two ranks; rank 0 writes lines of JSON.
 *
 *     mpiexec -n 2 commit_mpi COUNT[,COUNT...] REPEATS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/commitbench/blocks.h"
#include "tools/tca-bench/work.h"

struct mpi {
    int me;
    char *area;
    const struct blocks *blocks;
    int *lengths;
    MPI_Aint *offsets;
};

static MPI_Datatype make_type(const struct mpi *mpi, int listed)
{
    MPI_Datatype type;

    if (listed)
        MPI_Type_create_hindexed((int)mpi->blocks->count, mpi->lengths, mpi->offsets, MPI_DOUBLE,
                                 &type);
    else
        MPI_Type_contiguous((int)mpi->blocks->doubles, MPI_DOUBLE, &type);
    MPI_Type_commit(&type);
    return type;
}

/* A message there, and a reply when it has arrived. */
static uint64_t transfer(const struct mpi *mpi, MPI_Datatype type)
{
    uint64_t begin_ns;

    MPI_Barrier(MPI_COMM_WORLD);
    begin_ns = now_ns();
    if (mpi->me == 0) {
        MPI_Send(mpi->area, 1, type, 1, 0, MPI_COMM_WORLD);
        MPI_Recv(NULL, 0, MPI_BYTE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(mpi->area, 1, type, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(NULL, 0, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    }
    return now_ns() - begin_ns;
}

static void run_once(const struct mpi *mpi, enum sides sides, struct report *report)
{
    uint64_t phases_ns[PHASES] = {0};
    uint64_t begin_ns = now_ns();
    MPI_Datatype type = make_type(mpi, mpi->me == 0 || sides == SIDES_BOTH);

    phases_ns[PHASE_LAYOUT] = now_ns() - begin_ns;
    phases_ns[PHASE_FIRST] = transfer(mpi, type);
    phases_ns[PHASE_LATER] = transfer(mpi, type);
    MPI_Type_free(&type);
    report_add(report, phases_ns);
}

static void run_count(struct mpi *mpi, uint64_t count, uint64_t repeats)
{
    struct blocks blocks;

    blocks_init(&blocks, count, mpi->me);
    mpi->blocks = &blocks;
    mpi->lengths = malloc(count * sizeof(*mpi->lengths));
    mpi->offsets = malloc(count * sizeof(*mpi->offsets));
    if (!mpi->lengths || !mpi->offsets)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (uint64_t i = 0; i < count; i++) {
        mpi->lengths[i] = (int)blocks.lengths[i];
        mpi->offsets[i] = (MPI_Aint)blocks.offsets[i];
    }
    for (enum sides sides = SIDES_ONE; sides <= SIDES_BOTH; sides++) {
        struct report report;

        report_init(&report, repeats);
        for (uint64_t n = 0; n < repeats; n++)
            run_once(mpi, sides, &report);
        if (mpi->me == 0)
            report_say(&report, count, sides);
        report_deinit(&report);
    }
    free(mpi->lengths);
    free(mpi->offsets);
    blocks_deinit(&blocks);
}

int main(int argc, char **argv)
{
    uint64_t counts[COUNTS_MAX + 1];
    struct mpi mpi = {0};
    uint64_t most = 0, repeats;

    MPI_Init(&argc, &argv);
    repeats = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
    if (repeats == 0 || counts_parse(argv[1], counts) < 0) {
        fputs("Usage: mpiexec -n 2 commit_mpi COUNT[,COUNT...] REPEATS\n", stderr);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &mpi.me);
    for (int i = 0; counts[i]; i++)
        most = counts[i] > most ? counts[i] : most;
    mpi.area = calloc(1, blocks_span_bytes(most));
    if (!mpi.area)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; counts[i]; i++)
        run_count(&mpi, counts[i], repeats);
    free(mpi.area);
    MPI_Finalize();
    return 0;
}
