#include "daemon/control/metrics.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/loop.h"
#include "daemon/control/inspect.h"
#include "daemon/tcad.h"

static const char content_type[] = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/* ---- text ---- */

enum { METRIC_NAME_MAX = 128 };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool ends_with(const char *text, const char *end)
{
    size_t text_bytes = strlen(text), end_bytes = strlen(end);
    return text_bytes >= end_bytes && strcmp(text + text_bytes - end_bytes, end) == 0;
}

/* The family's name: without _total, with the unit as suffix, invalid characters replaced. */
static void family_name(const json_t *family, char ret_name[static METRIC_NAME_MAX])
{
    const char *name = text_of(family, "name"), *unit = text_of(family, "unit");
    size_t bytes = strlen(name) - (ends_with(name, "_total") ? strlen("_total") : 0);
    char end[METRIC_NAME_MAX / 2];

    snprintf(ret_name, METRIC_NAME_MAX, "%.*s", (int)bytes, name);
    snprintf(end, sizeof(end), "_%s", unit);
    if (*unit && !ends_with(ret_name, end))
        snprintf(ret_name + strlen(ret_name), METRIC_NAME_MAX - strlen(ret_name), "%s", end);
    for (char *c = ret_name; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '_' && *c != ':')
            *c = '_';
}

/* Escapes backslashes, quotes and newlines, as help texts and label values both need it. */
static void write_escaped(FILE *to, const char *text)
{
    for (; *text; text++)
        if (*text == '\n')
            fputs("\\n", to);
        else if (*text == '"' || *text == '\\')
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
}

/* The shortest text that is read back as the same number. */
static void write_real(FILE *to, double number)
{
    char text[40];

    snprintf(text, sizeof(text), "%.15g", number);
    if (strtod(text, NULL) != number)
        snprintf(text, sizeof(text), "%.17g", number);
    fputs(text, to);
}

static void write_label_value(FILE *to, const json_t *value)
{
    if (json_is_string(value))
        write_escaped(to, json_string_value(value));
    else if (json_is_integer(value))
        fprintf(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        write_real(to, json_real_value(value));
    else if (json_is_boolean(value))
        fputs(json_is_true(value) ? "true" : "false", to);
}

static void write_labels(FILE *to, const json_t *labels)
{
    const char *key;
    const json_t *value;
    char before = '{';

    json_object_foreach((json_t *)labels, key, value)
    {
        fprintf(to, "%c%s=\"", before, key);
        write_label_value(to, value);
        fputc('"', to);
        before = ',';
    }
    if (before == ',')
        fputc('}', to);
}

static void write_number(FILE *to, const json_t *value)
{
    double number = json_number_value(value);

    if (json_is_integer(value))
        fprintf(to, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (isnan(number))
        fputs("NaN", to);
    else if (isinf(number))
        fputs(number > 0 ? "+Inf" : "-Inf", to);
    else
        write_real(to, number);
}

static void write_family(FILE *to, const json_t *family)
{
    const char *type = text_of(family, "type"), *unit = text_of(family, "unit"),
               *help = text_of(family, "help");
    const json_t *samples = json_object_get(family, "samples"), *sample;
    char name[METRIC_NAME_MAX];
    size_t i;

    if (json_array_size(samples) == 0)
        return;
    family_name(family, name);
    fprintf(to, "# TYPE %s %s\n", name, *type ? type : "unknown");
    if (*unit)
        fprintf(to, "# UNIT %s %s\n", name, unit);
    fprintf(to, "# HELP %s ", name);
    write_escaped(to, help);
    fputc('\n', to);
    json_array_foreach((json_t *)samples, i, sample)
    {
        const json_t *value = json_object_get(sample, "value");
        if (!json_is_number(value))
            continue;
        fprintf(to, "%s%s", name, strcmp(type, "counter") == 0 ? "_total" : "");
        write_labels(to, json_object_get(sample, "labels"));
        fputc(' ', to);
        write_number(to, value);
        fputc('\n', to);
    }
}

char *metrics_render(const json_t *document)
{
    const json_t *family;
    char *text = NULL;
    size_t bytes = 0, i;

    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return NULL;
    json_array_foreach(json_object_get(document, "families"), i, family) write_family(to, family);
    fputs("# EOF\n", to);
    bool broken = ferror(to);
    if (fclose(to) != 0 || broken) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- over HTTP ---- */

struct metrics {
    struct tcad *tcad;
    struct http *http;
};

static char *answer(void *context, const char *path, const char **ret_type)
{
    struct metrics *metrics = context;

    if (strcmp(path, "/metrics") != 0)
        return NULL;
    json_t *document = inspect_stats(metrics->tcad);
    char *text = document ? metrics_render(document) : NULL;
    json_decref(document);
    *ret_type = content_type;
    return text;
}

int metrics_new(struct tcad *tcad, char *text, size_t text_bytes, struct metrics **ret_metrics)
{
    const struct config_address *where = &tcad->conf->metrics.listen;

    if (!where->host[0]) {
        *ret_metrics = NULL;
        return 0;
    }
    struct metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics) {
        snprintf(text, text_bytes, "out of memory");
        return -ENOMEM;
    }
    metrics->tcad = tcad;
    int r = http_new(tcad->loop, where->host, where->port, answer, metrics, &metrics->http);
    if (r < 0) {
        snprintf(text, text_bytes, "cannot listen on %s:%u (metrics.listen): %s", where->host,
                 where->port, r == -EINVAL ? "write a numeric address" : strerrordesc_np(-r));
        free(metrics);
        return r;
    }
    *ret_metrics = metrics;
    return 0;
}

struct metrics *metrics_free(struct metrics *metrics)
{
    if (!metrics)
        return NULL;
    http_free(metrics->http);
    free(metrics);
    return NULL;
}
