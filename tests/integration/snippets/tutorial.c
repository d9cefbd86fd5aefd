/*
 * The tutorial's program, with a compute() that checks all that it may read, and the ghost column
 * twice: before and after a pause in which a premature put would arrive.
 */
#include "tests/integration/snippets/checked.h"

#include "tutorial-1.inc"

enum { SIDE = N, GHOST = SIDE - 1 };

static int steps;

/* The value of a column that a rank has computed for a step. */
static double value(uint32_t of, int step, int row)
{
    return of * 1e9 + step * 1e4 + row;
}

static void write_columns(double *matrix, int step)
{
    for (int row = 0; row < SIDE; row++) {
        matrix[row * SIDE] = value(this_rank, step, row);
        matrix[row * SIDE + GHOST - 1] = -value(this_rank, step, row);
    }
}

static void check_columns(const double *matrix, int step)
{
    for (int row = 0; row < SIDE; row++) {
        check_value(matrix[row * SIDE], value(this_rank, step, row), "own row", step, row);
        check_value(matrix[row * SIDE + GHOST], value(1 - this_rank, step, row), "ghost row", step,
                    row);
        check_value(matrix[row * SIDE + GHOST - 1], -value(this_rank, step, row), "row beside it",
                    step, row);
    }
}

static void write_first(double *matrix, double of)
{
    initialise(matrix, of);
    write_columns(matrix, 0);
    for (int row = 0; row < SIDE; row++)
        matrix[row * SIDE + GHOST] = value(1 - this_rank, 0, row);
}

static void check_and_write(const double *from, double *to)
{
    check_columns(from, steps);
    pause_sometimes();
    check_columns(from, steps);
    if (steps == 0)
        compute(from, to);
    write_columns(to, ++steps);
}

#define initialise write_first
#define compute    check_and_write
#define main       program
int program(void);
#include "tutorial-1-main.inc"
#undef main

int main(void)
{
    return program() || verdict(steps, STEPS);
}
