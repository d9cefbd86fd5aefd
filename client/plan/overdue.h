/* Errors of waits: which plan or rank, what it waits for, why a start has failed. */
#pragma once

#include <stdint.h>

struct tca;
struct tca_plan;

/* The first three return -ETIMEDOUT. timeout_ns is that of the public call; 0, a poll, sets a static text. */
int overdue_plan(const struct tca_plan *plan, int64_t timeout_ns) __attribute__((cold));
int overdue_notification(const struct tca *session, uint32_t rank, uint32_t slot,
                         int64_t timeout_ns) __attribute__((cold));
/* From any rank. */
int overdue_any(const struct tca *session, uint32_t slot, int64_t timeout_ns) __attribute__((cold));
/* Returns the error of the last start, which has failed or may have. */
int plan_failure(const struct tca_plan *plan) __attribute__((cold));
