#pragma once

struct admin_reply;
struct plan;
struct tcad;

/* Replies with everything about a plan. Consumes reply. */
void explain_reply(struct tcad *tcad, struct admin_reply *reply, const struct plan *plan);
