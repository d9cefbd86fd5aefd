/* Parses the cluster file: its lines, then checks across lines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/address.h"
#include "config/cluster.h"
#include "config/cluster_internal.h"
#include "config/guess.h"
#include "config/hostlist.h"
#include "config/text.h"
#include "config/value.h"

enum { NODE_ID_MAX = CLUSTER_NODES_MAX - 1 };

struct parser {
    struct config_lines lines;
    struct cluster *cluster;
    size_t room;        /* of cluster->nodes */
    unsigned name_line; /* that named the cluster; 0: none so far */
};

/* One line: a hostlist of nodes and their properties. */
struct entry {
    struct hostlist names, ids, addresses; /* ids and addresses: empty, or as many as names */
    const char *subcluster;
};

#define complain(p, ...)                                                                           \
    config_errors_add((p)->lines.errors, (p)->lines.file, (p)->lines.line, __VA_ARGS__)

/* 0, -ENOMEM, or -EINVAL, which has been reported. */
static int expand(struct parser *p, const char *what, const char *text, struct hostlist *ret_list)
{
    struct hostlist_problem problem;
    int r = hostlist_expand(text, CLUSTER_NODES_MAX, ret_list, &problem);

    if (r == 0 || r == -ENOMEM)
        return r;
    complain(p, "%s \"%s\", character %zu: %s", what, text, problem.position + 1, problem.text);
    return -EINVAL;
}

static int expand_ids(struct parser *p, const char *value, struct hostlist *ret_list)
{
    char text[CONFIG_LINE_MAX_BYTES + 3];

    snprintf(text, sizeof(text), strchr(value, '[') ? "%s" : "[%s]", value);
    return expand(p, "id", text, ret_list);
}

/* Brackets around an IPv6 address do not delimit a range: hides them from the expansion as < and
 * >. */
static void hide_ip6_brackets(char *text)
{
    for (char *open = text; *open; open++) {
        unsigned depth = 0;
        bool colon = false;
        char *close = open;

        if (*open != '[')
            continue;
        for (; *close; close++) {
            depth += *close == '[';
            colon |= *close == ':';
            if (*close == ']' && --depth == 0)
                break;
        }
        if (!*close)
            return;
        if (colon) {
            *open = '<';
            *close = '>';
        }
        open = colon ? open : close;
    }
}

static void show_ip6_brackets(char *text)
{
    for (; *text; text++)
        *text = *text == '<' ? '[' : *text == '>' ? ']' : *text;
}

static int expand_addresses(struct parser *p, const char *value, struct hostlist *ret_list)
{
    char text[CONFIG_LINE_MAX_BYTES + 1];

    if (strpbrk(value, "<>")) {
        complain(p, "address \"%s\" contains < or >; write HOST:PORT", value);
        return -EINVAL;
    }
    snprintf(text, sizeof(text), "%s", value);
    hide_ip6_brackets(text);
    int r = expand(p, "address", text, ret_list);
    for (size_t i = 0; r == 0 && i < ret_list->count; i++)
        show_ip6_brackets(ret_list->names[i]);
    return r;
}

static int check_count(struct parser *p, const struct entry *entry, const char *what,
                       const struct hostlist *list)
{
    if (list->count == 0 || list->count == entry->names.count)
        return 0;
    complain(p, "the line has %zu nodes but %zu %s; write the same number of both",
             entry->names.count, list->count, what);
    return -EINVAL;
}

static int parse_property(struct parser *p, struct entry *entry, char *word)
{
    char *value = strchr(word, '=');

    if (!value) {
        complain(p, "\"%s\" is not a property; write id=, address= or subcluster=", word);
        return -EINVAL;
    }
    *value++ = '\0';
    bool again = (strcmp(word, "id") == 0 && entry->ids.count) ||
                 (strcmp(word, "address") == 0 && entry->addresses.count) ||
                 (strcmp(word, "subcluster") == 0 && entry->subcluster);
    if (again) {
        complain(p, "%s= occurs twice in the line; remove one of them", word);
        return -EINVAL;
    }
    if (strcmp(word, "id") == 0)
        return expand_ids(p, value, &entry->ids);
    if (strcmp(word, "address") == 0)
        return expand_addresses(p, value, &entry->addresses);
    if (strcmp(word, "subcluster") == 0) {
        if (!config_name_valid(value)) {
            complain(p, "subcluster=%s: is not a name; " CONFIG_NAME_RULE, value);
            return -EINVAL;
        }
        entry->subcluster = value;
        return 0;
    }

    struct config_guess guess;
    config_guess_init(&guess, word);
    config_guess_try(&guess, "id");
    config_guess_try(&guess, "address");
    config_guess_try(&guess, "subcluster");
    if (guess.best)
        complain(p, "nodes have no property \"%s\"; did you mean \"%s\"?", word, guess.best);
    else
        complain(p, "nodes have no property \"%s\"; write id=, address= or subcluster=", word);
    return -EINVAL;
}

