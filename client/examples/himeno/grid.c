#include "grid.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { A0, A1, A2, A3, B0, B1, B2, C0, C1, C2, WRK1, BND, COEFFICIENTS };

#define OMEGA 0.8f
#define LANES 8

static const struct grid_size sizes[] = {
    {"XS", 32, 32, 64},
    {"S", 64, 64, 128},
    {"M", 128, 128, 256},
    {"L", 256, 256, 512},
};

const struct grid_size *grid_size_find(const char *name)
{
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (strcmp(sizes[i].name, name) == 0)
            return &sizes[i];
    return NULL;
}

/* Part `at` of `parts` of the inner rows 1 .. max - 2. */
static int cut(int max, int parts, int at, int *ret_first)
{
    int inner = max - 2;
    int first = (int)((long)inner * at / parts);

    *ret_first = 1 + first;
    return (int)((long)inner * (at + 1) / parts) - first;
}

int grid_place(const struct grid_size *size, int parts_i, int parts_j, int part,
               struct grid *ret_grid)
{
    struct grid grid = {.size = size, .parts_i = parts_i, .parts_j = parts_j};

    if (parts_i < 1 || parts_j < 1 || parts_i > size->imax - 2 || parts_j > size->jmax - 2)
        return -EINVAL;
    grid.at_i = part / parts_j;
    grid.at_j = part % parts_j;
    grid.il = cut(size->imax, parts_i, grid.at_i, &grid.i0);
    grid.jl = cut(size->jmax, parts_j, grid.at_j, &grid.j0);
    *ret_grid = grid;
    return 0;
}

size_t grid_points(const struct grid *grid)
{
    return (size_t)(grid->il + 2) * (size_t)(grid->jl + 2) * (size_t)grid->size->kmax;
}

size_t grid_row(const struct grid *grid, int i, int j)
{
    return ((size_t)i * (size_t)(grid->jl + 2) + (size_t)j) * (size_t)grid->size->kmax;
}

/* Points from one coefficient's array to the next. The odd number of cache lines keeps the twelve
 * streams of the kernel out of each other's cache sets: the arrays are a power of two long, or
 * nearly. */
static size_t coefficient_points(const struct grid *grid)
{
    return (size_t)grid->il * (size_t)grid->jl * (size_t)grid->size->kmax + 17 * 64 / sizeof(float);
}

int grid_init(struct grid *grid)
{
    static const float values[COEFFICIENTS] = {
        [A0] = 1, [A1] = 1, [A2] = 1, [A3] = 1.0f / 6, [C0] = 1, [C1] = 1, [C2] = 1, [BND] = 1,
    };
    size_t points = coefficient_points(grid);

    grid->coefficients = malloc(COEFFICIENTS * points * sizeof(float));
    grid->scratch = malloc((size_t)grid->size->kmax * sizeof(float));
    if (!grid->coefficients || !grid->scratch) {
        grid_deinit(grid);
        return -ENOMEM;
    }
    for (int c = 0; c < COEFFICIENTS; c++)
        for (size_t n = 0; n < points; n++)
            grid->coefficients[(size_t)c * points + n] = values[c];
    return 0;
}

void grid_deinit(struct grid *grid)
{
    free(grid->coefficients);
    free(grid->scratch);
    grid->coefficients = NULL;
    grid->scratch = NULL;
}

void grid_reset(struct grid *grid)
{
    int imax = grid->size->imax;
    size_t plane = (size_t)(grid->jl + 2) * (size_t)grid->size->kmax;

    for (int i = 0; i < grid->il + 2; i++) {
        int global = grid->i0 + i - 1;
        float value = (float)(global * global) / (float)((imax - 1) * (imax - 1));

        for (int buffer = 0; buffer < 2; buffer++)
            for (size_t n = 0; n < plane; n++)
                grid->p[buffer][(size_t)i * plane + n] = value;
    }
}

/* The stencil for one row. di and dj: points from one row to the next in i and in j; dc: from one
 * coefficient to the next. */
static void sweep_row(int kmax, ptrdiff_t di, ptrdiff_t dj, size_t dc, const float *restrict p,
                      const float *restrict c, float *restrict next, float *restrict residual)
{
    for (int k = 1; k < kmax - 1; k++) {
        const float *at = p + k;
        float s0 = c[A0 * dc + k] * at[di] + c[A1 * dc + k] * at[dj] + c[A2 * dc + k] * at[1] +
                   c[B0 * dc + k] * (at[di + dj] - at[di - dj] - at[-di + dj] + at[-di - dj]) +
                   c[B1 * dc + k] * (at[dj + 1] - at[-dj + 1] - at[dj - 1] + at[-dj - 1]) +
                   c[B2 * dc + k] * (at[di + 1] - at[-di + 1] - at[di - 1] + at[-di - 1]) +
                   c[C0 * dc + k] * at[-di] + c[C1 * dc + k] * at[-dj] + c[C2 * dc + k] * at[-1] +
                   c[WRK1 * dc + k];
        float ss = (s0 * c[A3 * dc + k] - at[0]) * c[BND * dc + k];

        residual[k] = ss;
        next[k] = at[0] + OMEGA * ss;
    }
}

/* Eight sums side by side, then those in order: fixed, whatever the compiler and the processor can
 * do at once. */
static float sum_of_squares(int kmax, const float *residual)
{
    float lanes[LANES] __attribute__((aligned(sizeof(float) * LANES))) = {0};
    float sum = 0;
    int k = 1;

    for (; k + LANES <= kmax - 1; k += LANES)
        for (int lane = 0; lane < LANES; lane++)
            lanes[lane] += residual[k + lane] * residual[k + lane];
    for (; k < kmax - 1; k++)
        lanes[0] += residual[k] * residual[k];
    for (int lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

static void sweep(struct grid *grid, int from, int i, int j)
{
    int kmax = grid->size->kmax;
    size_t row = grid_row(grid, i, j);
    size_t inner = (size_t)(i - 1) * (size_t)grid->jl + (size_t)(j - 1);

    sweep_row(kmax, (ptrdiff_t)(grid->jl + 2) * kmax, kmax, coefficient_points(grid),
              grid->p[from] + row, grid->coefficients + inner * (size_t)kmax,
              grid->p[1 - from] + row, grid->scratch);
    grid->rows[inner] = sum_of_squares(kmax, grid->scratch);
}

static bool in_shell(const struct grid *grid, int i, int j)
{
    return i == 1 || i == grid->il || j == 1 || j == grid->jl;
}

void grid_sweep_shell(struct grid *grid, int from)
{
    for (int i = 1; i <= grid->il; i++)
        for (int j = 1; j <= grid->jl; j++)
            if (in_shell(grid, i, j))
                sweep(grid, from, i, j);
}

void grid_sweep_inner(struct grid *grid, int from)
{
    for (int i = 2; i < grid->il; i++)
        for (int j = 2; j < grid->jl; j++)
            sweep(grid, from, i, j);
}

float grid_gosa(const struct grid_size *size, const float *all_rows)
{
    double sum = 0;

    for (size_t row = 0; row < (size_t)(size->imax - 2) * (size_t)(size->jmax - 2); row++)
        sum += all_rows[row];
    return (float)sum;
}

double grid_flops(const struct grid_size *size)
{
    return 34.0 * (size->imax - 2) * (size->jmax - 2) * (size->kmax - 2);
}
