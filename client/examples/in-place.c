/*
 * Ranks on one node read the last row of their left neighbour in place, without copying it: each
 * notifies its right neighbour when its own row is ready, and its left neighbour when it has read
 * that neighbour's row, which may then be written again.
 *
 *     tca-cluster run -n 1 --ppn 4 -- in-place    (or mpirun -n 4 in-place)
 */
#include <stdio.h>
#include <stdlib.h>
#include <tca.h>

enum { COLUMNS = 1000, STEPS = 1000 };
enum { READY, DONE }; /* slots */

static void check(int result)
{
    if (result >= 0)
        return;
    fprintf(stderr, "in-place: %s: %s\n", tca_strerror(result), tca_error_text());
    exit(1);
}

/* A plan that only notifies. */
static struct tca_plan *notifier(struct tca *session, uint32_t rank, uint32_t slot)
{
    struct tca_plan *plan;
    check(tca_plan_new(session, NULL, &plan));
    check(tca_plan_notify(plan, rank, slot));
    check(tca_plan_commit(plan, TCA_DEFAULT));
    return plan;
}

static void notify(struct tca_plan *plan)
{
    check(tca_start(plan));
    check(tca_wait(plan, TCA_DEFAULT));
}

static double value(uint32_t rank, int step, int column)
{
    return rank * 1e9 + step * 1e4 + column;
}

int main(void)
{
    struct tca *session;
    struct tca_region *region;
    struct tca_handle own;

    check(tca_open(NULL, &session));
    const uint32_t rank = tca_rank(session), size = tca_size(session);
    const uint32_t left = (rank + size - 1) % size, right = (rank + 1) % size;
    struct tca_handle *all = calloc(size, sizeof(*all));
    if (!all)
        return 1;
    check(tca_region_alloc(session, COLUMNS * sizeof(double), &region));
    check(tca_region_handle(region, 0, TCA_ALL, &own));
    check(tca_allgather(session, &own, sizeof(own), all, TCA_DEFAULT));

    double *row = tca_region_address(region);
    const double *left_row = tca_reach(session, &all[left]);
    if (!left_row) {
        fprintf(stderr, "in-place: rank %u: %s\n", rank, tca_error_text());
        free(all);
        tca_close(session);
        return 2;
    }
    struct tca_plan *ready = notifier(session, right, READY);
    struct tca_plan *done = notifier(session, left, DONE);

    for (int step = 0; step < STEPS; step++) {
        if (step > 0) /* the right neighbour has read the row of the last step */
            check(tca_notified_wait(session, right, DONE, TCA_DEFAULT));
        for (int i = 0; i < COLUMNS; i++)
            row[i] = value(rank, step, i);
        notify(ready);
        check(tca_notified_wait(session, left, READY, TCA_DEFAULT));
        for (int i = 0; i < COLUMNS; i++)
            if (left_row[i] != value(left, step, i))
                return fprintf(stderr, "in-place: wrong value in step %d\n", step), 1;
        notify(done);
    }
    printf("rank %u: %d rows of rank %u read in place\n", rank, STEPS, left);
    check(tca_barrier(session, TCA_DEFAULT)); /* all ranks are done */
    free(all);
    tca_close(session);
    return 0;
}
