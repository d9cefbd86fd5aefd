/* Derived defaults, the cluster file, and checks of values against each other. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/cluster.h"
#include "config/conf_internal.h"
#include "config/secret.h"
#include "config/text.h"
#include "config/value.h"

struct completion {
    struct tcad_conf *conf;
    struct config_errors *errors;
    bool system;
    bool others; /* the cluster file contains this node and others */
};

#define KEY_AT(field) config_key_at(offsetof(struct tcad_conf, field))

static bool given(const struct tcad_conf *conf, const struct config_key *key)
{
    return conf->origins->keys[key - config_keys].given;
}

/* Sets the default of a key. Takes ownership of the text, which is NULL if out of memory. */
static int set_default(struct completion *c, const struct config_key *key, char *text,
                       const char *source)
{
    char why[512];
    int r =
        text ? config_value_parse(key, text, conf_field(c->conf, key), why, sizeof(why)) : -ENOMEM;

    if (r == -EINVAL) {
        config_errors_add(c->errors, source, 0,
                          "default of [%s] %s = %s: %s; or set the key in the file", key->section,
                          key->name, config_text_clean(text, strlen(text)) ? text : "?", why);
        r = 0;
    }
    free(text);
    return r;
}

static char *format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

static char *format(const char *pattern, ...)
{
    va_list args;
    char *text;

    va_start(args, pattern);
    if (vasprintf(&text, pattern, args) < 0)
        text = NULL;
    va_end(args);
    return text;
}

/* A directory from the environment: NULL unless it is absolute, as the XDG specification requires.
 * systemd's variables may list several: the first is used. */
static char *environment_path(const char *variable, const char *below)
{
    const char *value = getenv(variable);

    if (!value || value[0] != '/')
        return NULL;
    return format("%.*s%s", (int)strcspn(value, ":"), value, below);
}

/* The first that is set: systemd's variable; for a user, XDG's; below the home directory. NULL:
 * none, or out of memory. */
static char *find_directory(bool system, const char *systemd, const char *at_system,
                            const char *xdg, const char *at_home)
{
    char *path = environment_path(systemd, "");

    if (path)
        return path;
    if (system)
        return strdup(at_system);
    path = environment_path(xdg, "/tcad");
    return path || !at_home ? path : environment_path("HOME", at_home);
}

char *tcad_conf_default_path(bool system)
{
    char *directory = find_directory(system, "CONFIGURATION_DIRECTORY", "/etc/tcad",
                                     "XDG_CONFIG_HOME", "/.config/tcad");
    char *path = directory ? format("%s/tcad.conf", directory) : NULL;

    free(directory);
    return path;
}

char *tcad_conf_good(const struct tcad_conf *conf, bool system)
{
    if (conf->file)
        return format("%s: valid", conf->file);
    char *path = tcad_conf_default_path(system);
    char *text =
        format("%s does not exist: the defaults apply and are valid", path ? path : "tcad.conf");
    free(path);
    return text;
}

static int default_runtime_dir(struct completion *c)
{
    char *path =
        find_directory(c->system, "RUNTIME_DIRECTORY", "/run/tcad", "XDG_RUNTIME_DIR", NULL);

    if (!path)
        path = format("/tmp/tcad-%u", (unsigned)geteuid());
    return set_default(c, KEY_AT(node.runtime_dir), path, "environment");
}

static int default_state_dir(struct completion *c)
{
    char *path = find_directory(c->system, "STATE_DIRECTORY", "/var/lib/tcad", "XDG_STATE_HOME",
                                "/.local/state/tcad");

    if (!path) /* no home directory: the state is lost when the machine restarts */
        path = format("%s/state", c->conf->node.runtime_dir);
    return set_default(c, KEY_AT(node.state_dir), path, "environment");
}

/* The host name; if it is not a valid node name, only up to its first dot. */
static int default_name(struct completion *c)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name) - 1) < 0 || !name[0])
        strcpy(name, "localhost");
    if (!config_name_valid(name))
        name[strcspn(name, ".")] = '\0';
    return set_default(c, KEY_AT(node.name), strdup(name), "host name");
}