static struct cluster_node *new_node(struct parser *p)
{
    struct cluster *cluster = p->cluster;

    if (cluster->count == p->room) {
        size_t room = p->room ? 2 * p->room : 16;
        struct cluster_node *nodes = reallocarray(cluster->nodes, room, sizeof(*nodes));
        if (!nodes)
            return NULL;
        cluster->nodes = nodes;
        p->room = room;
    }
    struct cluster_node *node = &cluster->nodes[cluster->count++];
    *node = (struct cluster_node){.line = p->lines.line};
    return node;
}

static int parse_id(struct parser *p, const char *text, uint32_t *ret_id)
{
    const char *digits = text + strspn(text, "0");

    if (strspn(text, "0123456789") != strlen(text) || strlen(digits) > 5 ||
        strtoul(text, NULL, 10) > NODE_ID_MAX) {
        complain(p, "id=%s: is not a number from 0 to %d", text, NODE_ID_MAX);
        return -EINVAL;
    }
    *ret_id = (uint32_t)strtoul(text, NULL, 10);
    return 0;
}

/* The i-th node of a line. */
static int add_node(struct parser *p, const struct entry *entry, size_t i)
{
    const char *name = entry->names.names[i];
    const char *address_text = entry->addresses.count ? entry->addresses.names[i] : name;
    struct config_address address;
    uint32_t id = (uint32_t)p->cluster->count;
    char why[160];

    if (p->cluster->count == CLUSTER_NODES_MAX) {
        complain(p, "the file has more than %d nodes; remove some", CLUSTER_NODES_MAX);
        return -EINVAL;
    }
    if (!config_name_valid(name)) {
        complain(p, "\"%s\" is not a node name; " CONFIG_NAME_RULE, name);
        return -EINVAL;
    }
    if (entry->ids.count && parse_id(p, entry->ids.names[i], &id) < 0)
        return -EINVAL;
    if (config_address_parse(address_text, CONFIG_PORT_DEFAULT, &address, why, sizeof(why)) < 0) {
        complain(p, "address=%s: %s", address_text, why);
        return -EINVAL;
    }

    struct cluster_node *node = new_node(p);
    if (!node)
        return -ENOMEM;
    node->id = id;
    node->port = address.port;
    node->name = strdup(name);
    node->address = strdup(address.host);
    node->subcluster = strdup(entry->subcluster ? entry->subcluster : CLUSTER_SUBCLUSTER_DEFAULT);
    return node->name && node->address && node->subcluster ? 0 : -ENOMEM;
}

/* "cluster = hapacs" */
static int parse_cluster_name(struct parser *p, char *value)
{
    if (p->name_line) {
        complain(p, "the cluster's name was already set in line %u; remove one of them",
                 p->name_line);
        return -EINVAL;
    }
    p->name_line = p->lines.line;
    if (!config_name_valid(value)) {
        complain(p, "cluster = %s: is not a name; " CONFIG_NAME_RULE, value);
        return -EINVAL;
    }
    free(p->cluster->name);
    p->cluster->name = strdup(value);
    return p->cluster->name ? 0 : -ENOMEM;
}

static int parse_nodes(struct parser *p, char *text)
{
    struct entry entry = {0};
    char *next = NULL, *word = strtok_r(text, " \t", &next);
    bool bad = false; /* continues after an error, to report all errors of the line */
    int r = expand(p, "nodes", word, &entry.names);

    while (r != -ENOMEM && (word = strtok_r(NULL, " \t", &next))) {
        bad |= r < 0;
        r = parse_property(p, &entry, word);
    }
    if (bad && r == 0)
        r = -EINVAL;
    if (r == 0)
        r = check_count(p, &entry, "ids", &entry.ids);
    if (r == 0)
        r = check_count(p, &entry, "addresses", &entry.addresses);
    for (size_t i = 0; r == 0 && i < entry.names.count; i++)
        r = add_node(p, &entry, i);
    hostlist_deinit(&entry.names);
    hostlist_deinit(&entry.ids);
    hostlist_deinit(&entry.addresses);
    return r;
}

