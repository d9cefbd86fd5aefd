#include <stdio.h>

#include "client/coll/coll.h"

const char *tca_coll_algorithm_name(enum tca_coll_algorithm algorithm)
{
    static const char *const names[] = {"any",     "direct", "binomial", "chain",
                                        "trinary", "ring",   "doubling", "hierarchical"};

    return (unsigned)algorithm < sizeof(names) / sizeof(names[0]) ? names[algorithm] : "?";
}

enum tca_coll_algorithm tca_coll_algorithm_of(const struct tca_coll *coll)
{
    return coll->algorithm;
}

const char *coll_operation_name(enum coll_operation operation)
{
    static const char *const names[COLL_OPERATIONS + 1] = {
        [COLL_BARRIER] = "barrier",     [COLL_BROADCAST] = "broadcast",
        [COLL_ALLGATHER] = "allgather", [COLL_REDUCE] = "reduce",
        [COLL_ALLREDUCE] = "allreduce", [COLL_REDUCE_SCATTER] = "reduce-scatter",
        [COLL_ALLTOALL] = "alltoall",   [COLL_NEIGHBOURS] = "alltoall between neighbours",
    };

    return names[operation];
}

void tca_coll_costs(const struct tca *session, enum tca_seat seat, struct tca_coll_costs *ret_costs)
{
    static const struct reach_costs none;

    coll_costs_measured(session ? session_costs(session) : &none, seat == TCA_SEAT_DAEMON,
                        ret_costs);
}

static void explain_link(const char *where, const struct tca_coll_link *link, FILE *file)
{
    fprintf(file, "costs %s: latency %.2f us, work %.2f us, %llu to %llu ns per KiB (%s)\n", where,
            (double)link->latency_ns / 1000, (double)link->overhead_ns / 1000,
            (unsigned long long)link->small_kib_ns, (unsigned long long)link->large_kib_ns,
            link->measured ? "measured" : "typical");
}

static void explain(const struct tca_coll *coll, FILE *file)
{
    static const char *const kinds[] = {"puts", "notifications", "waits", "reductions"};
    uint32_t counts[4] = {0};

    for (uint32_t c = 0; c < coll->program.chain_count; c++)
        for (uint32_t i = 0; i < coll->program.chains[c].count; i++)
            counts[coll->program.chains[c].steps[i].kind]++;
    fprintf(file, "%s of %u ranks, algorithm %s: rank %u has",
            coll_operation_name(coll->shape.operation), coll->shape.places.size,
            tca_coll_algorithm_name(coll->algorithm), tca_rank(coll->session));
    for (int kind = 0; kind < 4; kind++)
        fprintf(file, " %u %s%s", counts[kind], kinds[kind], kind < 3 ? "," : " ");
    fprintf(file, "in %u chain%s, %llu bytes of scratch memory\n", coll->program.chain_count,
            coll->program.chain_count > 1 ? "s" : "",
            (unsigned long long)coll->program.scratch_bytes * coll->program.ways);
    if (coll->leaf.credit)
        fputs("received by this process, without a plan\n", file);
    if (coll->by_thread)
        fputs("carried out by a thread, which starts a plan after each wait\n", file);
    if (coll->shape.operation == COLL_NEIGHBOURS)
        return;
    explain_link("within a node", &coll->costs.node, file);
    explain_link("within a sub-cluster", &coll->costs.subcluster, file);
    if (!coll_one_cluster(&coll->shape.places))
        explain_link("between sub-clusters", &coll->costs.cluster, file);
    for (int a = TCA_COLL_DIRECT; a <= TCA_COLL_HIERARCHICAL; a++) {
        uint64_t ns;
        if (coll_schedule_suits(&coll->shape, (enum tca_coll_algorithm)a) &&
            coll_predict(&coll->shape, (enum tca_coll_algorithm)a, &coll->costs, &ns) >= 0)
            fprintf(file, "%c %-12s predicted %.1f us\n",
                    coll->algorithm == (enum tca_coll_algorithm)a ? '*' : ' ',
                    tca_coll_algorithm_name((enum tca_coll_algorithm)a), (double)ns / 1000);
    }
}

void tca_coll_explain(const struct tca_coll *coll, char *text, size_t text_bytes)
{
    if (text_bytes == 0)
        return;
    text[0] = '\0';
    FILE *file = fmemopen(text, text_bytes, "w");
    if (!file)
        return;
    explain(coll, file);
    fclose(file);
    text[text_bytes - 1] = '\0';
}
