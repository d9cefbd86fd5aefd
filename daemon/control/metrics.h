/* Metrics as OpenMetrics 1.0 text, over HTTP when metrics.listen says so. */
#pragma once

#include <jansson.h>
#include <stddef.h>

struct metrics;
struct tcad;

/* *ret_metrics is NULL when the configuration wants none. text: why it failed. */
int metrics_new(struct tcad *tcad, char *text, size_t text_bytes, struct metrics **ret_metrics);
struct metrics *metrics_free(struct metrics *metrics);

/*
 * The text of {"families": [{"name", "type", "unit", "help", "samples": [{"labels": {},
 * "value"}]}]}, from malloc; NULL: no memory. The unit, and _total for counters, are added to names
 * that do not end with them. A sample without a number as its value, and a family without samples,
 * are left out.
 */
char *metrics_render(const json_t *document);
