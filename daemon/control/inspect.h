/* Documents about the state of the daemon; tcactl(1) describes them. NULL: out of memory. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct plan;
struct plan_collective;
struct region;
struct session;
struct tcad;
struct user;

json_t *inspect_status(struct tcad *tcad, bool *ret_degraded);
/* A list of all engines, and the sums. */
json_t *inspect_engines(const struct tcad *tcad, json_t **ret_all);
void inspect_engine_families(const struct tcad *tcad, json_t *families);
/* names: a hostlist of those to show, by name or id; "": all. text: why not. */
json_t *inspect_nodes(struct tcad *tcad, const char *names, char *text, size_t text_bytes);
/* Whether `viewer` may see objects of `owner`. With control.private, users other than root and the
 * daemon's own see only theirs. */
bool inspect_may_see(const struct tcad *tcad, uid_t viewer, uid_t owner);
/* Rows of lists (rows.h). */
json_t *inspect_session(const struct session *session);
json_t *inspect_user(const struct tcad *tcad, const struct user *user);
/* names: under which it is published; consumed. */
json_t *inspect_region(const struct region *region, json_t *names);
/* NULL: the session is no offload processor. */
json_t *inspect_offload(const struct session *session);
json_t *inspect_plan_row(const struct plan *plan);
/* id: "SESSION.PLAN". If the viewer sees no such plan: NULL, and *ret_why (static) says why. */
const struct plan *inspect_find_plan(struct tcad *tcad, uid_t viewer, const char *id,
                                     const char **ret_why);
/* A plan without the steps of its chains; and one step. */
json_t *inspect_plan(const struct plan *plan);
json_t *inspect_plan_step(const struct plan *plan, uint32_t chain, uint32_t step);
/* NULL: null */
json_t *inspect_collective(const struct plan_collective *collective);
json_t *inspect_stats(struct tcad *tcad);
json_t *inspect_config(struct tcad *tcad);
