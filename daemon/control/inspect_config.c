/* The configuration in effect. */
#include <stdlib.h>

#include "config/keys.h"
#include "daemon/control/inspect.h"
#include "daemon/tcad.h"

/* The sections [rail NAME]; their keys are never reloadable. */
static void add_rails(const struct tcad_conf *conf, json_t *values)
{
    for (size_t i = 0; i < conf->rail_count; i++) {
        const struct conf_rail *rail = &conf->rail_list[i];
        size_t next = 0;
        if (!rail->name)
            continue;
        for (const struct config_key *key; (key = conf_rail_key(rail, &next));) {
            bool given;
            char *value = conf_rail_value(rail, key, &given);
            json_array_append_new(
                values, json_pack("{s:o, s:s, s:s, s:s, s:s, s:b}", "section",
                                  json_sprintf("rail %s", rail->name), "key", key->name, "value",
                                  value ? value : "", "default", key->initial ? key->initial : "",
                                  "origin", given ? "file" : "default", "reloadable", false));
            free(value);
        }
    }
}

json_t *inspect_config(struct tcad *tcad)
{
    json_t *values = json_array();
    for (size_t i = 0; i < config_key_count; i++) {
        const struct config_key *key = &config_keys[i];
        char *value = tcad_conf_value(tcad->conf, key);
        json_array_append_new(
            values, json_pack("{s:s, s:s, s:s, s:s?, s:s, s:b}", "section", key->section, "key",
                              key->name, "value", value ? value : "", "default",
                              key->initial ? key->initial : key->default_help, "origin",
                              tcad_conf_origin(tcad->conf, key), "reloadable", key->reloadable));
        free(value);
    }
    add_rails(tcad->conf, values);
    return json_pack("{s:s?, s:s?, s:o}", "file", tcad->conf->file, "cluster_file",
                     tcad->conf->node.cluster_file, "values", values);
}
