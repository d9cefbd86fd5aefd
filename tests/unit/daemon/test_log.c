#include "daemon/base/log.h"

#include <criterion/criterion.h>

/* Of 1000 messages at once, a few are logged; the first one later states how many were
 * suppressed. */
Test(log, suppresses_and_counts)
{
    struct log_limit limit = {0};
    uint64_t now_ns = 5;
    uint32_t suppressed = 0, said = 0;
    for (int i = 0; i < 1000; i++, now_ns += 1000)
        said += log_limit_pass(&limit, now_ns, &suppressed);
    cr_assert_eq(said, LOG_LIMIT_BURST);
    cr_assert_eq(suppressed, 0);
    cr_assert(log_limit_pass(&limit, now_ns + LOG_LIMIT_WHILE_NS, &suppressed));
    cr_assert_eq(suppressed, 1000 - LOG_LIMIT_BURST);
    cr_assert(log_limit_pass(&limit, now_ns + LOG_LIMIT_WHILE_NS, &suppressed));
    cr_assert_eq(suppressed, 0, "told once");
}

/* Occasional messages are always logged. */
Test(log, seldom_is_never_suppressed)
{
    struct log_limit limit = {0};
    uint32_t suppressed;
    for (uint64_t i = 1; i < 100; i++) {
        cr_assert(log_limit_pass(&limit, i * LOG_LIMIT_WHILE_NS / LOG_LIMIT_BURST, &suppressed));
        cr_assert_eq(suppressed, 0);
    }
}
