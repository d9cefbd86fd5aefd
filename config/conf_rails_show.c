/* Writes and compares sections [rail NAME]. */
#include <stdlib.h>
#include <string.h>

#include "config/conf_rails.h"
#include "config/keys.h"
#include "config/tcad_conf.h"
#include "config/value.h"

static const void *field_of(const struct conf_rail *rail, const struct config_key *key)
{
    return (const char *)rail + key->offset;
}

char *conf_rail_value(const struct conf_rail *rail, const struct config_key *key, bool *ret_given)
{
    *ret_given = conf_rail_gives(rail, key->name);
    return config_value_text(key, field_of(rail, key));
}

void conf_rails_write(const struct tcad_conf *conf, FILE *to)
{
    for (size_t i = 0; i < conf->rail_count; i++) {
        const struct conf_rail *rail = &conf->rail_list[i];
        size_t next = 0;
        if (!rail->name)
            continue;
        fprintf(to, "\n[rail %s]\n", rail->name);
        for (const struct config_key *key; (key = conf_rail_key(rail, &next));) {
            fprintf(to, "%s = ", key->name);
            config_value_write(key, field_of(rail, key), to);
            fputc('\n', to);
        }
    }
}

static const struct conf_rail *find_section(const struct tcad_conf *conf, const char *name)
{
    for (size_t i = 0; i < conf->rail_count; i++)
        if (conf->rail_list[i].name && strcmp(conf->rail_list[i].name, name) == 0)
            return &conf->rail_list[i];
    return NULL;
}

bool conf_rail_known(const struct conf_rail *rail, const struct tcad_conf *other)
{
    return find_section(other, rail->name) != NULL;
}

bool conf_rail_unchanged(const struct conf_rail *rail, const struct tcad_conf *other)
{
    const struct conf_rail *there = find_section(other, rail->name);
    size_t next = 0;
    if (!there)
        return false;
    for (const struct config_key *key; (key = conf_rail_key(rail, &next));)
        if (!config_value_equal(key, field_of(rail, key), field_of(there, key)))
            return false;
    return true;
}
