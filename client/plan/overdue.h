/* What a wait waits for, as the error of its time-out and as a report of TCA_HANG
 * (client/core/hang.h): which plan or rank, at which step, how many notifications have arrived, and
 * what is known of the rank. */
#pragma once

#include <stdint.h>

struct session_slot;
struct tca;
struct tca_plan;

/* All return -ETIMEDOUT. timeout_ns is that of the public call; 0, a poll, sets a static text. */
int overdue_plan(const struct tca_plan *plan, int64_t timeout_ns) __attribute__((cold));
int overdue_notification(const struct tca *session, const struct session_slot *awaited,
                         int64_t timeout_ns) __attribute__((cold));
/* From any rank. */
int overdue_any(const struct tca *session, uint32_t slot, int64_t timeout_ns) __attribute__((cold));
