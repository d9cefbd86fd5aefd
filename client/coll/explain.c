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

/* How many of the first ranks have the same number, if every so many ranks have the next greater
 * one; else 0. */
static uint32_t run_length(const uint32_t *numbers, uint32_t count, uint32_t step)
{
    uint32_t length = step;

    while (length < count && numbers[length] == numbers[0])
        length += step;
    for (uint32_t i = 1; i < count; i++)
        if (i % length == 0 ? numbers[i] <= numbers[i - 1] : numbers[i] != numbers[i - 1])
            return 0;
    return length;
}

/* Whether tcactl simulate has the same operation. */
static bool is_simulated(const struct coll_shape *shape)
{
    switch (shape->operation) {
    case COLL_BARRIER:
    case COLL_BROADCAST:
        return true;
    case COLL_ALLGATHER:
    case COLL_ALLTOALL:
        return shape->regular;
    case COLL_REDUCE:
    case COLL_ALLREDUCE:
        return shape->element_bytes == sizeof(double);
    default:
        return false;
    }
}

void coll_show(struct tca_coll *coll)
{
    const struct coll_shape *shape = &coll->shape;
    const struct coll_places *places = &shape->places;
    struct collective *shown = &coll->shown;

    shown->operation = coll_operation_name(shape->operation);
    shown->algorithm = tca_coll_algorithm_name(coll->algorithm);
    shown->requested = coll->wanted != TCA_COLL_ANY;
    shown->ranks = places->size;
    shown->root = shape->root;
    shown->bytes = shape->bytes;
    shown->segment_bytes = shape->segment_bytes ? shape->segment_bytes : UINT64_MAX;
    shown->per_node = is_simulated(shape) ? run_length(places->nodes, places->size, 1) : 0;
    if (shown->per_node && !coll_one_cluster(places))
        shown->per_subcluster =
            run_length(places->clusters, places->size, shown->per_node) / shown->per_node;
}

struct coll_shape coll_common_shape(const struct tca_coll *coll)
{
    struct coll_shape shape = coll->shape;

    shape.in_place = coll->any_in_place;
    return shape;
}

/* Other algorithms than one that the program has requested are predicted here only. */
static void explain_candidates(const struct tca_coll *coll, FILE *file)
{
    struct coll_candidate candidates[COLLECTIVE_CANDIDATES_MAX];
    struct coll_shape shape = coll_common_shape(coll);
    uint32_t count;

    shape.segment_bytes = coll->wanted_segment_bytes;
    if (coll_candidates(&shape, TCA_COLL_ANY, &coll->costs, candidates, &count) < 0)
        return;
    for (uint32_t i = 0; i < count; i++) {
        const struct coll_candidate *candidate = &candidates[i];
        fprintf(file, "%c %-12s predicted %.1f us",
                coll->algorithm == candidate->algorithm ? '*' : ' ',
                tca_coll_algorithm_name(candidate->algorithm), (double)candidate->ns / 1000);
        if (candidate->segment_bytes < shape.bytes)
            fprintf(file, ", in segments of %llu bytes",
                    (unsigned long long)candidate->segment_bytes);
        fputc('\n', file);
    }
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
            tca_coll_algorithm_name(coll->algorithm), coll_rank(coll));
    for (int kind = 0; kind < 4; kind++)
        fprintf(file, " %u %s%s", counts[kind], kinds[kind], kind < 3 ? "," : " ");
    fprintf(file, "in %u chain%s, %llu bytes of scratch memory\n", coll->program.chain_count,
            coll->program.chain_count > 1 ? "s" : "",
            (unsigned long long)coll->program.scratch_bytes * coll->program.sets);
    if (coll->leaf.credit)
        fputs("received by this process, without a plan\n", file);
    if (coll->taken_over > 0)
        fprintf(file, "made before, and used again %llu times after it was freed\n",
                (unsigned long long)coll->taken_over);
    if (coll->by_thread)
        fputs("carried out by a thread, which starts a plan after each wait\n", file);
    if (coll->shape.operation == COLL_NEIGHBOURS)
        return;
    explain_link("within a node", &coll->costs.node, file);
    explain_link("within a sub-cluster", &coll->costs.subcluster, file);
    if (!coll_one_cluster(&coll->shape.places))
        explain_link("between sub-clusters", &coll->costs.cluster, file);
    explain_candidates(coll, file);
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
