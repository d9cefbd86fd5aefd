/* The states of pairs: which may follow which, and what becomes of a pair that is opened from both
 * sides. */
#include <criterion/criterion.h>

#include "daemon/bindings/pairs.h"

/* The ways from new to up, and from up to up again. */
Test(pair_state, table)
{
    static const enum pair_state ways[][6] = {
        {PAIR_NEW, PAIR_EXPECTS, PAIR_NAMED, PAIR_UP},
        {PAIR_NEW, PAIR_EXPECTS, PAIR_UP}, /* whoever has a number and its secret was told */
        {PAIR_NEW, PAIR_DIALS, PAIR_UP},
        {PAIR_NEW, PAIR_OFFERS, PAIR_OFFERED, PAIR_UP},
        {PAIR_NEW, PAIR_EXPECTS, PAIR_NAMED, PAIR_ANSWERS, PAIR_UP},
        {PAIR_NEW, PAIR_EXPECTS, PAIR_ANSWERS, PAIR_UP},
        /* opened from both sides */
        {PAIR_NEW, PAIR_EXPECTS, PAIR_DIALS, PAIR_UP},
        {PAIR_NEW, PAIR_EXPECTS, PAIR_OFFERS, PAIR_OFFERED, PAIR_UP},
        {PAIR_NEW, PAIR_EXPECTS, PAIR_NAMED, PAIR_DIALS, PAIR_UP},
        {PAIR_NEW, PAIR_EXPECTS, PAIR_NAMED, PAIR_OFFERS, PAIR_OFFERED, PAIR_UP},
        /* another connection, which may break before it is there */
        {PAIR_UP, PAIR_NAMED, PAIR_NAMED, PAIR_UP},
        {PAIR_UP, PAIR_DIALS, PAIR_UP},
        {PAIR_UP, PAIR_OFFERS, PAIR_OFFERED, PAIR_UP},
    };
    unsigned next[PAIR_STATES] = {0};
    for (unsigned way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
        for (unsigned i = 0; i == 0 || ways[way][i] != PAIR_UP; i++)
            next[ways[way][i]] |= 1u << ways[way][i + 1];
    for (unsigned state = 0; state < PAIR_STATES; state++)
        cr_assert_eq(pair_states[state].next, next[state], "%s", pair_states[state].name);
}

/* Two nodes that name a connection of their own to each other, in any two states that they can be
 * in at that time: exactly one of them dials, and both mean the same connection. */
Test(pair_state, both_sides)
{
    for (enum pair_state lower = PAIR_EXPECTS; lower <= PAIR_NAMED; lower++)
        for (enum pair_state higher = PAIR_EXPECTS; higher <= PAIR_NAMED; higher++) {
            const bool lower_hears = higher == PAIR_NAMED, higher_hears = lower == PAIR_NAMED;
            const bool lower_dials = lower_hears && pair_states[lower].lower == PAIR_YIELDS,
                       higher_dials = higher_hears && pair_states[higher].higher == PAIR_YIELDS;
            if (lower_hears || higher_hears)
                cr_assert(lower_dials != higher_dials, "%s, %s", pair_states[lower].name,
                          pair_states[higher].name);
            else
                cr_assert(!lower_dials && !higher_dials);
        }
    /* who dials already has heard of the other's, and may get the answer to an older request */
    for (unsigned state = 0; state < PAIR_STATES; state++)
        if (state != PAIR_EXPECTS && state != PAIR_NAMED)
            cr_assert(pair_states[state].lower == PAIR_KEEPS &&
                      pair_states[state].higher == PAIR_IMPOSSIBLE);
}
