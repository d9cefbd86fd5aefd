#include "config/cluster.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/cluster_internal.h"
#include "config/hostlist.h"

struct cluster *cluster_free(struct cluster *cluster)
{
    if (!cluster)
        return NULL;
    for (size_t i = 0; i < cluster->count; i++) {
        free(cluster->nodes[i].name);
        free(cluster->nodes[i].address);
        free(cluster->nodes[i].subcluster);
    }
    free(cluster->nodes);
    free(cluster->by_name);
    free(cluster->name);
    free(cluster);
    return NULL;
}

/* Equal ids stay in the order of the file: the error is reported on the second. */
static int compare_id(const void *a, const void *b)
{
    const struct cluster_node *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static int compare_name(const void *a, const void *b)
{
    const struct cluster_node *x = *(const struct cluster_node *const *)a;
    const struct cluster_node *y = *(const struct cluster_node *const *)b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->line > y->line) - (x->line < y->line);
}

static int compare_subcluster(const void *a, const void *b)
{
    const struct cluster_node *x = *(const struct cluster_node *const *)a;
    const struct cluster_node *y = *(const struct cluster_node *const *)b;
    int order = strcmp(x->subcluster, y->subcluster);

    return order ? order : (x->id > y->id) - (x->id < y->id);
}

/* nodes: all of them, in any order; reordered. */
static void number_subclusters(struct cluster_node **nodes, size_t count)
{
    qsort(nodes, count, sizeof(*nodes), compare_subcluster);
    for (size_t i = 0; i < count; i++) {
        bool first = i == 0 || strcmp(nodes[i]->subcluster, nodes[i - 1]->subcluster) != 0;
        nodes[i]->subcluster_id = first ? nodes[i]->id : nodes[i - 1]->subcluster_id;
    }
}

/* FNV-1a, with the terminating zero. */
static uint64_t digest_text(uint64_t value, const char *text)
{
    do
        value = (value ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    while (*text++);
    return value;
}

static uint64_t digest(const struct cluster *cluster)
{
    uint64_t value = digest_text(UINT64_C(0xcbf29ce484222325), cluster->name);
    for (size_t i = 0; i < cluster->count; i++) {
        const struct cluster_node *node = &cluster->nodes[i];
        char numbers[32];
        snprintf(numbers, sizeof(numbers), "%" PRIu32 " %u", node->id, node->port);
        value = digest_text(value, numbers);
        value = digest_text(value, node->name);
        value = digest_text(value, node->address);
        value = digest_text(value, node->subcluster);
    }
    return value | 1; /* 0: unknown */
}

int cluster_index(struct cluster *cluster)
{
    cluster->by_name = calloc(cluster->count + 1, sizeof(struct cluster_node *));
    if (!cluster->by_name)
        return -ENOMEM;
    if (cluster->count == 0)
        return 0;
    qsort(cluster->nodes, cluster->count, sizeof(*cluster->nodes), compare_id);
    for (size_t i = 0; i < cluster->count; i++)
        cluster->by_name[i] = &cluster->nodes[i];
    number_subclusters(cluster->by_name, cluster->count);
    qsort(cluster->by_name, cluster->count, sizeof(*cluster->by_name), compare_name);
    cluster->digest = digest(cluster);
    return 0;
}

int cluster_single(uint32_t id, const char *name, const char *address, uint16_t port,
                   struct cluster **ret_cluster)
{
    struct cluster *cluster = calloc(1, sizeof(*cluster));
    struct cluster_node *node = calloc(1, sizeof(*node));

    if (!cluster || !node) {
        free(cluster);
        free(node);
        return -ENOMEM;
    }
    *node = (struct cluster_node){.id = id,
                                  .port = port,
                                  .name = strdup(name),
                                  .address = strdup(address),
                                  .subcluster = strdup(CLUSTER_SUBCLUSTER_DEFAULT)};
    cluster->nodes = node;
    cluster->count = 1;
    cluster->name = strdup(name);
    if (!cluster->name || !node->name || !node->address || !node->subcluster ||
        cluster_index(cluster) < 0) {
        cluster_free(cluster);
        return -ENOMEM;
    }
    *ret_cluster = cluster;
    return 0;
}

const struct cluster_node *cluster_by_id(const struct cluster *cluster, uint32_t id)
{
    size_t low = 0, high = cluster->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (cluster->nodes[middle].id == id)
            return &cluster->nodes[middle];
        if (cluster->nodes[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct cluster_node *cluster_by_name(const struct cluster *cluster, const char *name)
{
    size_t low = 0, high = cluster->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = strcmp(name, cluster->by_name[middle]->name);
        if (order == 0)
            return cluster->by_name[middle];
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

char *cluster_fold(const struct cluster *cluster)
{
    const char **names = calloc(cluster->count + 1, sizeof(*names));
    char *text = NULL;

    if (!names)
        return NULL;
    for (size_t i = 0; i < cluster->count; i++)
        names[i] = cluster->nodes[i].name;
    if (hostlist_fold(names, cluster->count, &text) < 0)
        text = NULL;
    free(names);
    return text;
}

static bool same_place(const struct cluster_node *a, const struct cluster_node *b)
{
    return a->port == b->port && strcmp(a->address, b->address) == 0 &&
           strcmp(a->subcluster, b->subcluster) == 0;
}

int cluster_diff(const struct cluster *before, const struct cluster *after,
                 struct cluster_change **ret_changes, size_t *ret_count)
{
    struct cluster_change *changes = calloc(before->count + after->count + 1, sizeof(*changes));
    size_t count = 0;

    if (!changes)
        return -ENOMEM;
    for (size_t i = 0, j = 0; i < before->count || j < after->count;) {
        const struct cluster_node *a = i < before->count ? &before->nodes[i] : NULL;
        const struct cluster_node *b = j < after->count ? &after->nodes[j] : NULL;
        bool same = a && b && a->id == b->id && strcmp(a->name, b->name) == 0;

        if (same) {
            if (!same_place(a, b))
                changes[count++] =
                    (struct cluster_change){.kind = CLUSTER_MOVED, .before = a, .after = b};
            i++, j++;
        } else if (a && (!b || a->id <= b->id)) {
            changes[count++] = (struct cluster_change){.kind = CLUSTER_REMOVED, .before = a};
            i++;
        } else {
            changes[count++] = (struct cluster_change){.kind = CLUSTER_ADDED, .after = b};
            j++;
        }
    }
    if (count == 0) {
        free(changes);
        changes = NULL;
    }
    *ret_changes = changes;
    *ret_count = count;
    return 0;
}
