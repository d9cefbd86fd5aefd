/* Taking up a changed configuration while running. */
#pragma once

#include <jansson.h>

struct tcad;

/* Loads and checks everything first: with any error nothing changes. What cannot be changed in
 * flight is named in the answer and in the log. Tells systemd. NULL: no memory. */
json_t *reload(struct tcad *tcad);

/* Whether reload() would take the configuration as it is now, or with another cluster file: {"ok",
 * "file", "messages": [lines]}. cluster_file: absolute; empty: the configured one. */
json_t *reload_check(struct tcad *tcad, const char *cluster_file);
