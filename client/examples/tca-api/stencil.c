/*
 * A star: rank 0 has the square of cells in the middle, its four neighbours those to the north,
 * south, west and east. In each step rank 0 exchanges one side with every neighbour: rows as
 * contiguous data, columns by block-stride, all four in one chain. The data is the neighbour's step
 * count, so that an old or torn halo is detected.
 *
 *     tca-cluster mpirun -n 5 -- stencil
 */
#include "example.h"

enum { N = 256, STEPS = 30, WIDTH = N + 2, NORTH = 0, SOUTH = 1, WEST = 2, EAST = 3 };

static double *cells; /* WIDTH x WIDTH, with a halo of one */

static off_t at(int row, int column)
{
    return (off_t)((row * WIDTH + column) * (int)sizeof(double));
}

/* Appends the copy of a side of this square into the halo of another. */
static void append(tcaDesc *desc, const tcaHandle *to, const tcaHandle *from, int side, int slot)
{
    const size_t pitch = WIDTH * sizeof(double), cell = sizeof(double);
    switch (side) {
    case NORTH: /* my first row is the halo below the northern square */
        TCA_CHECK(
            tcaDescSetMemcpy(desc, to, at(N + 1, 1), from, at(1, 1), N * cell, FLAGS, slot, side));
        break;
    case SOUTH:
        TCA_CHECK(
            tcaDescSetMemcpy(desc, to, at(0, 1), from, at(N, 1), N * cell, FLAGS, slot, side));
        break;
    case WEST:
        TCA_CHECK(tcaDescSetMemcpy2D(desc, to, at(1, N + 1), pitch, from, at(1, 1), pitch, cell, N,
                                     FLAGS, slot, side));
        break;
    default:
        TCA_CHECK(tcaDescSetMemcpy2D(desc, to, at(1, 0), pitch, from, at(1, N), pitch, cell, N,
                                     FLAGS, slot, side));
        break;
    }
}

static double value(int owner, int step)
{
    return owner * 1000.0 + step;
}

static void expect_halo(int side, double expected)
{
    for (int i = 1; i <= N; i++) {
        const int row = side == NORTH ? 0 : side == SOUTH ? N + 1 : i;
        const int column = side == WEST ? 0 : side == EAST ? N + 1 : i;
        wrong += cells[row * WIDTH + column] != expected;
    }
}

int main(int argc, char **argv)
{
    static const int opposite[] = {SOUTH, NORTH, EAST, WEST};
    example_begin(&argc, &argv);
    tcaHandle *handles = example_memory(&cells, WIDTH * WIDTH * sizeof(double), tcaMemoryGPU);
    if (size != 5) {
        fprintf(stderr, "stencil: five processes, not %d\n", size);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    tcaDesc *desc = tcaDescNew();
    for (int side = NORTH; side <= EAST; side++) {
        if (rank == 0)
            append(desc, &handles[1 + side], &handles[0], side, side);
        else if (rank == 1 + side)
            append(desc, &handles[0], &handles[rank], opposite[side], side);
    }
    TCA_CHECK(tcaDescSet(desc, 0));
    for (int step = 1; step <= STEPS; step++) {
        for (int i = 0; i < N * N; i++)
            cells[(1 + i / N) * WIDTH + 1 + i % N] = value(rank, step);
        TCA_CHECK(tcaStartDMADesc(0));
        for (int side = NORTH; side <= EAST; side++) {
            if (rank == 0) {
                TCA_CHECK(tcaWaitDMARecvDesc(&handles[1 + side], side, opposite[side]));
                expect_halo(side, value(1 + side, step));
            } else if (rank == 1 + side) {
                TCA_CHECK(tcaWaitDMARecvDesc(&handles[0], side, side));
                expect_halo(opposite[side], value(0, step));
            }
        }
        TCA_CHECK(tcaWaitDMAC(0));
        MPI_Barrier(MPI_COMM_WORLD); /* the halos were read */
    }
    return example_end("stencil");
}
