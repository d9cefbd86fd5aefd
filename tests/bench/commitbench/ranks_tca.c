#include "tests/bench/commitbench/ranks_tca.h"

void ranks_open(struct ranks *ranks, uint64_t bytes)
{
    struct tca_handle own;

    check(tca_open(NULL, &ranks->session), "opening the session");
    if (tca_size(ranks->session) != 2) {
        fputs("commit: it takes two ranks\n", stderr);
        exit(2);
    }
    check(tca_region_alloc(ranks->session, bytes, &ranks->region), "making a region");
    check(tca_region_handle(ranks->region, 0, TCA_ALL, &own), "naming the region");
    check(tca_allgather(ranks->session, &own, sizeof(own), ranks->handles, PATIENCE_NS), "meeting");
}

void ranks_close(struct ranks *ranks)
{
    check(tca_barrier(ranks->session, PATIENCE_NS), "leaving");
    tca_close(ranks->session);
}
