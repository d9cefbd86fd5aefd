/*
 * Renders the daemon's documents as text. tcactl(1) describes the documents. Nothing here talks to
 * a daemon, so that tests can supply documents.
 */
#pragma once

#include <jansson.h>

#include "tools/tcactl/screen.h"

typedef void render_function(const json_t *doc, const struct screen *screen);

render_function render_status;
render_function render_ready; /* tcactl's own document, see ready.c */
render_function render_nodes;
render_function render_topology;     /* a tree */
render_function render_topology_dot; /* for graphviz */
render_function render_topology_svg; /* a picture */
render_function render_sessions;
render_function render_offload;
render_function render_users;
render_function render_regions;
render_function render_plans;
render_function render_plan;       /* one plan, explained */
render_function render_collective; /* its member "collective" */
render_function render_config;
render_function render_ping;
render_function render_pings; /* of all nodes */
render_function render_why;
render_function render_reload;
render_function render_calibrate;
render_function render_drain;
render_function render_check;  /* of a configuration */
render_function render_env;    /* tcactl's own document, see env.c */
render_function render_wisdom; /* likewise, see wisdom.c */
/* The document of place.c: as a table, and for mpirun and srun. */
render_function render_place;
render_function render_rankfile;
render_function render_hostlist;
render_function render_simulate; /* the document of simulate.c */

/* Removes the families whose names do not contain the word. False: none is left. */
bool stats_select(json_t *doc, const char *word);
render_function render_stats;

/* Renders the rates between two samples taken `seconds` apart: {"status", "sessions", "stats"}, as
 * received. before NULL: no rates. */
void render_watch(const json_t *before, const json_t *now, double seconds,
                  const struct screen *screen);
/* The same as lines, one for the daemon, each session and each rail, which begin with the time. */
void render_watch_lines(const json_t *before, const json_t *now, double seconds, const char *time,
                        const struct screen *screen);
