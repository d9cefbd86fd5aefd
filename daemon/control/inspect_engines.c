/* Documents and metrics about the engines. */
#include "daemon/control/inspect.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

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

static const struct {
    const char *name, *type, *unit, *help;
    size_t at; /* of the figure in struct engine_stats */
    double scale;
} metrics[] = {
    {"tcad_engine_sessions", "gauge", "", "Open sessions of the engine.",
     offsetof(struct engine_stats, sessions), 1},
    {"tcad_engine_starts", "counter", "", "Starts taken by the engine.",
     offsetof(struct engine_stats, starts), 1},
    {"tcad_engine_completions", "counter", "", "Starts completed by the engine.",
     offsetof(struct engine_stats, completions), 1},
    {"tcad_engine_errors", "counter", "", "Starts that failed in the engine.",
     offsetof(struct engine_stats, errors), 1},
    {"tcad_engine_put_bytes", "counter", "bytes", "Bytes put by the engine.",
     offsetof(struct engine_stats, bytes), 1},
    {"tcad_engine_sleeps", "counter", "", "Times that the engine went to sleep.",
     offsetof(struct engine_stats, sleeps), 1},
    {"tcad_engine_slices", "counter", "",
     "Slices that the engine cut long work into, to serve starts and rails in between.",
     offsetof(struct engine_stats, slices), 1},
    {"tcad_engine_longest_calls_seconds", "gauge", "seconds",
     "Longest time that the engine has spent on commits and releases without polling starts and "
     "rails.",
     offsetof(struct engine_stats, longest_ns), 1e-9},
};

static json_t *samples_of(const struct tcad *tcad, size_t at, double scale)
{
    json_t *samples = json_array();
    for (unsigned i = 0; i < tcad->engine_count; i++) {
        struct engine_stats stats;
        uint64_t figure;
        char number[16];
        snprintf(number, sizeof(number), "%u", i);
        engine_stats(tcad->engines[i], &stats);
        memcpy(&figure, (const char *)&stats + at, sizeof(figure));
        json_array_append_new(samples, json_pack("{s:{s:s}, s:f}", "labels", "engine", number,
                                                 "value", (double)figure * scale));
    }
    return samples;
}

void inspect_engine_families(const struct tcad *tcad, json_t *families)
{
    for (size_t i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
        json_array_append_new(
            families, json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", metrics[i].name, "type",
                                metrics[i].type, "unit", metrics[i].unit, "help", metrics[i].help,
                                "samples", samples_of(tcad, metrics[i].at, metrics[i].scale)));
}
