/* The cluster file, and checks of values against each other. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/cluster.h"
#include "config/conf_internal.h"
#include "config/secret.h"

struct completion {
    struct tcad_conf *conf;
    struct config_errors *errors;
    bool others; /* the cluster file contains this node and others */
};

static void blame_absent(struct completion *c, const struct config_key *key)
{
    const struct cluster *cluster = c->conf->cluster;
    char *names = cluster_fold(cluster);

    conf_blame(c->conf, key, c->errors,
               "is not in %s, which has %zu node%s: %.200s; set name or id in [node]",
               c->conf->node.cluster_file, cluster->count, cluster->count == 1 ? "" : "s",
               names ? names : "?");
    free(names);
}

/* If both id and name are given, they must identify the same node. */
static const struct cluster_node *find_by_id(struct completion *c)
{
    const struct tcad_conf *conf = c->conf;
    const struct config_key *name = KEY_AT(node.name);
    const struct cluster_node *node = cluster_by_id(conf->cluster, conf->node.id);

    if (!node) {
        blame_absent(c, KEY_AT(node.id));
        return NULL;
    }
    if (!conf_given(conf, name) || strcmp(node->name, conf->node.name) == 0)
        return node;
    conf_blame(conf, name, c->errors, "contradicts %s, where node %u is %s; remove id or name",
               conf->node.cluster_file, node->id, node->name);
    return NULL;
}

/* The cluster file may contain the full host name, or its part before the first dot. */
static const struct cluster_node *find_by_name(struct completion *c)
{
    const struct tcad_conf *conf = c->conf;
    const struct cluster_node *node = cluster_by_name(conf->cluster, conf->node.name);

    if (!node && !conf_given(conf, KEY_AT(node.name))) {
        char *host = strndup(conf->node.name, strcspn(conf->node.name, "."));
        node = host ? cluster_by_name(conf->cluster, host) : NULL;
        free(host);
    }
    if (!node)
        blame_absent(c, KEY_AT(node.name));
    return node;
}

static int join_cluster(struct completion *c)
{
    struct tcad_conf *conf = c->conf;
    const struct cluster_node *self;
    int r;

    if (!conf->node.cluster_file)
        return cluster_single(conf->node.id, conf->node.name, conf->control.listen.host,
                              conf->control.listen.port, &conf->cluster);
    r = cluster_load(conf->node.cluster_file, &conf->cluster, c->errors);
    if (r < 0)
        return r == -ENOMEM ? r : 0;
    self = conf_given(conf, KEY_AT(node.id)) ? find_by_id(c) : find_by_name(c);
    if (!self)
        return 0;
    conf->node.id = self->id;
    c->others = conf->cluster->count > 1;
    r = conf_set_default(conf, KEY_AT(node.name), strdup(self->name), conf->node.cluster_file,
                         c->errors);
    if (r == 0 && !conf_given(conf, KEY_AT(control.listen))) {
        snprintf(conf->control.listen.host, sizeof(conf->control.listen.host), "%s", self->address);
        conf->control.listen.port = self->port;
    }
    return r;
}

static void check_socket(struct completion *c)
{
    const size_t max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;

    if (strlen(c->conf->control.socket) > max)
        conf_blame(c->conf, KEY_AT(control.socket), c->errors,
                   "has %zu bytes, but the limit is %zu; choose a shorter runtime_dir or socket",
                   strlen(c->conf->control.socket), max);
}

/* FNV-1a */
static uint64_t mark_of(const unsigned char *key, size_t bytes)
{
    uint64_t mark = 0xcbf29ce484222325;

    for (size_t i = 0; i < bytes; i++)
        mark = (mark ^ key[i]) * 0x100000001b3;
    return mark;
}

static void check_key_file(struct completion *c)
{
    const struct config_key *key = KEY_AT(control.key_file);
    char why[256];

    if (c->conf->control.security != CONF_SECURITY_TLS)
        return;
    if (!c->conf->control.key_file) {
        if (c->others)
            conf_blame(
                c->conf, key, c->errors,
                "tls with other nodes requires the cluster key; set key_file, or security = plain");
        return;
    }
    unsigned char secret[SECRET_MAX_BYTES];
    size_t bytes = 0;
    if (config_secret_read(c->conf->control.key_file, secret, &bytes, why, sizeof(why)) < 0)
        conf_blame(c->conf, key, c->errors, "%s", why);
    else
        c->conf->key_mark = mark_of(secret, bytes);
    explicit_bzero(secret, sizeof(secret));
}

static void check_cpus(struct completion *c)
{
    long have = sysconf(_SC_NPROCESSORS_CONF);

    for (int cpu = CPU_SETSIZE - 1; have > 0 && cpu >= have; cpu--)
        if (CPU_ISSET(cpu, &c->conf->engine.cpus)) {
            conf_blame(c->conf, KEY_AT(engine.cpus), c->errors,
                       "processor %d does not exist; this machine has 0-%ld", cpu, have - 1);
            return;
        }
}

static void check_together(struct completion *c)
{
    const struct tcad_conf *conf = c->conf;
    const uint64_t address_end = 0x7f0000000000; /* stacks and libraries are above */

    if (conf->control.heartbeat_timeout_ns / 2 < conf->control.heartbeat_interval_ns)
        conf_blame(
            conf, KEY_AT(control.heartbeat_timeout_ns), c->errors,
            "is less than twice heartbeat_interval; raise it, or healthy nodes count as down");
    if (conf->limits.sessions_per_user > conf->limits.sessions)
        conf_blame(conf, KEY_AT(limits.sessions_per_user), c->errors,
                   "is more than sessions; lower it or raise sessions");
    if (conf->memory.region_bytes_per_user > conf->memory.region_bytes)
        conf_blame(conf, KEY_AT(memory.region_bytes_per_user), c->errors,
                   "is more than region_bytes, the node's limit; lower it or raise region_bytes");
    if (conf->memory.region_bytes_per_session > conf->memory.region_bytes_per_user)
        conf_blame(conf, KEY_AT(memory.region_bytes_per_session), c->errors,
                   "is more than region_bytes_per_user; lower it or raise region_bytes_per_user");
    if (conf->memory.base + conf->memory.reserved_bytes > address_end)
        conf_blame(conf, KEY_AT(memory.reserved_bytes), c->errors,
                   "base + reserved exceeds 0x7f0000000000; lower one of them");
    if (c->others && !conf->control.listen.host[0])
        conf_blame(
            conf, KEY_AT(control.listen), c->errors,
            "the other nodes of the cluster file cannot connect; remove it or set an address");
    check_socket(c);
    check_key_file(c);
    check_cpus(c);
}

int conf_complete(struct tcad_conf *conf, bool system, struct config_errors *errors)
{
    struct completion c = {.conf = conf, .errors = errors};
    const size_t before = config_errors_total(errors);
    int r = conf_set_defaults(conf, system, errors);

    if (r == 0)
        r = join_cluster(&c);
    if (r == 0)
        r = conf_set_rail_defaults(conf, errors);
    if (r == 0)
        r = conf_rails_complete(conf, errors);
    if (r < 0)
        return r;
    check_together(&c);
    return config_errors_total(errors) > before ? -EINVAL : 0;
}
