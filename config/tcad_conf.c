#include "config/tcad_conf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "config/cluster.h"
#include "config/conf_internal.h"
#include "config/guess.h"
#include "config/text.h"
#include "config/value.h"

static const char override_file[] = "command line";

struct tcad_conf *tcad_conf_free(struct tcad_conf *conf)
{
    if (!conf)
        return NULL;
    for (size_t i = 0; i < config_key_count; i++)
        config_value_clear(&config_keys[i], conf_field(conf, &config_keys[i]));
    conf_rails_free(conf);
    cluster_free(conf->cluster);
    free(conf->file);
    free(conf->origins);
    free(conf);
    return NULL;
}

static const char *conf_file(const struct tcad_conf *conf)
{
    return conf->file ? conf->file : "defaults";
}

void conf_blame(const struct tcad_conf *conf, const struct config_key *key,
                struct config_errors *errors, const char *format, ...)
{
    size_t i = (size_t)(key - config_keys);
    bool overridden = conf->origins->keys[i].given && conf->origins->keys[i].line == 0;
    char *value = tcad_conf_value(conf, key), *what;
    va_list args;

    va_start(args, format);
    if (vasprintf(&what, format, args) < 0)
        what = NULL;
    va_end(args);

    config_errors_add(errors, overridden ? override_file : conf_file(conf),
                      conf->origins->keys[i].line, "[%s] %s = %s: %s", key->section, key->name,
                      value && *value ? value : "none", what ? what : format);
    free(value);
    free(what);
}

/* Reports an unknown key, with its section if it belongs to another one, or a suggestion. */
static void report_unknown(const char *section, const char *name, const char *file, unsigned line,
                           struct config_errors *errors)
{
    struct config_guess guess;
    const char *elsewhere = NULL;

    config_guess_init(&guess, name);
    for (size_t i = 0; i < config_key_count; i++) {
        if (strcmp(config_keys[i].section, section) == 0)
            config_guess_try(&guess, config_keys[i].name);
        else if (strcmp(config_keys[i].name, name) == 0)
            elsewhere = config_keys[i].section;
    }
    if (elsewhere)
        config_errors_add(errors, file, line, "[%s] has no key \"%s\"; it belongs to [%s]", section,
                          name, elsewhere);
    else if (guess.best)
        config_errors_add(errors, file, line, "[%s] has no key \"%s\"; did you mean \"%s\"?",
                          section, name, guess.best);
    else
        config_errors_add(errors, file, line, "[%s] has no key \"%s\"; tcad.conf(5) lists them",
                          section, name);
}

static bool is_section(const char *section)
{
    if (conf_rail_named(section))
        return true;
    for (size_t i = 0; i < config_key_count; i++)
        if (strcmp(config_keys[i].section, section) == 0)
            return true;
    return false;
}

static void report_section(const char *section, const char *file, unsigned line,
                           struct config_errors *errors)
{
    struct config_guess guess;

    config_guess_init(&guess, section);
    for (size_t i = 0; i < config_key_count; i++)
        config_guess_try(&guess, config_keys[i].section);
    if (guess.best)
        config_errors_add(errors, file, line, "unknown section [%s]; did you mean [%s]?", section,
                          guess.best);
    else
        config_errors_add(errors, file, line, "unknown section [%s]; tcad.conf(5) lists them",
                          section);
}

/* line 0: an override, which replaces the value in the file. */
static int set_value(struct tcad_conf *conf, const char *section, const char *name,
                     const char *value, unsigned line, struct config_errors *errors)
{
    const struct config_key *key = config_key_find(section, name);
    const char *file = line ? conf_file(conf) : override_file;
    char why[512] = "";

    if (conf_rail_named(section)) {
        size_t rail;
        int r = conf_rail_section(conf, conf_rail_named(section), line, errors, &rail);
        return r < 0 ? r : conf_rail_set(conf, rail, name, value, line, errors);
    }
    if (!key) {
        report_unknown(section, name, file, line, errors);
        return 0;
    }
    size_t i = (size_t)(key - config_keys);
    if (line && conf->origins->keys[i].given) {
        config_errors_add(errors, file, line,
                          "[%s] %s was already set in line %u; remove one of them", section, name,
                          conf->origins->keys[i].line);
        return 0;
    }
    int r = config_value_parse(key, value, conf_field(conf, key), why, sizeof(why));
    if (r == -ENOMEM)
        return r;
    if (r < 0)
        config_errors_add(errors, file, line, "[%s] %s = %s: %s", section, name, value, why);
    conf->origins->keys[i].given = true;
    conf->origins->keys[i].line = line;
    return 0;
}

