/* tcactl place: placement advice for the ranks of a process grid. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/common/must.h"
#include "tools/tcactl/doc.h"
#include "tools/tcactl/placement.h"
#include "tools/tcactl/tcactl.h"

struct place {
    struct placement_task task;
    uint32_t ranks, node_count;
    const json_t **nodes; /* [node_count]: those that are not down, by sub-cluster */
    uint32_t *subclusters;
};

/* "4x2x1". Returns the number of sizes, or -EINVAL. */
static int parse_sizes(const char *text, unsigned long most, unsigned long *ret_sizes)
{
    int count = 0;

    for (char *end; count < PLACEMENT_DIMENSIONS; text = end + 1) {
        errno = 0;
        ret_sizes[count] = *text >= '0' && *text <= '9' ? strtoul(text, &end, 10) : 0;
        if (ret_sizes[count] < 1 || ret_sizes[count] > most || errno)
            return -EINVAL;
        count++;
        if (*end == '\0')
            return count;
        if (*end != 'x')
            return -EINVAL;
    }
    return -EINVAL;
}

static int parse_grid(const char *text, struct place *place)
{
    unsigned long sizes[PLACEMENT_DIMENSIONS];
    uint64_t ranks = 1;
    int dimensions = parse_sizes(text, PLACEMENT_RANKS, sizes);

    for (int d = 0; d < dimensions && ranks <= PLACEMENT_RANKS; d++) {
        place->task.grid[d] = (uint32_t)sizes[d];
        place->task.face[d] = 1;
        ranks *= sizes[d];
    }
    if (dimensions < 0 || ranks > PLACEMENT_RANKS) {
        fprintf(stderr,
                "tcactl: place: grid \"%s\": write the processes in each dimension, as in 4x2x1: "
                "at most %d dimensions and %d processes\n",
                text, PLACEMENT_DIMENSIONS, PLACEMENT_RANKS);
        return EXIT_USAGE;
    }
    place->task.dimensions = (uint32_t)dimensions;
    place->ranks = (uint32_t)ranks;
    return EXIT_OK;
}

/* The size of a rank's face is that of its box without the dimension across. */
static int parse_extents(const char *text, struct place *place)
{
    unsigned long sizes[PLACEMENT_DIMENSIONS];
    struct placement_task *task = &place->task;

    if (parse_sizes(text, 1ul << 40, sizes) != (int)task->dimensions) {
        fprintf(stderr,
                "tcactl: place: array \"%s\": write its extent in each of the %u dimensions of the "
                "grid, as in 512x256x256\n",
                text, task->dimensions);
        return EXIT_USAGE;
    }
    for (uint32_t d = 0; d < task->dimensions; d++)
        for (uint32_t other = 0; other < task->dimensions; other++)
            if (other != d)
                task->face[d] *= (double)sizes[other] / task->grid[other];
    return EXIT_OK;
}

static int by_subcluster(const void *a, const void *b)
{
    const json_t *left = *(const json_t *const *)a, *right = *(const json_t *const *)b;
    int order = strcmp(doc_text(left, "subcluster"), doc_text(right, "subcluster"));
    long long ids = doc_integer(left, "id") - doc_integer(right, "id");

    return order ? order : (ids > 0) - (ids < 0);
}

static void take_nodes(const json_t *doc, struct place *place)
{
    size_t count = doc_count(doc, "nodes");

    place->nodes = must(calloc(count + 1, sizeof(*place->nodes)));
    place->subclusters = must(calloc(count + 1, sizeof(*place->subclusters)));
    for (size_t i = 0; i < count; i++)
        if (strcmp(doc_text(doc_at(doc, "nodes", i), "state"), "down") != 0)
            place->nodes[place->node_count++] = doc_at(doc, "nodes", i);
    qsort(place->nodes, place->node_count, sizeof(*place->nodes), by_subcluster);
    for (uint32_t n = 1; n < place->node_count; n++)
        place->subclusters[n] =
            place->subclusters[n - 1] + (strcmp(doc_text(place->nodes[n - 1], "subcluster"),
                                                doc_text(place->nodes[n], "subcluster")) != 0);
    place->task.subclusters = place->subclusters;
}

