/* The tutorial's second snippet: a row from tca_alloc() goes into a put as it is. */
#include "tests/integration/snippets/checked.h"

enum { N = 1000 };

int main(void)
{
    struct tca *session;
    struct tca_region *region;
    struct tca_handle own, all[2];
    struct tca_plan *row_plan;

    tca_open(NULL, &session);
    const uint32_t peer = 1 - this_rank;
    tca_region_alloc(session, N * sizeof(double), &region);
    tca_region_handle(region, 0, TCA_ALL, &own);
    tca_allgather(session, &own, sizeof(own), all, TCA_DEFAULT);
    tca_plan_new(session, NULL, &row_plan);
#include "tutorial-2.inc"
    tca_plan_notify(row_plan, peer, 0);
    tca_plan_commit(row_plan, TCA_DEFAULT);
    for (int i = 0; i < N; i++)
        row[i] = this_rank * N + i;
    tca_start(row_plan);
    tca_notified_wait(session, peer, 0, TCA_FOREVER);
    const double *target = tca_region_address(region);
    for (int i = 0; i < N; i++)
        check_value(target[i], peer * N + i, "place", 0, i);
    tca_wait(row_plan, TCA_FOREVER);
    tca_plan_free(row_plan);
    tca_free(session, row);
    tca_close(session);
    return verdict(0, 0);
}
