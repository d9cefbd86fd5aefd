#include "daemon/groups/roster.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* A rank and its node: sorted by node, the first of each node has its lowest rank. */
struct seat {
    uint32_t node, rank;
};

static int by_node(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int by_rank(const void *a, const void *b)
{
    const struct seat *x = a, *y = b;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static int number_nodes(struct roster *roster, struct seat *seats)
{
    struct seat *heads = calloc(roster->size, sizeof(*heads));
    if (!heads)
        return -ENOMEM;
    qsort(seats, roster->size, sizeof(*seats), by_node);
    for (uint32_t i = 0; i < roster->size; i++)
        if (i == 0 || seats[i].node != seats[i - 1].node)
            heads[roster->nodes++] = seats[i];
    qsort(heads, roster->nodes, sizeof(*heads), by_rank);
    roster->node_at = calloc(roster->nodes, sizeof(*roster->node_at));
    roster->by_node = calloc(roster->nodes, sizeof(*roster->by_node));
    roster->starts = calloc(roster->nodes + 1, sizeof(*roster->starts));
    const bool ok = roster->node_at && roster->by_node && roster->starts;
    for (uint32_t position = 0; ok && position < roster->nodes; position++) {
        roster->node_at[position] = heads[position].node;
        heads[position].rank = position;
    }
    qsort(heads, roster->nodes, sizeof(*heads), by_node);
    for (uint32_t i = 0; ok && i < roster->nodes; i++)
        roster->by_node[i] = (struct roster_node){heads[i].node, heads[i].rank};
    free(heads);
    return ok ? 0 : -ENOMEM;
}

/* The seats are sorted by node, and then by rank. */
static void place_ranks(struct roster *roster, const struct seat *seats)
{
    uint32_t at = 0, from = 0;

    for (uint32_t i = 0; i < roster->size; i++) {
        if (i > 0 && seats[i].node != seats[i - 1].node)
            at++;
        const uint32_t position = roster->by_node[at].position;
        roster->positions[seats[i].rank] = position;
        roster->starts[position + 1]++;
    }
    for (uint32_t position = 0; position < roster->nodes; position++)
        roster->starts[position + 1] += roster->starts[position];
    for (uint32_t i = 0; i < roster->size; i++) {
        from = i == 0 || seats[i].node != seats[i - 1].node ? i : from;
        roster->by_position[roster->starts[roster->positions[seats[i].rank]] + i - from] =
            seats[i].rank;
    }
}

int roster_init(struct roster *roster, uint32_t size, const uint32_t *node_of)
{
    struct seat *seats = calloc(size, sizeof(*seats));

    *roster = (struct roster){.size = size};
    roster->positions = calloc(size, sizeof(*roster->positions));
    roster->by_position = calloc(size, sizeof(*roster->by_position));
    int r = seats && roster->positions && roster->by_position ? 0 : -ENOMEM;
    for (uint32_t rank = 0; r == 0 && rank < size; rank++)
        seats[rank] = (struct seat){node_of[rank], rank};
    if (r == 0)
        r = number_nodes(roster, seats);
    if (r == 0)
        place_ranks(roster, seats);
    else
        roster_deinit(roster);
    free(seats);
    return r;
}

void roster_deinit(struct roster *roster)
{
    free(roster->node_at);
    free(roster->by_node);
    free(roster->positions);
    free(roster->by_position);
    free(roster->starts);
    *roster = (struct roster){0};
}

static int compare_node(const void *key, const void *element)
{
    const uint32_t node = *(const uint32_t *)key;
    const struct roster_node *entry = element;
    return node < entry->node ? -1 : node > entry->node;
}

uint32_t roster_position(const struct roster *roster, uint32_t node)
{
    const struct roster_node *found =
        bsearch(&node, roster->by_node, roster->nodes, sizeof(*found), compare_node);
    return found ? found->position : UINT32_MAX;
}