static int choose_per_node(const struct tcactl *tcactl, struct place *place)
{
    uint32_t nodes = place->node_count ? place->node_count : 1;

    place->task.per_node =
        tcactl->given & OPTION_PPN ? tcactl->per_node : (place->ranks + nodes - 1) / nodes;
    if ((uint64_t)place->node_count * place->task.per_node >= place->ranks)
        return EXIT_OK;
    fprintf(stderr,
            "tcactl: place: %u processes, %u on each node, do not fit on %u nodes: raise --ppn\n",
            place->ranks, place->task.per_node, place->node_count);
    return EXIT_FAILED;
}

/* ---- the document ---- */

static json_t *cost_document(const struct placement_cost *cost)
{
    return must(json_pack(
        "{s:f, s:f}", "between_nodes", cost->all > 0 ? cost->between_nodes / cost->all : 0,
        "between_subclusters", cost->all > 0 ? cost->between_subclusters / cost->all : 0));
}

static json_t *ranks_document(const struct place *place, const uint32_t *nodes)
{
    json_t *list = must(json_array());
    uint32_t taken[PLACEMENT_RANKS] = {0};

    for (uint32_t rank = 0; rank < place->ranks; rank++) {
        const json_t *node = place->nodes[nodes[rank]];
        uint32_t position[PLACEMENT_DIMENSIONS];
        json_t *at = must(json_array());
        placement_position(&place->task, rank, position);
        for (uint32_t d = 0; d < place->task.dimensions; d++)
            json_array_append_new(at, json_integer(position[d]));
        json_array_append_new(
            list, must(json_pack("{s:i, s:o, s:I, s:s, s:s, s:i}", "rank", (int)rank, "position",
                                 at, "node", (json_int_t)doc_integer(node, "id"), "name",
                                 doc_text(node, "name"), "subcluster", doc_text(node, "subcluster"),
                                 "slot", (int)taken[nodes[rank]]++)));
    }
    return list;
}

static json_t *place_document(const struct place *place)
{
    uint32_t chosen[PLACEMENT_RANKS], in_order[PLACEMENT_RANKS];

    placement_find(&place->task, chosen);
    placement_in_order(&place->task, in_order);
    struct placement_cost cost = placement_cost(&place->task, chosen);
    struct placement_cost usual = placement_cost(&place->task, in_order);
    return must(json_pack("{s:i, s:o, s:o, s:o}", "per_node", (int)place->task.per_node, "share",
                          cost_document(&cost), "share_in_order", cost_document(&usual), "ranks",
                          ranks_document(place, chosen)));
}

int run_place(struct tcactl *tcactl, int count, char **arguments)
{
    struct place place = {0};
    char *text = NULL;
    int code = parse_grid(arguments[0], &place);

    if (code == EXIT_OK && count > 1)
        code = parse_extents(arguments[1], &place);
    if (code != EXIT_OK)
        return code;
    int r = tcactl_ask(tcactl, "nodes", NULL, &text);
    if (r < 0)
        return tcactl_failed(tcactl, r);
    json_t *doc = tcactl_parse(tcactl, text);
    free(text);
    if (!doc)
        return EXIT_FAILED;
    take_nodes(doc, &place);
    code = choose_per_node(tcactl, &place);
    if (code == EXIT_OK)
        tcactl_print(tcactl, place_document(&place),
                     tcactl->given & OPTION_RANKFILE   ? render_rankfile
                     : tcactl->given & OPTION_HOSTLIST ? render_hostlist
                                                       : render_place);
    free(place.nodes);
    free(place.subclusters);
    json_decref(doc);
    return code;
}
