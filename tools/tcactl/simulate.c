/* tcactl simulate: a collective operation of ranks that need not exist. Needs no daemon, but takes
 * the costs that one has measured if it runs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/tcactl.h"

enum { RANKS = TCA_COLL_SIMULATED_RANKS };

/* What the steps of an operation add up to. */
struct totals {
    const struct tca_coll_simulation *simulation;
    json_t *steps;          /* NULL: not wanted */
    uint64_t *puts, *bytes; /* [nodes * nodes], from and to; NULL: too many ranks */
    uint32_t nodes;
};

/* "64", "64K", "1M", "2G". False after an error message. */
static bool parse_bytes(const char *what, const char *text, uint64_t *ret_bytes)
{
    static const char units[] = "KMG";
    char *end = (char *)text;

    errno = 0;
    unsigned long long value = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    const char *unit = *end ? strchr(units, *end) : NULL;
    const unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (end == text || errno || end[unit != NULL] != '\0' || value >> (48 - shift)) {
        fprintf(stderr,
                "tcactl: simulate: %s %s: write bytes, with K, M or G for KiB, MiB or GiB: less "
                "than 2^48\n",
                what, text);
        return false;
    }
    *ret_bytes = value << shift;
    return true;
}

static bool parse_algorithm(const char *text, enum tca_coll_algorithm *ret_algorithm)
{
    for (int a = TCA_COLL_ANY; a <= TCA_COLL_HIERARCHICAL; a++)
        if (strcmp(text, tca_coll_algorithm_name((enum tca_coll_algorithm)a)) == 0) {
            *ret_algorithm = (enum tca_coll_algorithm)a;
            return true;
        }
    fprintf(stderr, "tcactl: simulate: unknown algorithm \"%s\": see tca-coll(3)\n", text);
    return false;
}

static bool parse(const struct tcactl *tcactl, int count, char **arguments,
                  struct tca_coll_simulation *simulation)
{
    *simulation = (struct tca_coll_simulation){
        .operation = arguments[0],
        .ranks = tcactl->given & OPTION_RANKS ? tcactl->ranks : 2,
        .per_node = tcactl->given & OPTION_PPN ? tcactl->per_node : 1,
        .per_subcluster = tcactl->per_subcluster,
        .root = tcactl->root,
        .bytes = strcmp(arguments[0], "barrier") == 0 ? 0 : 8,
    };
    if (count > 1 && !parse_bytes("BYTES", arguments[1], &simulation->bytes))
        return false;
    if (tcactl->segment && !parse_bytes("--segment", tcactl->segment, &simulation->segment_bytes))
        return false;
    return !tcactl->algorithm || parse_algorithm(tcactl->algorithm, &simulation->algorithm);
}

/* ---- costs ---- */

static void take_cost(const json_t *cost, struct tca_coll_costs *costs)
{
    const char *to = doc_text(cost, "to"), *seat = doc_text(cost, "seat");
    struct tca_coll_link *link = strcmp(to, "subcluster") == 0 ? &costs->subcluster
                                 : strcmp(to, "cluster") == 0  ? &costs->cluster
                                 : strcmp(seat, "client") == 0 ? &costs->node
                                                               : NULL;

    if (link)
        *link = (struct tca_coll_link){
            .latency_ns = (uint64_t)doc_integer(cost, "latency_ns"),
            .overhead_ns = (uint64_t)doc_integer(cost, "overhead_ns"),
            .small_kib_ns = (uint64_t)doc_integer(cost, "small_kib_ns"),
            .large_kib_ns = (uint64_t)doc_integer(cost, "large_kib_ns"),
            .measured = 1,
        };
}

/* Those of the node whose daemon answers, else typical ones. */
static void find_costs(struct tcactl *tcactl, struct tca_coll_costs *ret_costs)
{
    char *text = NULL;

    tca_coll_costs(NULL, TCA_SEAT_ANY, ret_costs);
    if (tcactl_ask(tcactl, "status", "", &text) < 0)
        return;
    json_t *status = json_loads(text, 0, NULL);
    for (size_t i = 0; i < doc_count(status, "calibration.costs"); i++)
        take_cost(doc_at(status, "calibration.costs", i), ret_costs);
    if (ret_costs->node.measured)
        ret_costs->combine_kib_ns = ret_costs->node.small_kib_ns * 3 / 2;
    json_decref(status);
    free(text);
}

/* ---- the document ---- */

static json_t *link_document(const struct tca_coll_link *link)
{
    return must(json_pack("{s:I, s:I, s:I, s:I, s:b}", "latency_ns", (json_int_t)link->latency_ns,
                          "overhead_ns", (json_int_t)link->overhead_ns, "small_kib_ns",
                          (json_int_t)link->small_kib_ns, "large_kib_ns",
                          (json_int_t)link->large_kib_ns, "measured", link->measured));
}

static json_t *costs_document(const struct tca_coll_costs *costs)
{
    return must(json_pack("{s:o, s:o, s:o, s:I}", "node", link_document(&costs->node), "subcluster",
                          link_document(&costs->subcluster), "cluster",
                          link_document(&costs->cluster), "combine_kib_ns",
                          (json_int_t)costs->combine_kib_ns));
}

