#pragma once

#include <sys/types.h>

struct admin_reply;
struct tcad;

/* Replies with the list of "sessions" or "plans" that the viewer may see. Consumes reply. */
void rows_reply(struct tcad *tcad, struct admin_reply *reply, const char *verb, uid_t viewer);
