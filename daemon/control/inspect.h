/* Documents that say what is; tcactl(1) describes their shapes. NULL: no memory. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct plan;
struct session;
struct tcad;

json_t *inspect_status(struct tcad *tcad, bool *ret_degraded);
json_t *inspect_nodes(struct tcad *tcad);
json_t *inspect_topology(struct tcad *tcad);
/* What belongs to users is shown to `viewer`, who asks: with control.private only what is its own,
 * unless it is root or the daemon's own user. */
bool inspect_may_see(const struct tcad *tcad, uid_t viewer, uid_t owner);
json_t *inspect_users(struct tcad *tcad, uid_t viewer);
json_t *inspect_regions(struct tcad *tcad, uid_t viewer);
/* Rows of the lists of sessions and plans (rows.h). */
json_t *inspect_session(const struct session *session);
json_t *inspect_plan_row(const struct plan *plan);
/* id: "SESSION.PLAN". NULL, and *ret_why (static): the viewer sees no such plan. */
const struct plan *inspect_find_plan(struct tcad *tcad, uid_t viewer, const char *id,
                                     const char **ret_why);
/* A plan whose chains have no steps yet, and a step. */
json_t *inspect_plan(const struct plan *plan);
json_t *inspect_plan_step(const struct plan *plan, uint32_t chain, uint32_t step);
json_t *inspect_stats(struct tcad *tcad);
json_t *inspect_config(struct tcad *tcad);