static const char *name_of(const struct tca_coll_simulated_step *step)
{
    static const char *const names[] = {"put", "notify", "wait", "reduce"};

    return step->kind == TCA_COLL_PUT && step->peer == step->rank ? "copy" : names[step->kind];
}

static void add_step(void *context, const struct tca_coll_simulated_step *step)
{
    struct totals *totals = context;
    const uint32_t per_node = totals->simulation->per_node;

    if (step->kind == TCA_COLL_PUT && step->peer != step->rank) {
        const uint32_t link = step->rank / per_node * totals->nodes + step->peer / per_node;
        totals->puts[link]++;
        totals->bytes[link] += step->bytes;
    }
    if (totals->steps)
        json_array_append_new(
            totals->steps,
            must(json_pack("{s:I, s:I, s:s, s:I, s:I, s:I, s:I}", "rank", (json_int_t)step->rank,
                           "chain", (json_int_t)step->chain, "kind", name_of(step), "peer",
                           (json_int_t)step->peer, "bytes", (json_int_t)step->bytes, "begin_ns",
                           (json_int_t)step->begin_ns, "end_ns", (json_int_t)step->end_ns)));
}

static json_t *segment(uint64_t bytes)
{
    return bytes == UINT64_MAX ? json_null() : json_integer((json_int_t)bytes);
}

/* Those that suit. */
static json_t *algorithms(const struct tca_coll_simulation *simulation,
                          enum tca_coll_algorithm chosen)
{
    json_t *list = must(json_array());

    for (int a = TCA_COLL_DIRECT; a <= TCA_COLL_HIERARCHICAL; a++) {
        struct tca_coll_simulation other = *simulation;
        struct tca_coll_simulated result;
        other.algorithm = (enum tca_coll_algorithm)a;
        if (tca_coll_simulate(&other, NULL, NULL, &result) < 0)
            continue;
        json_array_append_new(list, must(json_pack("{s:s, s:I, s:o, s:b}", "name",
                                                   tca_coll_algorithm_name(result.algorithm),
                                                   "predicted_ns", (json_int_t)result.ns,
                                                   "segment_bytes", segment(result.segment_bytes),
                                                   "chosen", result.algorithm == chosen)));
    }
    return list;
}

static json_t *links(const struct totals *totals)
{
    const uint32_t nodes = totals->nodes;
    if (!totals->puts)
        return must(json_null());
    json_t *list = must(json_array());

    for (uint32_t link = 0; link < nodes * nodes; link++)
        if (totals->puts[link] > 0)
            json_array_append_new(
                list,
                must(json_pack("{s:I, s:I, s:I, s:I}", "from", (json_int_t)(link / nodes), "to",
                               (json_int_t)(link % nodes), "puts", (json_int_t)totals->puts[link],
                               "bytes", (json_int_t)totals->bytes[link])));
    return list;
}

static json_t *document(const struct totals *totals, const struct tca_coll_simulated *result)
{
    const struct tca_coll_simulation *simulation = totals->simulation;
    const uint32_t per_cluster =
        simulation->per_subcluster ? simulation->per_subcluster : totals->nodes;
    json_t *doc = must(json_pack(
        "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:o, s:I, s:o, s:o, s:o}", "operation",
        simulation->operation, "bytes", (json_int_t)simulation->bytes, "ranks",
        (json_int_t)simulation->ranks, "per_node", (json_int_t)simulation->per_node, "nodes",
        (json_int_t)totals->nodes, "subclusters",
        (json_int_t)((totals->nodes + per_cluster - 1) / per_cluster), "root",
        (json_int_t)simulation->root, "algorithm", tca_coll_algorithm_name(result->algorithm),
        "segment_bytes", segment(result->segment_bytes), "predicted_ns", (json_int_t)result->ns,
        "costs", costs_document(simulation->costs), "algorithms",
        algorithms(simulation, result->algorithm), "links", links(totals)));
    if (totals->steps)
        json_object_set(doc, "steps", totals->steps);
    return doc;
}

int run_simulate(struct tcactl *tcactl, int count, char **arguments)
{
    struct tca_coll_simulation simulation;
    struct tca_coll_simulated result;
    struct tca_coll_costs costs;

    if (!parse(tcactl, count, arguments, &simulation))
        return EXIT_USAGE;
    find_costs(tcactl, &costs);
    simulation.costs = &costs;
    struct totals totals = {.simulation = &simulation,
                            .nodes = (simulation.ranks - 1) / simulation.per_node + 1};
    const bool each = simulation.ranks <= RANKS || tcactl->given & OPTION_STEPS;
    const size_t links = simulation.ranks <= RANKS ? (size_t)totals.nodes * totals.nodes : 0;
    if (links) {
        totals.puts = must(calloc(links, sizeof(*totals.puts)));
        totals.bytes = must(calloc(links, sizeof(*totals.bytes)));
    }
    totals.steps = tcactl->given & OPTION_STEPS ? must(json_array()) : NULL;
    int code = EXIT_USAGE;
    if (tca_coll_simulate(&simulation, each ? add_step : NULL, &totals, &result) < 0)
        fprintf(stderr, "tcactl: simulate: %s\n", tca_error_text());
    else
        code = tcactl_print(tcactl, document(&totals, &result), render_simulate);
    json_decref(totals.steps);
    free(totals.puts);
    free(totals.bytes);
    return code;
}
