#include "daemon/control/reload.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/keys.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "daemon/control/admin.h"
#include "daemon/engine/engine.h"
#include "daemon/peers/peer.h"
#include "daemon/tcad.h"

static json_t *errors_document(const struct config_errors *errors)
{
    json_t *list = json_array();
    for (size_t i = 0; i < errors->count; i++) {
        const struct config_error *error = &errors->list[i];
        log_error(NULL, "reload: %s:%u: %s", error->file, error->line, error->text);
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "file", error->file, "line",
                                              (json_int_t)error->line, "text", error->text));
    }
    return list;
}

static json_t *cluster_changes(const struct cluster *before, const struct cluster *after)
{
    static const char *const kinds[] = {
        [CLUSTER_ADDED] = "added", [CLUSTER_REMOVED] = "removed", [CLUSTER_MOVED] = "moved"};
    json_t *result = json_pack("{s:[], s:[], s:[]}", "added", "removed", "moved");
    struct cluster_change *changes;
    size_t count;
    if (cluster_diff(before, after, &changes, &count) < 0)
        return result;
    for (size_t i = 0; i < count; i++) {
        const struct cluster_node *node = changes[i].after ? changes[i].after : changes[i].before;
        log_info(NULL, "reload: node %s (%u) was %s", node->name, node->id, kinds[changes[i].kind]);
        json_array_append_new(json_object_get(result, kinds[changes[i].kind]),
                              json_string(node->name));
    }
    free(changes);
    return result;
}

static void sort_keys(struct tcad *tcad, struct tcad_conf *next, json_t *applied,
                      json_t *not_applied)
{
    const struct config_key *keys[CONFIG_KEYS_MAX];
    size_t count = tcad_conf_diff(tcad->conf, next, keys);
    for (size_t i = 0; i < count; i++) {
        json_t *name = json_sprintf("%s.%s", keys[i]->section, keys[i]->name);
        if (keys[i]->reloadable) {
            log_info(NULL, "reload: %s was changed", json_string_value(name));
            json_array_append_new(applied, name);
        } else {
            log_warning(NULL, "reload: %s is changed only by a restart", json_string_value(name));
            json_array_append_new(not_applied,
                                  json_pack("{s:o, s:s}", "key", name, "why", "needs a restart"));
        }
    }
}

/* The file has the same name, and another key. */
static void sort_key(const struct tcad_conf *from, const struct tcad_conf *to, json_t *not_applied)
{
    if (from->key_mark == to->key_mark || !from->control.key_file || !to->control.key_file ||
        strcmp(from->control.key_file, to->control.key_file) != 0)
        return;
    log_warning(NULL, "reload: %s holds another key, which is used only after a restart",
                to->control.key_file);
    json_array_append_new(
        not_applied, json_pack("{s:s, s:s}", "key", "the new contents of control.key_file", "why",
                               "which need a restart: until then this node uses the old key"));
}

static void sort_rails(const struct tcad_conf *from, const struct tcad_conf *to, bool all,
                       json_t *not_applied)
{
    for (size_t i = 0; i < from->rail_count; i++) {
        const struct conf_rail *rail = &from->rail_list[i];
        if (!rail->name || (all ? conf_rail_unchanged(rail, to) : conf_rail_known(rail, to)))
            continue;
        log_warning(NULL, "reload: [rail %s] is changed only by a restart", rail->name);
        json_array_append_new(not_applied,
                              json_pack("{s:o, s:s}", "key", json_sprintf("rail %s", rail->name),
                                        "why", "needs a restart"));
    }
}

static void tune_engines(struct tcad *tcad)
{
    int r = 0;
    for (unsigned i = 0; i < tcad->engine_count && r == 0; i++)
        r = engine_tune(tcad->engines[i], tcad->conf->engine.spin_ns, tcad->conf->engine.yield_ns);
    if (r < 0)
        log_error(NULL, "out of memory: the new engine.spin and engine.yield are not applied");
}

