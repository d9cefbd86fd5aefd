/*
 * README's program, with a compute() that checks all that it may read, and the ghost column twice:
 * before and after a pause in which a premature put would arrive.
 */
#include "tests/integration/snippets/checked.h"

enum { SIDE = 1000, GHOST = SIDE - 1 };

static int steps;

/* The value of a column that a rank has computed for a step. */
static double value(uint32_t of, int step, int row)
{
    return of * 1e9 + step * 1e4 + row;
}

static void write_columns(double *matrix, int step)
{
    for (int row = 0; row < SIDE; row++) {
        matrix[row * SIDE] = value(rank, step, row);
        matrix[row * SIDE + GHOST - 1] = -value(rank, step, row);
    }
}

static void check_columns(const double *matrix, int step)
{
    for (int row = 0; row < SIDE; row++) {
        check_value(matrix[row * SIDE], value(rank, step, row), "own row", step, row);
        check_value(matrix[row * SIDE + GHOST], value(1 - rank, step, row), "ghost row", step, row);
        check_value(matrix[row * SIDE + GHOST - 1], -value(rank, step, row), "row beside it", step,
                    row);
    }
}

static void initialise(double *matrix)
{
    write_columns(matrix, 0);
    for (int row = 0; row < SIDE; row++)
        matrix[row * SIDE + GHOST] = value(1 - rank, 0, row);
}

static void compute(const double *old, double *next)
{
    check_columns(old, steps);
    pause_sometimes();
    check_columns(old, steps);
    write_columns(next, ++steps);
}

int main(void)
{
#include "readme-1.inc"
    return verdict(steps, STEPS);
}
