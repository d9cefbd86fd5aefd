/* What a daemon says of the ways of copying is checked. */
#include <criterion/criterion.h>
#include <math.h>

#include "client/core/hello.h"

static struct way_costs told(Tca__WayCosts costs)
{
    Tca__Welcome welcome = TCA__WELCOME__INIT;
    welcome.way_costs = &costs;
    return hello_way_costs(&welcome);
}

static Tca__WayCosts honest(void)
{
    Tca__WayCosts costs = TCA__WAY_COSTS__INIT;
    costs.half_line = 0.16;
    costs.ring_line_ns = 13;
    return costs;
}

static bool is_default(struct way_costs costs)
{
    struct way_costs expected = way_costs_default;
    for (unsigned field = 0; field < WAY_COST_FIELDS; field++)
        if (*way_cost_at(&costs, field) != *way_cost_at(&expected, field))
            return false;
    return true;
}

Test(hello, way_costs_are_taken)
{
    struct way_costs costs = told(honest());
    cr_assert(costs.half_line == 0.16 && costs.ring_line_ns == 13);
}

Test(hello, without_way_costs_there_are_defaults)
{
    Tca__Welcome welcome = TCA__WELCOME__INIT;
    cr_assert(is_default(hello_way_costs(&welcome)));
    cr_assert(is_default(told((Tca__WayCosts)TCA__WAY_COSTS__INIT)), "all zero");
}

Test(hello, nonsense_is_not_taken)
{
    const double bad[] = {NAN, INFINITY, -INFINITY, -1, 1e300};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        for (unsigned field = 0; field < WAY_COST_FIELDS; field++) {
            Tca__WayCosts costs = honest();
            *(double *[]){&costs.half_line, &costs.ring_line_ns}[field] = bad[i];
            cr_assert(is_default(told(costs)), "field %u is %g", field, bad[i]);
        }
    }
}
