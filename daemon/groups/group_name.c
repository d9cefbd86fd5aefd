#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/text.h"
#include "daemon/groups/group_internal.h"
#include "daemon/tcad.h"

uint64_t group_deadline(uint64_t now_ns, uint64_t timeout_ns)
{
    return timeout_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + timeout_ns;
}

bool group_name_valid(const char *name)
{
    size_t bytes = strlen(name);
    return bytes > 0 && bytes < NAME_MAX_BYTES && config_text_clean(name, bytes);
}

const char *group_node_name(const struct tcad *tcad, uint32_t node)
{
    const struct cluster_node *found = cluster_by_id(tcad->cluster, node);
    return found ? found->name : "(unknown)";
}

/* FNV-1a and a finaliser that affects all bits, so that similar names do not share a root. */
static uint64_t hash(uint64_t value, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ at[i]) * UINT64_C(0x100000001b3);
    return value;
}

static uint64_t spread(uint64_t value)
{
    value = (value ^ value >> 33) * UINT64_C(0xff51afd7ed558ccd);
    value = (value ^ value >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

static bool is_among(const struct choices *choices, uint32_t node)
{
    for (unsigned i = 0; i < choices->count; i++)
        if (choices->nodes[i] == node)
            return true;
    return false;
}

/* Rendezvous hashing: all nodes choose the same root, and adding or removing a node moves few
 * groups. */
bool group_choose(const struct cluster *cluster, uint32_t user, const char *name,
                  const struct choices *others, uint32_t *ret_node)
{
    uint8_t user_bytes[4] = {(uint8_t)user, (uint8_t)(user >> 8), (uint8_t)(user >> 16),
                             (uint8_t)(user >> 24)};
    uint64_t group = hash(hash(UINT64_C(0xcbf29ce484222325), user_bytes, sizeof(user_bytes)), name,
                          strlen(name) + 1);
    uint64_t best = 0;
    bool found = false;

    for (size_t i = 0; i < cluster->count && others->count < CHOICES_MAX; i++) {
        const char *node = cluster->nodes[i].name;
        const uint64_t weight = spread(hash(group, node, strlen(node)));
        if ((found && weight <= best) || is_among(others, cluster->nodes[i].id))
            continue;
        best = weight;
        found = true;
        *ret_node = cluster->nodes[i].id;
    }
    return found;
}

static const struct cluster_node *find_node(const struct cluster *cluster, const char *text)
{
    const struct cluster_node *node = cluster_by_name(cluster, text);
    if (node)
        return node;
    char *end;
    unsigned long id = strtoul(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && id <= UINT32_MAX
               ? cluster_by_id(cluster, (uint32_t)id)
               : NULL;
}

int group_place(const struct tcad *tcad, uint32_t user, const char *full,
                char ret_name[static NAME_MAX_BYTES], uint32_t *ret_root, bool *ret_chosen,
                char *text, size_t text_bytes)
{
    const char *at = strrchr(full, '@');
    size_t bytes = at ? (size_t)(at - full) : strlen(full);

    if (bytes == 0 || bytes >= NAME_MAX_BYTES || !config_text_clean(full, strlen(full))) {
        snprintf(text, text_bytes, "a group's name has 1 to %d bytes of plain text, this one %zu",
                 NAME_MAX_BYTES - 1, bytes);
        return -EINVAL;
    }
    const struct cluster_node *node = at ? find_node(tcad->cluster, at + 1) : NULL;
    if (at && !node) {
        snprintf(text, text_bytes,
                 "group %.*s cannot be coordinated by \"%.64s\": the cluster file has no such node",
                 (int)bytes, full, at + 1);
        return -EINVAL;
    }
    memcpy(ret_name, full, bytes);
    memset(ret_name + bytes, 0, NAME_MAX_BYTES - bytes);
    *ret_chosen = !node;
    if (node)
        *ret_root = node->id;
    else
        group_choose(tcad->cluster, user, ret_name, &(struct choices){0}, ret_root);
    return 0;
}

/* ---- texts ---- */

void group_ranks(const struct group *group, bool (*is)(const struct group *group, uint32_t rank),
                 char *ret_text, size_t text_bytes)
{
    size_t at = 0;
    unsigned count = 0;
    char list[GROUP_TEXT_MAX / 2] = "";

    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (!is(group, rank))
            continue;
        uint32_t first = rank;
        while (rank + 1 < group->size && is(group, rank + 1))
            rank++;
        count += rank - first + 1;
        if (at >= sizeof(list) - 32)
            continue; /* the list is long enough */
        at += (size_t)snprintf(list + at, sizeof(list) - at, rank > first ? "%s%u-%u" : "%s%u",
                               at ? "," : "", first, rank);
        if (at >= sizeof(list) - 32)
            at += (size_t)snprintf(list + at, sizeof(list) - at, ",...");
    }
    snprintf(ret_text, text_bytes, "%s %s", count == 1 ? "rank" : "ranks", list);
}

void group_who(const struct root *root, const struct group *group, uint32_t rank, char *ret_text,
               size_t text_bytes)
{
    const struct member *member = &group->members[rank];
    snprintf(ret_text, text_bytes, "rank %" PRIu32 " (session %" PRIu64 " of node %s)", rank,
             member->session, group_node_name(root->tcad, member->node));
}
