#include <criterion/criterion.h>

#include "proto/steps.h"

Test(steps, a_notification_joins_the_put_before_it)
{
    cr_assert(notify_joins_put(true, 3, 3));
    cr_assert(notify_joins_put(true, 0, 0));
}

Test(steps, it_does_not_join_what_goes_to_another_node)
{
    cr_assert_not(notify_joins_put(true, 3, 4));
    cr_assert_not(notify_joins_put(true, 0, UINT32_MAX));
}

Test(steps, it_joins_nothing_but_a_put)
{
    cr_assert_not(notify_joins_put(false, 3, 3));
    cr_assert_not(notify_joins_put(false, 0, 4));
}
