#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <errno.h>
#include <stdio.h>

#include "client/core/environment.h"
#include "client/include/tca-admin.h"
#include "tests/unit/client/environment.h"

Test(environment, every_variable_is_described)
{
    const struct tca_variable *variable = tca_variables();
    int count = 0;
    for (; variable->name; variable++, count++) {
        cr_assert_eq(strncmp(variable->name, "TCA_", 4), 0);
        cr_assert_not_null(variable->default_value);
        cr_assert_neq(variable->meaning[0], 0);
    }
    cr_assert_eq(count, VARIABLE_COUNT);
}

Test(environment, defaults)
{
    struct settings settings;
    clear_environment();
    cr_assert_eq(environment_settings(&settings), 0);
    cr_assert_eq(settings.timeout_ns, 10000000000);
    cr_assert_eq(settings.spin_ns, 50000);
    cr_assert_eq(settings.yield_ns, 1000000);
    cr_assert_str_eq(settings.rail, "");
    cr_assert_eq(settings.seat, TCA_SEAT_ANY);
}

static void add_pair(void *context, const char *name, const char *similar)
{
    strcat(strcat(strcat(strcat((char *)context, name), "="), similar ? similar : "?"), " ");
}

Test(environment, unknown_names_are_found)
{
    char found[256] = "";
    clear_environment();
    tca_variables_unknown(add_pair, found);
    cr_assert_str_eq(found, "");
    set_environment((const char *const[]){"TCA_RIAL=tcp", "TCA_RAIL=tcp", "TCA_TIMEOUTS=1s",
                                          "TCA_Q=", "TCA_TEST_ROUNDS=3", "TCAX=1", "XTCA_RAIL=1",
                                          NULL});
    tca_variables_unknown(add_pair, found);
    cr_assert_str_eq(found, "TCA_RIAL=TCA_RAIL TCA_TIMEOUTS=TCA_TIMEOUT TCA_Q=? ");
}

Test(environment, warns_once, .init = cr_redirect_stderr)
{
    set_environment((const char *const[]){"TCA_RIAL=tcp", NULL});
    environment_warn();
    environment_warn();
    fflush(stderr);
    cr_assert_stderr_eq_str("libtca: there is no variable TCA_RIAL: did you mean TCA_RAIL?\n");
}

struct times {
    const char *pair;
    int result;
    int64_t timeout_ns;
};

Test(environment, times_have_units)
{
    static const struct times table[] = {
        {"TCA_TIMEOUT=5", -EINVAL, 0}, /* of what? */
        {"TCA_TIMEOUT=5s", 0, 5000000000},    {"TCA_TIMEOUT=250ms", 0, 250000000},
        {"TCA_TIMEOUT=7us", 0, 7000},         {"TCA_TIMEOUT=9ns", 0, 9},
        {"TCA_TIMEOUT=", 0, 10000000000},     {"TCA_TIMEOUT=1000000s", 0, 1000000000000000},
        {"TCA_TIMEOUT=1000001s", -EINVAL, 0}, {"TCA_TIMEOUT=0", -EINVAL, 0},
        {"TCA_TIMEOUT=-1", -EINVAL, 0},       {"TCA_TIMEOUT=1.5s", -EINVAL, 0},
        {"TCA_TIMEOUT=5 s", -EINVAL, 0},      {"TCA_TIMEOUT=s", -EINVAL, 0},
        {"TCA_TIMEOUT=5m", -EINVAL, 0},       {"TCA_TIMEOUT=18446744073709551617", -EINVAL, 0},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct settings settings;
        set_environment((const char *const[]){table[i].pair, NULL});
        int r = environment_settings(&settings);
        cr_expect_eq(r, table[i].result, "%s: %d", table[i].pair, r);
        if (r == 0)
            cr_expect_eq(settings.timeout_ns, table[i].timeout_ns, "%s: %ld", table[i].pair,
                         settings.timeout_ns);
        else
            cr_expect_not_null(strstr(tca_error_text(), "TCA_TIMEOUT"));
    }
}

Test(environment, choices)
{
    struct settings settings;
    set_environment((const char *const[]){"TCA_RAIL=ofi", "TCA_SEAT=daemon", "TCA_SPIN=0",
                                          "TCA_YIELD=20us", NULL});
    cr_assert_eq(environment_settings(&settings), 0);
    cr_assert_str_eq(settings.rail, "ofi");
    cr_assert_eq(settings.seat, TCA_SEAT_DAEMON);
    cr_assert_eq(settings.spin_ns, 0);
    cr_assert_eq(settings.yield_ns, 20000);
    set_environment((const char *const[]){"TCA_SPIN=20", NULL});
    cr_expect_eq(environment_settings(&settings), -EINVAL);
    cr_expect_not_null(strstr(tca_error_text(), "unit"), "%s", tca_error_text());
    static const char *const bad[] = {"TCA_RAIL=a_name_that_has_32_bytes_or_more",
                                      "TCA_SEAT=hardware",
                                      "TCA_SEAT=none",
                                      "TCA_SPIN=5s",
                                      "TCA_SPIN=20",
                                      "TCA_YIELD=20"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set_environment((const char *const[]){bad[i], NULL});
        cr_expect_eq(environment_settings(&settings), -EINVAL, "%s", bad[i]);
        cr_expect_not_null(strstr(tca_error_text(), strchr(bad[i], '=') + 1), "%s: %s", bad[i],
                           tca_error_text());
    }
}
