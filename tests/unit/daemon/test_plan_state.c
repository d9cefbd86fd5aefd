#include <criterion/criterion.h>
#include <string.h>

#include "daemon/plans/plan.h"

/* As the comment in plan.h tells it; the code has its own table. */
static const struct {
    enum plan_state from, to;
} legal[] = {
    {PLAN_NEW, PLAN_BINDING},           {PLAN_NEW, PLAN_RELEASING},
    {PLAN_BINDING, PLAN_REGISTERING},   {PLAN_REGISTERING, PLAN_READY},
    {PLAN_BINDING, PLAN_RELEASING},     {PLAN_REGISTERING, PLAN_PREPARING},
    {PLAN_REGISTERING, PLAN_RELEASING}, {PLAN_PREPARING, PLAN_READY},
    {PLAN_PREPARING, PLAN_RELEASING},   {PLAN_READY, PLAN_BROKEN},
    {PLAN_READY, PLAN_RELEASING},       {PLAN_BROKEN, PLAN_RELEASING},
    {PLAN_READY, PLAN_REBINDING},       {PLAN_REBINDING, PLAN_REGISTERING},
    {PLAN_REBINDING, PLAN_BROKEN},      {PLAN_REBINDING, PLAN_RELEASING},
    {PLAN_REGISTERING, PLAN_BROKEN},    {PLAN_PREPARING, PLAN_BROKEN},
};

Test(plan_state, every_pair)
{
    for (int from = 0; from <= PLAN_STATES; from++) {
        for (int to = 0; to <= PLAN_STATES; to++) {
            bool expected = false;
            for (size_t i = 0; i < sizeof legal / sizeof legal[0]; i++)
                expected |= (int)legal[i].from == from && (int)legal[i].to == to;
            cr_assert_eq(plan_state_legal(from, to), expected, "%s to %s", plan_state_name(from),
                         plan_state_name(to));
        }
    }
}

/* A row of letters per state, in their order: what it may become. */
Test(plan_state, every_pair_in_the_engine)
{
    static const char *const becomes[ENGINE_PLAN_STATES] = {
        [ENGINE_PLAN_OPEN] = ".RPBL",    [ENGINE_PLAN_RESTING] = "..PBL",
        [ENGINE_PLAN_PAUSED] = "O.PBL",  [ENGINE_PLAN_BROKEN] = "....L",
        [ENGINE_PLAN_LEAVING] = ".....",
    };
    for (int from = 0; from <= ENGINE_PLAN_STATES; from++)
        for (int to = 0; to <= ENGINE_PLAN_STATES; to++)
            cr_assert_eq(engine_plan_legal(from, to),
                         from < ENGINE_PLAN_STATES && to < ENGINE_PLAN_STATES &&
                             becomes[from][to] != '.',
                         "%d to %d", from, to);
}

Test(plan_state, names)
{
    for (int state = 0; state < PLAN_STATES; state++)
        cr_assert(strlen(plan_state_name(state)) > 1);
    cr_assert_str_eq(plan_state_name(PLAN_STATES), "?");
}
