/* TCA_HANG: a wait that lasts longer says once, on standard error, what it waits for, and goes on.
 * client/core/wait.h has the same for waits of several parts. */
#pragma once

#include <stdint.h>

struct tca;

/* The limit of this process, from the environment; UINT64_MAX: none. Any thread. */
void hang_set_limit(uint64_t limit_ns);
uint64_t hang_limit(void);

/* overdue: sets the error of a time-out of waited_ns, which is the report. The error that is set
 * before stays. session NULL: there is none. */
void hang_report(const struct tca *session, uint64_t waited_ns,
                 int (*overdue)(const void *context, int64_t waited_ns), const void *context);
