/* Plans that this process runs itself, for modules of this library that are built on tca.h. */
#pragma once

#include <stdbool.h>

#include "client/include/tca.h"

/* Whether this process copies all puts of a committed plan, within the node: when a start is complete,
 * its data has arrived and its notifications have been raised. */
bool plan_copies_here(const struct tca_plan *plan);

/* As tca_start() and then tca_test(), which finds out only whether the start completed at once. */
int plan_start_and_test(struct tca_plan *plan);
