/* Defaults: constants, and those derived from the machine, the environment and other keys. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/cluster.h"
#include "config/conf_internal.h"
#include "config/text.h"
#include "config/value.h"

struct defaults {
    struct tcad_conf *conf;
    struct config_errors *errors;
    bool system;
};

int conf_set_default(struct tcad_conf *conf, const struct config_key *key, char *text,
                     const char *source, struct config_errors *errors)
{
    char why[512];
    int r = text ? config_value_parse(key, text, conf_field(conf, key), why, sizeof(why)) : -ENOMEM;

    if (r == -EINVAL) {
        config_errors_add(errors, source, 0,
                          "default of [%s] %s = %s: %s; or set the key in the file", key->section,
                          key->name, config_text_clean(text, strlen(text)) ? text : "?", why);
        r = 0;
    }
    free(text);
    return r;
}

static int set_default(struct defaults *d, const struct config_key *key, char *text,
                       const char *source)
{
    return conf_set_default(d->conf, key, text, source, d->errors);
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

static int default_runtime_dir(struct defaults *d)
{
    char *path =
        find_directory(d->system, "RUNTIME_DIRECTORY", "/run/tcad", "XDG_RUNTIME_DIR", NULL);

    if (!path)
        path = format("/tmp/tcad-%u", (unsigned)geteuid());
    return set_default(d, KEY_AT(node.runtime_dir), path, "environment");
}

static int default_state_dir(struct defaults *d)
{
    char *path = find_directory(d->system, "STATE_DIRECTORY", "/var/lib/tcad", "XDG_STATE_HOME",
                                "/.local/state/tcad");

    if (!path) /* no home directory: the state is lost when the machine restarts */
        path = format("%s/state", d->conf->node.runtime_dir);
    return set_default(d, KEY_AT(node.state_dir), path, "environment");
}

/* The host name; if it is not a valid node name, only up to its first dot. */
static int default_name(struct defaults *d)
{
    char name[256] = "";

    if (gethostname(name, sizeof(name) - 1) < 0 || !name[0])
        strcpy(name, "localhost");
    if (!config_name_valid(name))
        name[strcspn(name, ".")] = '\0';
    return set_default(d, KEY_AT(node.name), strdup(name), "host name");
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
static int default_region_bytes(struct defaults *d)
{
    const struct config_key *user = KEY_AT(memory.region_bytes_per_user);
    uint64_t bytes = share(KEY_AT(memory.region_bytes), 3, 4);

    if (conf_given(d->conf, user) && d->conf->memory.region_bytes_per_user > bytes)
        bytes = d->conf->memory.region_bytes_per_user;
    d->conf->memory.region_bytes = bytes;
    return 0;
}

static int default_region_bytes_per_user(struct defaults *d)
{
    uint64_t bytes = share(KEY_AT(memory.region_bytes_per_user), 1, 2);

    d->conf->memory.region_bytes_per_user =
        bytes < d->conf->memory.region_bytes ? bytes : d->conf->memory.region_bytes;
    return 0;
}

static int default_region_bytes_per_session(struct defaults *d)
{
    d->conf->memory.region_bytes_per_session = d->conf->memory.region_bytes_per_user;
    return 0;
}

static int default_user_bytes(struct defaults *d)
{
    d->conf->limits.bytes_per_user = share(KEY_AT(limits.bytes_per_user), 1, 16);
    return 0;
}

static int default_all_bytes(struct defaults *d)
{
    d->conf->limits.bytes = share(KEY_AT(limits.bytes), 1, 8);
    return 0;
}

static int default_socket(struct defaults *d)
{
    return set_default(d, KEY_AT(control.socket), format("%s/tcad.sock", d->conf->node.runtime_dir),
                       "runtime_dir");
}

static int default_peach2_board(struct defaults *d)
{
    return set_default(d, KEY_AT(rails.peach2_board),
                       format("%s/peach2.sock", d->conf->node.runtime_dir), "runtime_dir");
}

static int default_calibration_file(struct defaults *d)
{
    return set_default(d, KEY_AT(rails.calibration_file),
                       format("%s/calibration", d->conf->node.state_dir), "state_dir");
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

static int default_rail_address(struct defaults *d, const struct config_key *key)
{
    const char *host = conf_rail_host(d->conf);

    return host ? set_default(d, key, strdup(host), "control.listen") : 0;
}

static int set_constants(struct defaults *d)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < config_key_count; i++)
        if (config_keys[i].initial && !conf_given(d->conf, &config_keys[i]))
            r = set_default(d, &config_keys[i], strdup(config_keys[i].initial), "built-in");
    return r;
}

int conf_set_defaults(struct tcad_conf *conf, bool system, struct config_errors *errors)
{
    /* In this order, because later defaults are derived from earlier ones. */
    static const struct {
        size_t offset;
        int (*set)(struct defaults *d);
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
    struct defaults d = {.conf = conf, .errors = errors, .system = system};
    const size_t before = config_errors_total(errors);
    int r = set_constants(&d);

    for (size_t i = 0; r == 0 && i < sizeof(derived) / sizeof(*derived); i++)
        if (!conf_given(conf, config_key_at(derived[i].offset))) {
            r = derived[i].set(&d);
            if (r == 0 && config_errors_total(errors) > before)
                return -EINVAL; /* later defaults depend on this one */
        }
    return r;
}

int conf_set_rail_defaults(struct tcad_conf *conf, struct config_errors *errors)
{
    struct defaults d = {.conf = conf, .errors = errors};
    int r = 0;

    if (!conf_given(conf, KEY_AT(rails.ofi_address)))
        r = default_rail_address(&d, KEY_AT(rails.ofi_address));
    if (r == 0 && !conf_given(conf, KEY_AT(rails.tcp_address)))
        r = default_rail_address(&d, KEY_AT(rails.tcp_address));
    return r;
}
