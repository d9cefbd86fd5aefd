/*
 * coll-full PLANS: operations that were freed, and that are kept for others like them, are in
 * nobody's way when the limit of PLANS is reached: the first rank makes plans of its own until
 * there is no room for more, the others do not. Then all make the operations again. Ends with 0, or
 * prints what was wrong.
 */
#include <errno.h>

#include "client/include/tca-coll.h"
#include "tests/integration/expect.h"

enum { KINDS = 6, OWN = 8 /* plans that are in use, besides those of the program */ };

static struct tca *session;
static uint64_t memory[KINDS + 1];

static void broadcast(uint64_t count, uint64_t value)
{
    struct tca_coll *coll;

    memory[count - 1] = rank == 0 ? value : 0;
    check(tca_coll_broadcast(session, memory, count * sizeof(*memory), 0, NULL, &coll), "making");
    check(tca_coll_start(coll), "starting");
    check(tca_coll_wait(coll, TCA_DEFAULT), "waiting");
    if (memory[count - 1] != value) {
        printf("rank %u: %llu instead of %llu\n", rank, (unsigned long long)memory[count - 1],
               (unsigned long long)value);
        wrong = 1;
    }
    tca_coll_free(coll);
}

static void fill(unsigned plans)
{
    struct tca_plan *made[1024];
    unsigned count = 0;
    int r = 0;

    while (r == 0 && count < 1024) {
        check(tca_plan_new(session, NULL, &made[count]), "a plan");
        check(tca_plan_notify(made[count], rank, 0), "a notification");
        r = tca_plan_commit(made[count++], TCA_DEFAULT);
    }
    expect(r, -EDQUOT, "limits.plans_per_session", "the last plan");
    if (count + OWN < plans) {
        printf("rank %u: there was room for %u plans only\n", rank, count);
        wrong = 1;
    }
    while (count > 0)
        tca_plan_free(made[--count]);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    check(tca_open(NULL, &session), "opening");
    rank = tca_rank(session);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 2 * KINDS; i++)
            broadcast(i % KINDS + 1, 100 * round + i + 1);
        if (rank == 0)
            fill((unsigned)atoi(argv[1]));
        check(tca_barrier(session, TCA_DEFAULT), "meeting");
    }
    tca_close(session);
    return wrong;
}