/* Parses "[name]" in place; false: an error, which has been reported. */
static bool parse_section(char *text, const char *file, unsigned line, struct config_errors *errors,
                          const char **ret_section)
{
    size_t n = strlen(text);

    if (text[n - 1] != ']') {
        config_errors_add(errors, file, line, "\"%s\" is not a section; write [name]", text);
        return false;
    }
    text[n - 1] = '\0';
    const char *section = config_trim(text + 1);
    if (!is_section(section)) {
        report_section(section, file, line, errors);
        return false;
    }
    *ret_section = section;
    return true;
}

/* A rail's section makes a rail even if it is empty. */
static int begin_section(struct tcad_conf *conf, const char *section, unsigned line,
                         struct config_errors *errors)
{
    const char *rail = conf_rail_named(section);
    size_t index;
    return rail ? conf_rail_section(conf, rail, line, errors, &index) : 0;
}

/* Adds the values in text to conf. 0, or -ENOMEM; other errors go to errors. */
static int conf_parse(struct tcad_conf *conf, const char *text, size_t bytes,
                      struct config_errors *errors)
{
    struct config_lines lines;
    char section[CONFIG_LINE_MAX_BYTES + 1] = "";
    bool skip = false; /* the keys of an unknown section */
    int r = 0;

    config_lines_init(&lines, conf_file(conf), text, bytes, errors);
    while (r == 0 && config_lines_next(&lines)) {
        char *equals = strchr(lines.text, '=');
        const char *name;

        if (lines.text[0] == '[') {
            skip = !parse_section(lines.text, lines.file, lines.line, errors, &name);
            if (!skip)
                r = begin_section(conf, name, lines.line, errors);
            if (!skip)
                snprintf(section, sizeof(section), "%s", name);
        } else if (!equals || equals == lines.text) {
            config_errors_add(errors, lines.file, lines.line,
                              "\"%s\" is neither [section] nor key = value", lines.text);
        } else if (skip) {
            continue;
        } else if (!section[0]) {
            config_errors_add(errors, lines.file, lines.line, "\"%s\" precedes the first [section]",
                              lines.text);
        } else {
            *equals = '\0';
            r = set_value(conf, section, config_trim(lines.text), config_trim(equals + 1),
                          lines.line, errors);
        }
    }
    return r;
}

/* "section.key=value" */
static int apply_override(struct tcad_conf *conf, const char *override,
                          struct config_errors *errors)
{
    char *text = strdup(override);
    int r = 0;

    if (!text)
        return -ENOMEM;
    char *equals = strchr(text, '=');
    char *dot = equals ? memrchr(text, '.', (size_t)(equals - text)) : NULL; /* names have dots */
    if (!config_text_clean(text, strlen(text))) {
        config_errors_add(errors, override_file, 0,
                          "an override contains control characters or invalid UTF-8");
    } else if (!dot) {
        config_errors_add(errors, override_file, 0,
                          "\"%s\" is not an override; write section.key=value", override);
    } else {
        *equals = *dot = '\0';
        const char *section = config_trim(text);
        if (!is_section(section))
            report_section(section, override_file, 0, errors);
        else
            r = set_value(conf, section, config_trim(dot + 1), config_trim(equals + 1), 0, errors);
    }
    free(text);
    return r;
}

static int read_file(struct tcad_conf *conf, const char *path, bool system,
                     struct config_errors *errors)
{
    char *text = NULL;
    size_t bytes;
    int r;

    conf->file = path ? strdup(path) : tcad_conf_default_path(system);
    if (!conf->file)
        return path ? -ENOMEM : 0;
    r = config_text_read(conf->file, &text, &bytes, errors);
    if (r == -ENOENT && !path) {
        free(conf->file);
        conf->file = NULL;
        return 0;
    }
    if (r == -ENOENT)
        config_errors_add(errors, path, 0, "does not exist");
    if (r == 0)
        r = conf_parse(conf, text, bytes, errors);
    free(text);
    return r == -ENOMEM ? r : 0;
}

int tcad_conf_load(const char *path, bool system, const char *const *overrides,
                   struct tcad_conf **ret_conf, struct config_errors *errors)
{
    struct tcad_conf *conf = calloc(1, sizeof(*conf));
    size_t before = config_errors_total(errors);
    int r;

    if (!conf || !(conf->origins = calloc(1, sizeof(*conf->origins)))) {
        free(conf);
        return -ENOMEM;
    }
    r = read_file(conf, path, system, errors);
    for (; r == 0 && overrides && *overrides; overrides++)
        r = apply_override(conf, *overrides, errors);
    /* Checks of values against each other need valid values. */
    if (r == 0 && config_errors_total(errors) == before)
        r = conf_complete(conf, system, errors);
    if (r == 0 && config_errors_total(errors) > before)
        r = -EINVAL;
    if (r < 0) {
        tcad_conf_free(conf);
        return r;
    }
    *ret_conf = conf;
    return 0;
}
