/* What a time-out says: which plan or rank, and what it waits for. */
#pragma once

#include <stdint.h>

struct tca;
struct tca_plan;

/* Each returns -ETIMEDOUT. timeout_ns as the caller gave it; 0 is a poll, whose text costs nothing.
 */
int overdue_plan(const struct tca_plan *plan, int64_t timeout_ns) __attribute__((cold));
int overdue_notification(const struct tca *session, uint32_t rank, uint32_t slot,
                         int64_t timeout_ns) __attribute__((cold));
/* From any rank. */
int overdue_any(const struct tca *session, uint32_t slot, int64_t timeout_ns) __attribute__((cold));
