/*
 * grid: the arithmetic of the Himeno benchmark (R. Himeno, RIKEN): Poisson's equation in general
 * curvilinear coordinates, one Jacobi sweep of a 19-point stencil after the other. It knows which
 * part of the domain it is, and nothing of how halos travel.
 *
 * The domain of imax x jmax x kmax points is split I x J x 1; a part has il x jl rows of kmax
 * points inside, and one more row on each side: the halo, or the fixed boundary of the whole
 * domain. p is row-major, [il + 2][jl + 2][kmax]: the i face of a part is one block, the j face is
 * il runs of kmax points.
 *
 * p and wrk2 of the published code are p[0] and p[1] here, which change places after every sweep
 * instead of being copied. This changes no value.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct grid_size {
    const char *name;
    int imax, jmax, kmax;
};

/* "XS", "S", "M" or "L"; NULL: no such size. */
const struct grid_size *grid_size_find(const char *name);

struct grid {
    const struct grid_size *size;
    int parts_i, parts_j; /* of the split */
    int at_i, at_j;       /* which part this is */
    int i0, j0;           /* global index of local row 1 */
    int il, jl;           /* rows inside */
    float *p[2];          /* the caller's memory, grid_points() each */
    float *rows; /* the caller's memory, il * jl: sum of squares of each row in the last sweep */
    float *coefficients; /* a[4], b[3], c[3], wrk1, bnd, each [il][jl][kmax] */
    float *scratch;      /* kmax: one row's residuals */
};

/* Which part `part` of parts_i x parts_j is: sets all but the memory. -EINVAL when a part would
 * have no rows. */
int grid_place(const struct grid_size *size, int parts_i, int parts_j, int part,
               struct grid *ret_grid);

/* Points of one p. */
size_t grid_points(const struct grid *grid);
/* Index of the first point of local row (i, j). */
size_t grid_row(const struct grid *grid, int i, int j);

/* Allocates and fills the coefficients; -ENOMEM. */
int grid_init(struct grid *grid);
void grid_deinit(struct grid *grid);
/* The published initial values of p, halos too, into both buffers. */
void grid_reset(struct grid *grid);

/*
 * One sweep from p[from] to p[1 - from], in two parts: the rows that the neighbours need or that
 * need the neighbours, then the others. Only grid_sweep_shell() reads halos.
 */
void grid_sweep_shell(struct grid *grid, int from);
void grid_sweep_inner(struct grid *grid, int from);

/*
 * GOSA from the sums of all rows of the whole domain, (imax - 2) x (jmax - 2) in global order.
 * Floating-point sums depend on their order, so the order is fixed: within a row by the kernel,
 * whatever the split; over the rows by this function. That is why GOSA is the same to the last bit
 * for every split of one size.
 */
float grid_gosa(const struct grid_size *size, const float *all_rows);

/* The published count: 34 per point and sweep. */
double grid_flops(const struct grid_size *size);