json_t *reload(struct tcad *tcad)
{
    struct config_errors errors = {0};
    struct tcad_conf *next;
    json_t *applied = json_array(), *not_applied = json_array(), *cluster = json_object();

    notify_reloading();
    int r = tcad_conf_load(tcad->conf_path, tcad->is_system, tcad->overrides, &next, &errors);
    if (r == 0) {
        sort_keys(tcad, next, applied, not_applied);
        sort_key(tcad->conf, next, not_applied);
        sort_rails(next, tcad->conf, true, not_applied);  /* changed or new */
        sort_rails(tcad->conf, next, false, not_applied); /* removed */
        json_decref(cluster);
        cluster = cluster_changes(tcad->cluster, next->cluster);
        tcad_conf_adopt(tcad->conf, next);
        tcad->cluster = tcad->conf->cluster;
        peers_reload(tcad->peers);
        tune_engines(tcad);
        log_init(tcad_log_level(tcad->conf), tcad_log_target(tcad->conf));
        tcad_conf_free(next);
    } else if (errors.count == 0) {
        config_errors_add(&errors, tcad->conf_path ? tcad->conf_path : "configuration", 0, "%s",
                          strerror(-r));
    }
    json_t *document =
        json_pack("{s:o, s:o, s:o, s:o}", "applied", applied, "not_applied", not_applied, "errors",
                  errors_document(&errors), "cluster", cluster);
    config_errors_deinit(&errors);
    notify_ready(NULL);
    return document;
}

/* The overrides of the command line and one more. NULL: out of memory. */
static const char **with_override(const char *const *overrides, const char *more)
{
    size_t count = 0;
    while (overrides && overrides[count])
        count++;
    const char **list = calloc(count + 2, sizeof(*list));
    if (list && count)
        memcpy(list, overrides, count * sizeof(*list));
    if (list)
        list[count] = more;
    return list;
}

/* The output of tcad --check. */
static json_t *check_lines(const struct tcad *tcad, const struct tcad_conf *conf,
                           const struct config_errors *errors)
{
    char *text = NULL, *line;
    size_t bytes;
    json_t *lines = json_array();
    if (conf) {
        text = tcad_conf_good(conf, tcad->is_system);
    } else {
        FILE *to = open_memstream(&text, &bytes);
        if (to) {
            config_errors_write(errors, to);
            fclose(to);
        }
    }
    for (char *rest = text; rest && (line = strsep(&rest, "\n"));)
        if (*line)
            json_array_append_new(lines, json_string(line));
    free(text);
    return lines;
}

json_t *reload_check(struct tcad *tcad, const char *cluster_file)
{
    struct config_errors errors = {0};
    struct tcad_conf *conf = NULL;
    char *cluster = NULL;
    if (*cluster_file && asprintf(&cluster, "node.cluster_file=%s", cluster_file) < 0)
        return NULL;
    const char **overrides = with_override(tcad->overrides, cluster);
    int r = overrides ? tcad_conf_load(tcad->conf_path, tcad->is_system, overrides, &conf, &errors)
                      : -ENOMEM;
    char *path =
        tcad->conf_path ? strdup(tcad->conf_path) : tcad_conf_default_path(tcad->is_system);
    json_t *document = r == -ENOMEM ? NULL
                                    : json_pack("{s:b, s:s?, s:o}", "ok", r == 0, "file", path,
                                                "messages", check_lines(tcad, conf, &errors));
    free(path);
    tcad_conf_free(conf);
    config_errors_deinit(&errors);
    free(overrides);
    free(cluster);
    return document;
}

void admin_reload(struct tcad *tcad, struct admin_reply *reply)
{
    json_t *document = reload(tcad);
    bool failed = json_array_size(json_object_get(document, "errors")) > 0;
    admin_reply_document(reply, document, failed);
}
