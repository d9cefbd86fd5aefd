/* Errors for time-outs: which plan or rank, and what it waits for. */
#pragma once

#include <stdint.h>

struct tca;
struct tca_plan;

/* Each returns -ETIMEDOUT. timeout_ns is that of the public call; 0, a poll, sets a static text. */
int overdue_plan(const struct tca_plan *plan, int64_t timeout_ns) __attribute__((cold));
int overdue_notification(const struct tca *session, uint32_t rank, uint32_t slot,
                         int64_t timeout_ns) __attribute__((cold));
/* From any rank. */
int overdue_any(const struct tca *session, uint32_t slot, int64_t timeout_ns) __attribute__((cold));
