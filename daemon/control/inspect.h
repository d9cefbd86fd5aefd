/* Documents that say what is; tcactl(1) describes their shapes. NULL: no memory. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct tcad;

json_t *inspect_status(struct tcad *tcad, bool *ret_degraded);
json_t *inspect_nodes(struct tcad *tcad);
json_t *inspect_topology(struct tcad *tcad);
/* What belongs to users is shown to `viewer`, who asks: with control.private only what is its own,
 * unless it is root or the daemon's own user. */
bool inspect_may_see(const struct tcad *tcad, uid_t viewer, uid_t owner);
json_t *inspect_sessions(struct tcad *tcad, uid_t viewer);
json_t *inspect_users(struct tcad *tcad, uid_t viewer);
json_t *inspect_regions(struct tcad *tcad, uid_t viewer);
json_t *inspect_plans(struct tcad *tcad, uid_t viewer);
/* id: "SESSION.PLAN". *ret_why (static) when there is none such. */
json_t *inspect_plan(struct tcad *tcad, uid_t viewer, const char *id, const char **ret_why);
json_t *inspect_stats(struct tcad *tcad);
json_t *inspect_config(struct tcad *tcad);
