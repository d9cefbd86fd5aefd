/* The game of ping-pong ends, whatever else runs here, and what it says can be used. */
#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>

#include "daemon/rails/calibrate.h"

Test(calibrate_ways, ends_with_costs_or_without)
{
    for (unsigned i = 0; i < 3; i++) {
        struct way_costs costs;
        int r = calibrate_ways(&costs);
        cr_assert(r == 0 || r == -EBUSY || r == -ENODEV || r == -ERANGE, "%d", r);
        cr_assert(r < 0 || way_costs_valid(&costs));
    }
}

Test(calibrate_ways, one_processor_is_too_few)
{
    cpu_set_t allowed, one;
    struct way_costs costs = {.half_line = 42};
    unsigned first = 0;
    cr_assert(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    while (!CPU_ISSET(first, &allowed))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    cr_assert(sched_setaffinity(0, sizeof one, &one) == 0);
    cr_assert(calibrate_ways(&costs) == -ENODEV);
    cr_assert(costs.half_line == 42, "untouched");
}
