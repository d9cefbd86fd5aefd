#pragma once

#include <sys/types.h>

struct admin_reply;
struct tcad;

/* Replies with the list that the verb names ("sessions" or "plans"), as far as the viewer may see
 * it. Consumes reply. */
void rows_reply(struct tcad *tcad, struct admin_reply *reply, const char *verb, uid_t viewer);
