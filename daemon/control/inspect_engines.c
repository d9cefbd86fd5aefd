/* Documents and metrics about the engines. */
#include "daemon/control/inspect.h"

#include <stdio.h>

#include "daemon/engine/engine.h"
#include "daemon/tcad.h"

static json_t *document_of(const struct engine_stats *stats)
{
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "state",
                     stats->asleep ? "asleep" : "busy", "sessions", (json_int_t)stats->sessions,
                     "starts", (json_int_t)stats->starts, "completions",
                     (json_int_t)stats->completions, "errors", (json_int_t)stats->errors, "bytes",
                     (json_int_t)stats->bytes, "sleeps", (json_int_t)stats->sleeps);
}

json_t *inspect_engines(const struct tcad *tcad, json_t **ret_all)
{
    struct engine_stats all = {.asleep = true};
    json_t *list = json_array();
    for (unsigned i = 0; i < tcad->engine_count; i++) {
        struct engine_stats stats;
        engine_stats(tcad->engines[i], &stats);
        json_array_append_new(list, document_of(&stats));
        all.sessions += stats.sessions;
        all.starts += stats.starts;
        all.completions += stats.completions;
        all.errors += stats.errors;
        all.bytes += stats.bytes;
        all.sleeps += stats.sleeps;
        all.asleep = all.asleep && stats.asleep;
    }
    *ret_all = document_of(&all);
    return list;
}

/* ---- metrics ---- */

static double sessions_of(const struct engine_stats *stats)
{
    return stats->sessions;
}

static double starts_of(const struct engine_stats *stats)
{
    return (double)stats->starts;
}

static double completions_of(const struct engine_stats *stats)
{
    return (double)stats->completions;
}

static double errors_of(const struct engine_stats *stats)
{
    return (double)stats->errors;
}

static double bytes_of(const struct engine_stats *stats)
{
    return (double)stats->bytes;
}

static double sleeps_of(const struct engine_stats *stats)
{
    return (double)stats->sleeps;
}

static double slices_of(const struct engine_stats *stats)
{
    return (double)stats->slices;
}

static double longest_s_of(const struct engine_stats *stats)
{
    return (double)stats->longest_ns / 1e9;
}

static const struct {
    const char *name, *type, *unit, *help;
    double (*of)(const struct engine_stats *stats);
} metrics[] = {
    {"tcad_engine_sessions", "gauge", "", "Open sessions of the engine.", sessions_of},
    {"tcad_engine_starts", "counter", "", "Starts taken by the engine.", starts_of},
    {"tcad_engine_completions", "counter", "", "Starts completed by the engine.", completions_of},
    {"tcad_engine_errors", "counter", "", "Starts that failed in the engine.", errors_of},
    {"tcad_engine_put_bytes", "counter", "bytes", "Bytes put by the engine.", bytes_of},
    {"tcad_engine_sleeps", "counter", "", "Times that the engine went to sleep.", sleeps_of},
    {"tcad_engine_slices", "counter", "",
     "Slices that the engine cut long work into, to serve starts and rails in between.", slices_of},
    {"tcad_engine_longest_calls_seconds", "gauge", "seconds",
     "Longest time that the engine has spent on commits and releases without polling starts and "
     "rails.",
     longest_s_of},
};

static json_t *samples_of(const struct tcad *tcad, double (*of)(const struct engine_stats *stats))
{
    json_t *samples = json_array();
    for (unsigned i = 0; i < tcad->engine_count; i++) {
        struct engine_stats stats;
        char number[16];
        snprintf(number, sizeof(number), "%u", i);
        engine_stats(tcad->engines[i], &stats);
        json_array_append_new(
            samples, json_pack("{s:{s:s}, s:f}", "labels", "engine", number, "value", of(&stats)));
    }
    return samples;
}

void inspect_engine_families(const struct tcad *tcad, json_t *families)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
        json_array_append_new(families, json_pack("{s:s, s:s, s:s, s:s, s:o}", "name",
                                                  metrics[i].name, "type", metrics[i].type, "unit",
                                                  metrics[i].unit, "help", metrics[i].help,
                                                  "samples", samples_of(tcad, metrics[i].of)));
}