/* parts / of of the machine's memory. */
static uint64_t share(const struct config_key *key, unsigned parts, unsigned of)
{
    uint64_t bytes =
        (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / of * parts;

    bytes -= bytes % key->min;
    return bytes < key->min ? key->min : bytes > key->max ? key->max : bytes;
}

/* A larger limit that was given for a user also raises the default of the node. */
static int default_region_bytes(struct completion *c)
{
    const struct config_key *user = KEY_AT(memory.region_bytes_per_user);
    uint64_t bytes = share(KEY_AT(memory.region_bytes), 3, 4);

    if (given(c->conf, user) && c->conf->memory.region_bytes_per_user > bytes)
        bytes = c->conf->memory.region_bytes_per_user;
    c->conf->memory.region_bytes = bytes;
    return 0;
}

static int default_region_bytes_per_user(struct completion *c)
{
    uint64_t bytes = share(KEY_AT(memory.region_bytes_per_user), 1, 2);

    c->conf->memory.region_bytes_per_user =
        bytes < c->conf->memory.region_bytes ? bytes : c->conf->memory.region_bytes;
    return 0;
}

static int default_region_bytes_per_session(struct completion *c)
{
    c->conf->memory.region_bytes_per_session = c->conf->memory.region_bytes_per_user;
    return 0;
}

static int default_user_bytes(struct completion *c)
{
    c->conf->limits.bytes_per_user = share(KEY_AT(limits.bytes_per_user), 1, 16);
    return 0;
}

static int default_all_bytes(struct completion *c)
{
    c->conf->limits.bytes = share(KEY_AT(limits.bytes), 1, 8);
    return 0;
}

static int default_socket(struct completion *c)
{
    return set_default(c, KEY_AT(control.socket), format("%s/tcad.sock", c->conf->node.runtime_dir),
                       "runtime_dir");
}

static int default_peach2_board(struct completion *c)
{
    return set_default(c, KEY_AT(rails.peach2_board),
                       format("%s/peach2.sock", c->conf->node.runtime_dir), "runtime_dir");
}

static int default_calibration_file(struct completion *c)
{
    return set_default(c, KEY_AT(rails.calibration_file),
                       format("%s/calibration", c->conf->node.state_dir), "state_dir");
}

static bool is_wildcard(const char *host)
{
    return strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

const char *conf_rail_host(const struct tcad_conf *conf)
{
    const char *host = conf->control.listen.host;
    const struct cluster_node *self =
        conf->cluster ? cluster_by_id(conf->cluster, conf->node.id) : NULL;

    if (self && (!*host || is_wildcard(host)))
        host = self->address;
    return *host && !is_wildcard(host) ? host : NULL;
}

static int default_rail_address(struct completion *c, const struct config_key *key)
{
    const char *host = conf_rail_host(c->conf);

    return host ? set_default(c, key, strdup(host), "control.listen") : 0;
}

static int set_constants(struct completion *c)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < config_key_count; i++)
        if (config_keys[i].initial && !given(c->conf, &config_keys[i]))
            r = set_default(c, &config_keys[i], strdup(config_keys[i].initial), "built-in");
    return r;
}

static void blame_absent(struct completion *c, const struct config_key *key)
{
    const struct cluster *cluster = c->conf->cluster;
    char *names = cluster_fold(cluster), *why;

    why = format("is not in %s, which has %zu node%s: %.200s; set name or id in [node]",
                 c->conf->node.cluster_file, cluster->count, cluster->count == 1 ? "" : "s",
                 names ? names : "?");
    conf_blame(c->conf, key, c->errors, why ? why : "is not in the cluster file");
    free(names);
    free(why);
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
    if (!given(conf, name) || strcmp(node->name, conf->node.name) == 0)
        return node;
    char *why = format("contradicts %s, where node %u is %s; remove id or name",
                       conf->node.cluster_file, node->id, node->name);
    conf_blame(conf, name, c->errors, why ? why : "contradicts the cluster file");
    free(why);
    return NULL;
}

