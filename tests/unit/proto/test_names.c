#include <criterion/criterion.h>

#include "proto/segment.h"

Test(names, rails_there_and_back)
{
    for (int rail = DRIVER_NONE + 1; rail < DRIVER_COUNT; rail++) {
        cr_assert_not_null(driver_name(rail), "rail %d has no name", rail);
        cr_assert_eq((int)driver_from_name(driver_name(rail)), rail);
    }
    cr_assert_str_eq(driver_name(DRIVER_OFI), "ofi");
}

Test(names, seats_there_and_back)
{
    for (int seat = SEAT_NONE + 1; seat < SEAT_COUNT; seat++) {
        cr_assert_not_null(seat_name(seat), "seat %d has no name", seat);
        cr_assert_eq((int)seat_from_name(seat_name(seat)), seat);
    }
    cr_assert_str_eq(seat_name(SEAT_DAEMON), "daemon");
}

Test(names, unknown)
{
    cr_assert_null(driver_name(DRIVER_NONE));
    cr_assert_null(driver_name(DRIVER_COUNT));
    cr_assert_null(driver_name((enum driver_id) - 1));
    cr_assert_null(seat_name(SEAT_NONE));
    cr_assert_null(seat_name(SEAT_COUNT));
    cr_assert_eq(driver_from_name("SHM"), DRIVER_NONE);
    cr_assert_eq(driver_from_name("verbs"), DRIVER_NONE);
    cr_assert_eq(driver_from_name(""), DRIVER_NONE);
    cr_assert_eq(driver_from_name(NULL), DRIVER_NONE);
    cr_assert_eq(seat_from_name("clients"), SEAT_NONE);
    cr_assert_eq(seat_from_name(NULL), SEAT_NONE);
}
