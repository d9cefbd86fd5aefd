/*
 * himeno_mpi: the same Himeno benchmark (client/examples/himeno/grid.c) with its halos by MPI's
 * persistent requests and derived datatypes. Rank 0 writes one JSON line to stdout.
 *
 *     himeno_mpi SIZE PARTS_I PARTS_J SWEEPS
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/examples/himeno/grid.h"
#include "client/examples/himeno/times.h"

#define REQUESTS 16 /* 8 directions, out and in */

struct halo {
    MPI_Datatype rows_i, rows_j; /* a contiguous face, a block-stride face */
    int count;
    MPI_Request requests[2][REQUESTS]; /* by the buffer that is written */
};

static void add(struct halo *halo, struct grid *grid, int di, int dj)
{
    int peer = (grid->at_i + di) * grid->parts_j + grid->at_j + dj;
    int out_i = di > 0 ? grid->il : 1, out_j = dj > 0 ? grid->jl : 1;
    int in_i = di > 0   ? grid->il + 1
               : di < 0 ? 0
                        : 1,
        in_j = dj > 0   ? grid->jl + 1
               : dj < 0 ? 0
                        : 1;
    int count = di && dj ? grid->size->kmax : 1;
    MPI_Datatype type = di && dj ? MPI_FLOAT : di ? halo->rows_i : halo->rows_j;
    int tag = (di + 1) * 3 + dj + 1;

    for (int buffer = 0; buffer < 2; buffer++) {
        float *p = grid->p[buffer];

        MPI_Recv_init(p + grid_row(grid, in_i, in_j), count, type, peer, 8 - tag, MPI_COMM_WORLD,
                      &halo->requests[buffer][halo->count]);
        MPI_Send_init(p + grid_row(grid, out_i, out_j), count, type, peer, tag, MPI_COMM_WORLD,
                      &halo->requests[buffer][halo->count + 1]);
    }
    halo->count += 2;
}

static void halo_init(struct halo *halo, struct grid *grid)
{
    int kmax = grid->size->kmax;

    halo->count = 0;
    MPI_Type_contiguous(grid->jl * kmax, MPI_FLOAT, &halo->rows_i);
    MPI_Type_vector(grid->il, kmax, (grid->jl + 2) * kmax, MPI_FLOAT, &halo->rows_j);
    MPI_Type_commit(&halo->rows_i);
    MPI_Type_commit(&halo->rows_j);
    for (int di = -1; di <= 1; di++)
        for (int dj = -1; dj <= 1; dj++) {
            int i = grid->at_i + di, j = grid->at_j + dj;

            if ((di || dj) && i >= 0 && i < grid->parts_i && j >= 0 && j < grid->parts_j)
                add(halo, grid, di, dj);
        }
}

static void halo_deinit(struct halo *halo)
{
    for (int buffer = 0; buffer < 2; buffer++)
        for (int n = 0; n < halo->count; n++)
            MPI_Request_free(&halo->requests[buffer][n]);
    MPI_Type_free(&halo->rows_i);
    MPI_Type_free(&halo->rows_j);
}

static double run(struct grid *grid, struct halo *halo, long sweeps, double *ret_halo_seconds)
{
    uint64_t halo_ns = 0;
    uint64_t start_ns;

    MPI_Barrier(MPI_COMM_WORLD);
    start_ns = now_ns();
    for (long n = 0; n < sweeps; n++) {
        int from = (int)(n & 1);
        uint64_t at_ns;

        grid_sweep_shell(grid, from);
        at_ns = now_ns();
        MPI_Startall(halo->count, halo->requests[1 - from]);
        halo_ns += now_ns() - at_ns;
        grid_sweep_inner(grid, from);
        at_ns = now_ns();
        MPI_Waitall(halo->count, halo->requests[1 - from], MPI_STATUSES_IGNORE);
        halo_ns += now_ns() - at_ns;
    }
    *ret_halo_seconds = (double)halo_ns * 1e-9;
    return (double)(now_ns() - start_ns) * 1e-9;
}

/* All rows at rank 0, in global order: the others' are zero, so their sum changes no bit. */
static float gather_gosa(const struct grid *grid, int rank)
{
    int rows = (grid->size->imax - 2) * (grid->size->jmax - 2);
    float *mine = calloc((size_t)rows, sizeof(*mine));
    float *all = calloc((size_t)rows, sizeof(*all));
    float gosa = 0;

    if (!mine || !all)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int i = 0; i < grid->il; i++)
        memcpy(mine + (grid->i0 - 1 + i) * (grid->size->jmax - 2) + grid->j0 - 1,
               grid->rows + i * grid->jl, (size_t)grid->jl * sizeof(float));
    MPI_Reduce(mine, all, rows, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        gosa = grid_gosa(grid->size, all);
    free(mine);
    free(all);
    return gosa;
}

int main(int argc, char **argv)
{
    const struct grid_size *size = argc == 5 ? grid_size_find(argv[1]) : NULL;
    struct grid grid;
    struct halo halo;
    double mine[2];
    double slowest[2];
    int rank;
    int ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (!size || atoi(argv[2]) * atoi(argv[3]) != ranks || atol(argv[4]) < 1 ||
        grid_place(size, atoi(argv[2]), atoi(argv[3]), rank, &grid) < 0 || grid_init(&grid) < 0) {
        fprintf(stderr,
                "Usage, with PARTS_I * PARTS_J ranks: himeno_mpi SIZE PARTS_I PARTS_J SWEEPS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    grid.p[0] = malloc(2 * grid_points(&grid) * sizeof(float));
    grid.rows = malloc((size_t)grid.il * (size_t)grid.jl * sizeof(float));
    if (!grid.p[0] || !grid.rows)
        MPI_Abort(MPI_COMM_WORLD, 1);
    grid.p[1] = grid.p[0] + grid_points(&grid);
    grid_reset(&grid);
    halo_init(&halo, &grid);
    mine[0] = run(&grid, &halo, atol(argv[4]), &mine[1]);
    MPI_Reduce(mine, slowest, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    float gosa = gather_gosa(&grid, rank);
    if (rank == 0)
        printf("{\"size\":\"%s\",\"split\":\"%sx%sx1\",\"ranks\":%d,\"iterations\":%ld,\"gosa_"
               "hex\":\"%a\",\"mflops\":%.3f,"
               "\"seconds\":%.6f,\"halo_share\":%.4f}\n",
               size->name, argv[2], argv[3], ranks, atol(argv[4]), (double)gosa,
               grid_flops(size) * (double)atol(argv[4]) / slowest[0] * 1e-6, slowest[0],
               slowest[1] / slowest[0]);
    halo_deinit(&halo);
    free(grid.p[0]);
    free(grid.rows);
    grid_deinit(&grid);
    MPI_Finalize();
    return 0;
}
