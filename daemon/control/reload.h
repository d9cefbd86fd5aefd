/* Applies a changed configuration to the running daemon. */
#pragma once

#include <jansson.h>

struct tcad;

/* Loads and checks everything first; after an error, nothing changes. The reply and the log name
 * settings that need a restart. Notifies systemd. NULL: out of memory. */
json_t *reload(struct tcad *tcad);

/* Checks whether reload() would accept the configuration, or one with another cluster file: {"ok",
 * "file", "messages": [lines]}. cluster_file: absolute; "": the configured one. */
json_t *reload_check(struct tcad *tcad, const char *cluster_file);
