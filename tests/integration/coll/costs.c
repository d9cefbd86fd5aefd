/*
 * coll-costs LATENCY_NS WORK_NS KIB_NS ALGORITHM: what the ranks' nodes have measured of their
 * network. All ranks must have these numbers, and a broadcast of 64 KiB must choose this algorithm,
 * as a simulation with them does. Ends with 0, or prints what was wrong.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/include/tca-coll.h"

enum { BYTES = 65536 };

static int wrong(const struct tca *session, const char *what)
{
    printf("rank %u: %s: %s\n", tca_rank(session), what, tca_error_text());
    return 1;
}

static int check_costs(const struct tca *session, char **words, const struct tca_coll_costs *costs)
{
    const struct tca_coll_link *link = &costs->subcluster;

    if (link->measured && !costs->node.measured &&
        link->latency_ns == strtoull(words[1], NULL, 10) &&
        link->overhead_ns == strtoull(words[2], NULL, 10) &&
        link->small_kib_ns == strtoull(words[3], NULL, 10))
        return 0;
    printf("latency %lu, work %lu, KiB %lu, measured %d. ", link->latency_ns, link->overhead_ns,
           link->small_kib_ns, link->measured);
    return wrong(session, "costs");
}

static int check_choice(struct tca *session, const char *name, const struct tca_coll_costs *costs)
{
    struct tca_coll_simulated simulated;
    const struct tca_coll_simulation simulation = {.operation = "broadcast",
                                                   .ranks = tca_size(session),
                                                   .per_node = 1,
                                                   .bytes = BYTES,
                                                   .costs = costs};
    struct tca_coll *coll;
    char text[2048];
    void *memory;

    if (tca_alloc(session, BYTES, &memory) < 0 ||
        tca_coll_broadcast(session, memory, BYTES, 0, NULL, &coll) < 0)
        return wrong(session, "preparing it");
    tca_coll_explain(coll, text, sizeof(text));
    if (strcmp(tca_coll_algorithm_name(tca_coll_algorithm_of(coll)), name) != 0 ||
        !strstr(text, "costs within a sub-cluster") || !strstr(text, "(measured)") ||
        tca_coll_simulate(&simulation, NULL, NULL, &simulated) < 0 ||
        simulated.algorithm != tca_coll_algorithm_of(coll)) {
        fputs(text, stdout);
        return wrong(session, "algorithm");
    }
    tca_coll_free(coll);
    return 0;
}

int main(int argc, char **argv)
{
    struct tca_coll_costs costs;
    struct tca *session;

    if (argc != 5)
        return 2;
    if (tca_open(NULL, &session) < 0) {
        printf("tca_open(): %s\n", tca_error_text());
        return 1;
    }
    tca_coll_costs(session, TCA_SEAT_ANY, &costs);
    int wrong = check_costs(session, argv, &costs) || check_choice(session, argv[4], &costs);
    tca_close(session);
    return wrong;
}