/* The cluster file may contain the full host name, or its part before the first dot. */
static const struct cluster_node *find_by_name(struct completion *c)
{
    const struct tcad_conf *conf = c->conf;
    const struct cluster_node *node = cluster_by_name(conf->cluster, conf->node.name);

    if (!node && !given(conf, KEY_AT(node.name))) {
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
    self = given(conf, KEY_AT(node.id)) ? find_by_id(c) : find_by_name(c);
    if (!self)
        return 0;
    conf->node.id = self->id;
    c->others = conf->cluster->count > 1;
    r = set_default(c, KEY_AT(node.name), strdup(self->name), conf->node.cluster_file);
    if (r == 0 && !given(conf, KEY_AT(control.listen))) {
        snprintf(conf->control.listen.host, sizeof(conf->control.listen.host), "%s", self->address);
        conf->control.listen.port = self->port;
    }
    return r;
}

static void check_socket(struct completion *c)
{
    const size_t max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    char why[160];

    if (strlen(c->conf->control.socket) <= max)
        return;
    snprintf(why, sizeof(why),
             "has %zu bytes, but the limit is %zu; choose a shorter runtime_dir or socket",
             strlen(c->conf->control.socket), max);
    conf_blame(c->conf, KEY_AT(control.socket), c->errors, why);
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
    int fd = config_secret_open(c->conf->control.key_file, why, sizeof(why));
    if (fd < 0)
        conf_blame(c->conf, key, c->errors, why);
    else
        close(fd);
}

static void check_cpus(struct completion *c)
{
    long have = sysconf(_SC_NPROCESSORS_CONF);
    char why[128];

    for (int cpu = CPU_SETSIZE - 1; have > 0 && cpu >= have; cpu--)
        if (CPU_ISSET(cpu, &c->conf->engine.cpus)) {
            snprintf(why, sizeof(why), "processor %d does not exist; this machine has 0-%ld", cpu,
                     have - 1);
            conf_blame(c->conf, KEY_AT(engine.cpus), c->errors, why);
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
    struct completion c = {.conf = conf, .errors = errors, .system = system};
    /* In this order, because later defaults are derived from earlier ones. */
    static const struct {
        size_t offset;
        int (*set)(struct completion *c);
    } derived[] = {
        {offsetof(struct tcad_conf, node.name), default_name},
        {offsetof(struct tcad_conf, node.runtime_dir), default_runtime_dir},
        {offsetof(struct tcad_conf, node.state_dir), default_state_dir},
        {offsetof(struct tcad_conf, control.socket), default_socket},
        {offsetof(struct tcad_conf, memory.region_bytes), default_region_bytes},
        {offsetof(struct tcad_conf, memory.region_bytes_per_user), default_region_bytes_per_user},
        {offsetof(struct tcad_conf, memory.region_bytes_per_session),
         default_region_bytes_per_session},
        {offsetof(struct tcad_conf, limits.bytes_per_user), default_user_bytes},
        {offsetof(struct tcad_conf, limits.bytes), default_all_bytes},
        {offsetof(struct tcad_conf, rails.calibration_file), default_calibration_file},
        {offsetof(struct tcad_conf, rails.peach2_board), default_peach2_board},
    };
    size_t before = config_errors_total(errors);
    int r = set_constants(&c);

    for (size_t i = 0; r == 0 && i < sizeof(derived) / sizeof(*derived); i++)
        if (!given(conf, config_key_at(derived[i].offset))) {
            r = derived[i].set(&c);
            if (r == 0 && config_errors_total(errors) > before)
                return -EINVAL; /* later defaults depend on this one */
        }
    if (r == 0)
        r = join_cluster(&c);
    if (r == 0 && !given(conf, KEY_AT(rails.ofi_address)))
        r = default_rail_address(&c, KEY_AT(rails.ofi_address));
    if (r == 0 && !given(conf, KEY_AT(rails.tcp_address)))
        r = default_rail_address(&c, KEY_AT(rails.tcp_address));
    if (r == 0)
        r = conf_rails_complete(conf, errors);
    if (r < 0)
        return r;
    check_together(&c);
    return config_errors_total(errors) > before ? -EINVAL : 0;
}
