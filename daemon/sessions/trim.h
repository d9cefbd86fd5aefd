/* Gives memory back to the system after a peak, which malloc() would keep: much of it lies between
 * blocks that are still in use. */
#pragma once

struct tcad;
struct trim;

int trim_new(struct tcad *tcad, struct trim **ret_trim);
/* When the worker has ended. NULL is a no-op. Returns NULL. */
struct trim *trim_free(struct trim *trim);
/* What is charged to users has decreased (tcad->users.total). */
void trim_consider(struct trim *trim);
