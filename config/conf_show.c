/* Writes, compares and reloads configurations. */
#include <stdlib.h>
#include <string.h>

#include "config/conf_internal.h"
#include "config/value.h"

static bool new_section(size_t i)
{
    return i == 0 || strcmp(config_keys[i].section, config_keys[i - 1].section) != 0;
}

static void write_help(const struct config_key *key, FILE *to)
{
    fprintf(to, "# %s\n# ", key->help);
    config_value_write_range(key, to);
    if (key->default_help)
        fprintf(to, ". Default: %s", key->default_help);
    else
        fprintf(to, ". Default: %s", *key->initial ? key->initial : "none");
    fprintf(to, "%s.\n", key->reloadable ? "" : ". A change needs a restart");
}

void tcad_conf_write(const struct tcad_conf *conf, FILE *to)
{
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];

        if (new_section(i))
            fprintf(to, "%s[%s]\n", i ? "\n" : "", key->section);
        write_help(key, to);
        fprintf(to, "%s = ", key->name);
        config_value_write(key, conf_field_const(conf, key), to);
        fputc('\n', to);
    }
    conf_rails_write(conf, to);
}

char *tcad_conf_value(const struct tcad_conf *conf, const struct config_key *key)
{
    return config_value_text(key, conf_field_const(conf, key));
}

size_t tcad_conf_diff(const struct tcad_conf *before, const struct tcad_conf *after,
                      const struct config_key **ret_keys)
{
    size_t count = 0;

    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        if (!config_value_equal(key, conf_field_const(before, key), conf_field_const(after, key)))
            ret_keys[count++] = key;
    }
    return count;
}

const char *tcad_conf_origin(const struct tcad_conf *conf, const struct config_key *key)
{
    size_t i = (size_t)(key - config_keys);

    if (!conf->origins->keys[i].given)
        return "default";
    return conf->origins->keys[i].line ? "file" : "command line";
}

static void adopt_key(struct tcad_conf *running, struct tcad_conf *next, size_t i)
{
    typeof(running->origins->keys[i]) origin = running->origins->keys[i];

    config_value_swap(&config_keys[i], conf_field(running, &config_keys[i]),
                      conf_field(next, &config_keys[i]));
    running->origins->keys[i] = next->origins->keys[i];
    next->origins->keys[i] = origin;
}

void tcad_conf_adopt(struct tcad_conf *running, struct tcad_conf *next)
{
    bool same_node =
        running->node.id == next->node.id && strcmp(running->node.name, next->node.name) == 0;
    struct cluster *cluster = running->cluster;

    for (size_t i = 0; i < config_key_count; i++)
        if (config_keys[i].reloadable)
            adopt_key(running, next, i);
    if (same_node) {
        running->cluster = next->cluster;
        next->cluster = cluster;
    }
}
