#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct admin_reply;
struct tcad;

/* Whether the verb requests a list: "sessions", "plans", "users", "regions",
 * "offload". */
bool rows_has(const char *verb);
/* Replies with the part of the list that the viewer may see. Consumes reply. */
void rows_reply(struct tcad *tcad, struct admin_reply *reply, const char *verb, uid_t viewer);
