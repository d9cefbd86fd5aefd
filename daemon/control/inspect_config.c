/* The configuration in effect. */
#include <stdlib.h>

#include "config/keys.h"
#include "daemon/control/inspect.h"
#include "daemon/tcad.h"

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
    return json_pack("{s:s?, s:s?, s:o}", "file", tcad->conf->file, "cluster_file",
                     tcad->conf->node.cluster_file, "values", values);
}
