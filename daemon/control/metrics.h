/* Metrics as OpenMetrics 1.0 text, served over HTTP if metrics.listen is set. */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct metrics;
struct tcad;

/* *ret_metrics is NULL if metrics.listen is not set. text: the error. */
int metrics_new(struct tcad *tcad, char *text, size_t text_bytes, struct metrics **ret_metrics);
struct metrics *metrics_free(struct metrics *metrics);

/*
 * Renders {"families": [{"name", "type", "unit", "help", "samples": [{"labels": {}, "value"}]}]}.
 * Returns text from malloc(), or NULL if out of memory. Adds missing suffixes to names: the unit,
 * and _total for counters. Omits samples without a numeric value and families without samples.
 */
char *metrics_render(const json_t *document);