static int parse_line(struct parser *p)
{
    char *text = p->lines.text;
    size_t word = strcspn(text, " \t=");
    char *behind = text + word + strspn(text + word, " \t");

    if (*behind == '=' && word == strlen("cluster") && strncmp(text, "cluster", word) == 0)
        return parse_cluster_name(p, config_trim(behind + 1));
    return parse_nodes(p, text);
}

static int compare_address(const void *a, const void *b)
{
    const struct cluster_node *x = *(const struct cluster_node *const *)a,
                              *y = *(const struct cluster_node *const *)b;
    int order = strcmp(x->address, y->address);

    if (order == 0)
        order = (x->port > y->port) - (x->port < y->port);
    return order ? order : (x->line > y->line) - (x->line < y->line);
}

/* Reports the error on the later of the two lines. */
static void report_twice(struct parser *p, const struct cluster_node *a,
                         const struct cluster_node *b, const char *what, const char *value)
{
    unsigned first = a->line < b->line ? a->line : b->line,
             second = a->line < b->line ? b->line : a->line;

    config_errors_add(p->lines.errors, p->lines.file, second,
                      "%s %s was already used in line %u; every node needs its own", what, value,
                      first);
}

static int check_duplicates(struct parser *p)
{
    const struct cluster *cluster = p->cluster;
    struct cluster_node **by_address = calloc(cluster->count + 1, sizeof(struct cluster_node *));
    char text[CONFIG_ADDRESS_TEXT_MAX];

    if (!by_address)
        return -ENOMEM;
    for (size_t i = 0; i < cluster->count; i++)
        by_address[i] = &cluster->nodes[i];
    qsort(by_address, cluster->count, sizeof(*by_address), compare_address);
    for (size_t i = 1; i < cluster->count; i++) {
        const struct cluster_node *a = by_address[i - 1], *b = by_address[i];
        if (cluster->nodes[i - 1].id == cluster->nodes[i].id) {
            snprintf(text, sizeof(text), "%u", cluster->nodes[i].id);
            report_twice(p, &cluster->nodes[i - 1], &cluster->nodes[i], "id", text);
        }
        if (strcmp(cluster->by_name[i - 1]->name, cluster->by_name[i]->name) == 0)
            report_twice(p, cluster->by_name[i - 1], cluster->by_name[i], "name",
                         cluster->by_name[i]->name);
        if (strcmp(a->address, b->address) == 0 && a->port == b->port) {
            struct config_address address = {.port = a->port};
            snprintf(address.host, sizeof(address.host), "%s", a->address);
            config_address_format(&address, text);
            report_twice(p, a, b, "address", text);
        }
    }
    free(by_address);
    return 0;
}

int cluster_parse(const char *file, const char *text, size_t bytes, struct cluster **ret_cluster,
                  struct config_errors *errors)
{
    struct parser p = {.cluster = calloc(1, sizeof(*p.cluster))};
    size_t before = config_errors_total(errors);
    int r = 0;

    if (!p.cluster || !(p.cluster->name = strdup("tcad"))) {
        cluster_free(p.cluster);
        return -ENOMEM;
    }
    config_lines_init(&p.lines, file, text, bytes, errors);
    while (r != -ENOMEM && config_lines_next(&p.lines))
        r = parse_line(&p);
    if (r != -ENOMEM && p.cluster->count == 0 && config_errors_total(errors) == before)
        config_errors_add(
            errors, file, 0,
            "has no nodes; write at least one line like: node[1-4] address=10.0.0.[1-4]");
    if (r != -ENOMEM)
        r = cluster_index(p.cluster);
    if (r == 0)
        r = check_duplicates(&p);
    if (r == 0 && config_errors_total(errors) > before)
        r = -EINVAL;
    if (r < 0) {
        cluster_free(p.cluster);
        return r;
    }
    *ret_cluster = p.cluster;
    return 0;
}

int cluster_load(const char *path, struct cluster **ret_cluster, struct config_errors *errors)
{
    char *text = NULL;
    size_t bytes;
    int r = config_text_read(path, &text, &bytes, errors);

    if (r == -ENOENT)
        config_errors_add(errors, path, 0, "does not exist");
    if (r < 0)
        return r == -ENOMEM ? r : -EINVAL;
    r = cluster_parse(path, text, bytes, ret_cluster, errors);
    free(text);
    return r;
}
