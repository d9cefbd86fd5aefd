/* When a lost rail counts as good again: times are numbers, the test does not wait. */
#include "daemon/rails/comeback.h"

#include <criterion/criterion.h>

enum { HOLD = 1000 };

static uint64_t now;

static enum comeback_state look(struct comeback *comeback, bool leads)
{
    return comeback_look(comeback, leads, now, HOLD);
}

/* How long a rail that leads there again is held back before a request is sent over it. */
static uint64_t held(struct comeback *comeback)
{
    const uint64_t since = ++now;
    while (look(comeback, true) == COMEBACK_AWAY)
        now++;
    cr_assert(look(comeback, true) == COMEBACK_PROVE);
    return now - since;
}

static void lose(struct comeback *comeback)
{
    look(comeback, false);
    comeback_lost(comeback, ++now);
}

Test(comeback, held_and_then_asked)
{
    struct comeback comeback = {0};
    now = 1;
    cr_assert(look(&comeback, false) == COMEBACK_AWAY);
    cr_assert_eq(held(&comeback), HOLD);
    comeback_asked(&comeback);
    cr_assert(look(&comeback, true) == COMEBACK_AWAY, "it is asked once");
    comeback_answered(&comeback, true);
    cr_assert(look(&comeback, true) == COMEBACK_BACK);
}

Test(comeback, twice_as_long_for_each_loss)
{
    struct comeback comeback = {0};
    now = 1;
    cr_assert_eq(held(&comeback), HOLD, "never lost, only out of reach");
    for (unsigned losses = 1; losses < 12; losses++) {
        lose(&comeback);
        const unsigned doublings =
            losses - 1 < COMEBACK_DOUBLINGS_MAX ? losses - 1 : COMEBACK_DOUBLINGS_MAX;
        cr_assert_eq(held(&comeback), (uint64_t)HOLD << doublings, "loss %u", losses);
    }
    now += COMEBACK_FORGET_NS;
    lose(&comeback);
    cr_assert_eq(held(&comeback), HOLD, "the others are long ago");
    lose(&comeback);
    cr_assert_eq(held(&comeback), 2 * HOLD, "but that one is not");
}

/* Each loss starts the wait anew. */
Test(comeback, a_cable_that_flaps)
{
    struct comeback comeback = {0};
    now = 1;
    for (unsigned i = 0; i < 20; i++) {
        look(&comeback, true);
        now += HOLD - 1;
        cr_assert(look(&comeback, true) == COMEBACK_AWAY);
        cr_assert(look(&comeback, false) == COMEBACK_AWAY);
        now += 10 * HOLD;
    }
    cr_assert_eq(held(&comeback), HOLD);
}

Test(comeback, no_answer)
{
    struct comeback comeback = {0};
    now = 1;
    for (unsigned i = 0; i < 3; i++) {
        cr_assert_eq(held(&comeback), HOLD, "from the beginning");
        comeback_asked(&comeback);
        comeback_answered(&comeback, false);
    }
    /* The rail is lost during the request: the reply does not count. */
    cr_assert_eq(held(&comeback), HOLD);
    comeback_asked(&comeback);
    cr_assert(look(&comeback, false) == COMEBACK_AWAY);
    comeback_answered(&comeback, true);
    cr_assert_eq(held(&comeback), HOLD, "and it is asked again");
}

Test(comeback, lost_after_it_was_back)
{
    struct comeback comeback = {0};
    now = 1;
    held(&comeback);
    comeback_asked(&comeback);
    comeback_answered(&comeback, true);
    cr_assert(look(&comeback, true) == COMEBACK_BACK);
    lose(&comeback);
    cr_assert_eq(held(&comeback), HOLD, "the first loss");
    cr_assert(look(&comeback, true) == COMEBACK_PROVE, "and it has to answer again");
}
