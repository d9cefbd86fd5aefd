/* Recall of keys, with holders that answer, are silent, leave, come and are cut off; in virtual
 * time. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "drivers/recall.h"

enum {
    HOLDERS = 4,
    KEYS = 200,
    MANY = 3,
    DELAY = 10,
    AGAIN = 100,
    AGAIN_MAX = 400,
    DEADLINE = 5000
};

struct key {
    struct recall_key recall; /* first */
    unsigned held_by;         /* a bit per holder */
    unsigned freed;
    pid_t freed_in;
};

static struct recall recall;
static struct recall_holder holders[HOLDERS];
static struct key keys[KEYS];
static unsigned key_count;
static uint64_t now;

/* What was sent to each. */
static unsigned asked[HOLDERS], named[HOLDERS];
static uint64_t last[HOLDERS];
static unsigned refuses, cut; /* bits: send() returns -EAGAIN; was cut off */

static unsigned index_of(const struct recall_holder *holder)
{
    return (unsigned)(holder - holders);
}

static bool holds(void *context, const struct recall_holder *holder, const struct recall_key *key)
{
    return ((const struct key *)key)->held_by >> index_of(holder) & 1;
}

static int send(void *context, struct recall_holder *holder, struct recall_key *const *sent,
                unsigned count, uint64_t number)
{
    const unsigned i = index_of(holder);
    if (refuses >> i & 1)
        return -EAGAIN;
    for (unsigned k = 0; k < count; k++)
        cr_assert(holds(context, holder, sent[k]) && sent[k]->number <= number);
    cr_assert(count <= MANY);
    asked[i]++;
    named[i] += count;
    last[i] = number;
    return 0;
}

static void cut_off(void *context, struct recall_holder *holder)
{
    cut |= 1u << index_of(holder);
}

static void release(void *context, struct recall_key *key)
{
    ((struct key *)key)->freed++;
    ((struct key *)key)->freed_in = gettid();
}

static const struct recall_driver lossy = {.holds = holds,
                                           .send = send,
                                           .cut_off = cut_off,
                                           .free = release,
                                           .many = MANY,
                                           .delay_ns = DELAY,
                                           .again_ns = AGAIN,
                                           .again_max_ns = AGAIN_MAX,
                                           .deadline_ns = DEADLINE},
                                  reliable = {.holds = holds,
                                              .send = send,
                                              .cut_off = cut_off,
                                              .free = release,
                                              .many = MANY,
                                              .deadline_ns = DEADLINE},
                                  no_cut = {.holds = holds,
                                            .send = send,
                                            .free = release,
                                            .many = MANY,
                                            .again_ns = AGAIN,
                                            .again_max_ns = AGAIN_MAX};

static void open_recall(const struct recall_driver *driver, unsigned joined)
{
    now = 1000;
    cr_assert(recall_init(&recall, driver, NULL, 0, -1) == 0);
    for (unsigned i = 0; i < joined; i++)
        recall_join(&recall, &holders[i]);
    recall_run(&recall, now);
}

static struct key *begin(unsigned held_by)
{
    struct key *key = &keys[key_count++];
    key->held_by = held_by;
    recall_begin(&recall, &key->recall, now);
    return key;
}

static void pass(uint64_t ns)
{
    now += ns;
    recall_run(&recall, now);
}

static void answer(unsigned i)
{
    recall_ack(&recall, &holders[i], last[i]);
}

Test(recall, a_key_that_nobody_holds)
{
    open_recall(&lossy, 2);
    cr_assert(begin(0)->freed == 1 && !recall_is_busy(&recall));
    cr_assert(begin(4)->freed == 1, "of one that has not joined");
    recall_deinit(&recall);
}

Test(recall, waits_for_those_that_hold_it)
{
    open_recall(&lossy, 3);
    struct key *both = begin(3), *second = begin(2);
    pass(DELAY - 1);
    cr_assert(asked[0] + asked[1] == 0);
    pass(1);
    cr_assert(asked[0] == 1 && named[0] == 1 && asked[1] == 1 && named[1] == 2 && asked[2] == 0);
    answer(1);
    cr_assert(both->freed == 0 && second->freed == 1, "it waits for its own holders only");
    answer(0);
    cr_assert(both->freed == 1 && !recall_is_busy(&recall));
    recall_deinit(&recall);
}

Test(recall, many_keys_in_messages_of_a_few)
{
    open_recall(&reliable, 1);
    for (unsigned i = 0; i < 100; i++)
        begin(i % 2 ? 1 : 3);
    for (unsigned i = 0; i < 34; i++) {
        cr_assert(recall_is_busy(&recall));
        pass(1);
        cr_assert(asked[0] == i + 1, "a reliable message is not repeated");
        pass(1);
        cr_assert(asked[0] == i + 1);
        answer(0);
    }
    for (unsigned i = 0; i < 100; i++)
        cr_assert(keys[i].freed == 1);
    cr_assert(!recall_is_busy(&recall));
    recall_deinit(&recall);
}

Test(recall, nobody_confirms_what_it_was_not_asked)
{
    open_recall(&lossy, 1);
    struct key *key = begin(1);
    recall_ack(&recall, &holders[0], key->recall.number);
    cr_assert(key->freed == 0, "before it was asked");
    pass(DELAY);
    struct key *next = begin(1);
    recall_ack(&recall, &holders[0], next->recall.number);
    cr_assert(key->freed == 0 && next->freed == 0, "more than it was asked");
    recall_ack(&recall, &holders[0], 0);
    recall_ack(&recall, &holders[1], key->recall.number);
    cr_assert(key->freed == 0);
    answer(0);
    answer(0);
    cr_assert(key->freed == 1 && next->freed == 0);
    recall_deinit(&recall);
    cr_assert(next->freed == 1);
}

Test(recall, asks_again_at_growing_intervals)
{
    open_recall(&no_cut, 1);
    begin(1);
    pass(0);
    for (unsigned i = 0; i < 20; i++) {
        const uint64_t period = i == 0 ? AGAIN : i == 1 ? 2 * AGAIN : AGAIN_MAX;
        cr_assert(asked[0] == i + 1 && recall_due_ns(&recall) == now + period);
        pass(period - 1);
        cr_assert(asked[0] == i + 1);
        pass(1);
    }
    answer(0);
    cr_assert(recall_due_ns(&recall) == UINT64_MAX);
    recall_deinit(&recall);
}

/* Without time for more than one message, so that only the deadline counts. */
static void keep_silent(uint64_t ns)
{
    for (uint64_t passed = 0; passed < ns; passed += AGAIN)
        pass(AGAIN);
}

Test(recall, the_silent_are_cut_off)
{
    open_recall(&lossy, 2);
    struct key *key = begin(3), *own = begin(2);
    keep_silent(DEADLINE / 2);
    answer(1);
    cr_assert(own->freed == 1);
    keep_silent(DEADLINE / 2 - AGAIN);
    cr_assert(key->freed == 0 && cut == 0);
    keep_silent(DELAY + 2 * AGAIN);
    cr_assert(key->freed == 1 && cut == 1, "the other one has answered");
    cr_assert(begin(1)->freed == 1, "nothing waits for who is cut off");
    const unsigned before = asked[0];
    keep_silent(2 * DEADLINE);
    cr_assert(asked[0] == before && !recall_is_busy(&recall));
    recall_deinit(&recall);
}

/* A holder whose messages are not even accepted is as silent. */
Test(recall, the_deaf_are_cut_off)
{
    open_recall(&reliable, 1);
    struct key *key = begin(1);
    refuses = 1;
    pass(1);
    cr_assert(recall_due_ns(&recall) <= now, "it is tried again");
    keep_silent(DEADLINE + 2 * AGAIN);
    cr_assert(key->freed == 1 && cut == 1 && asked[0] == 0);
    recall_deinit(&recall);
}

Test(recall, who_was_cut_off_returns)
{
    open_recall(&lossy, 1);
    begin(1);
    keep_silent(DEADLINE + 2 * AGAIN);
    const struct key *later = begin(1);
    cr_assert(cut == 1 && later->freed == 1);
    cr_assert(!recall_admits(&recall, &holders[0]), "it owes a confirmation");
    const unsigned before = named[0];
    pass(1);
    cr_assert(last[0] == later->recall.number && named[0] == before, "of all, not of keys");
    cr_assert(!recall_ack(&recall, &holders[0], later->recall.number - 1), "of too few");
    cr_assert(!recall_ack(&recall, &holders[0], later->recall.number + 1), "of too many");
    cr_assert(!recall_admits(&recall, &holders[0]));
    cr_assert(recall_ack(&recall, &holders[0], later->recall.number));
    cr_assert(recall_admits(&recall, &holders[0]) && !recall_is_busy(&recall));
    const struct key *next = begin(1);
    cr_assert(next->freed == 0, "it holds keys again");
    pass(DELAY);
    answer(0);
    cr_assert(next->freed == 1);
    recall_deinit(&recall);
}

/* It is not asked for ever. */
Test(recall, who_returns_falls_silent_again)
{
    open_recall(&lossy, 1);
    begin(1);
    keep_silent(DEADLINE + 2 * AGAIN);
    recall_admits(&recall, &holders[0]);
    cr_assert(recall_is_busy(&recall));
    keep_silent(DEADLINE + 2 * AGAIN);
    cr_assert(holders[0].state == RECALL_CUT_OFF && !recall_is_busy(&recall));
    recall_deinit(&recall);
}

Test(recall, the_mute_hold_up_and_are_not_cut_off)
{
    open_recall(&lossy, 1);
    struct key *key = begin(1);
    recall_mute(&recall, &holders[0]);
    keep_silent(3 * DEADLINE);
    cr_assert(asked[0] == 0 && key->freed == 0 && cut == 0);
    recall_join(&recall, &holders[0]);
    pass(1);
    cr_assert(asked[0] == 1);
    answer(0);
    cr_assert(key->freed == 1);
    recall_deinit(&recall);
}

Test(recall, who_leaves_and_who_comes)
{
    open_recall(&lossy, 2);
    struct key *key = begin(7);
    pass(DELAY);
    recall_join(&recall, &holders[2]); /* it may have the key, too */
    answer(0);
    recall_leave(&recall, &holders[1]);
    recall_leave(&recall, &holders[1]);
    cr_assert(key->freed == 0);
    pass(DELAY);
    answer(2);
    cr_assert(key->freed == 1 && holders[1].state == RECALL_OUT);
    recall_deinit(&recall);
}

/* Who was not there could not hear the answer. */
Test(recall, who_is_late_does_not_blame_the_others)
{
    open_recall(&lossy, 1);
    struct key *key = begin(1);
    pass(DELAY);
    pass(UINT64_C(100) * 1000 * 1000 * 1000);
    cr_assert(cut == 0 && key->freed == 0);
    answer(0);
    cr_assert(key->freed == 1);
    recall_deinit(&recall);
}

Test(recall, wakes_the_polling_thread)
{
    struct pollfd event = {.events = POLLIN};
    open_recall(&lossy, 1);
    event.fd = recall.fd;
    begin(2);
    cr_assert(poll(&event, 1, 0) == 0);
    begin(1);
    begin(1);
    cr_assert(poll(&event, 1, 0) == 1 && recall_is_busy(&recall));
    pass(0);
    cr_assert(poll(&event, 1, 0) == 0);
    begin(1);
    cr_assert(poll(&event, 1, 0) == 1);
    recall_leave(&recall, &holders[0]);
    cr_assert(recall_is_busy(&recall), "the descriptor is to be read");
    pass(0);
    cr_assert(poll(&event, 1, 0) == 0 && !recall_is_busy(&recall));
    recall_deinit(&recall);
}

Test(recall, another_thread_frees)
{
    open_recall(&lossy, 1);
    cr_assert(recall_start_thread(&recall, "test-recall") == 0);
    struct key *key = begin(1), *none = begin(0), *kept = begin(1);
    pass(DELAY);
    recall_ack(&recall, &holders[0], key->recall.number);
    recall_stop_thread(&recall);
    cr_assert(key->freed == 1 && key->freed_in != gettid());
    cr_assert(none->freed == 1 && none->freed_in != gettid());
    cr_assert(kept->freed == 0);
    recall_leave(&recall, &holders[0]);
    cr_assert(kept->freed == 1 && kept->freed_in == gettid(), "there is no thread any more");
    recall_deinit(&recall);
}

Test(recall, legal_transitions)
{
    unsigned ways_out[RECALL_STATES] = {0}, ways_in[RECALL_STATES] = {0};
    for (unsigned from = 0; from < RECALL_STATES; from++)
        for (unsigned to = 0; to < RECALL_STATES; to++) {
            ways_out[from] += recall_legal[from][to];
            ways_in[to] += recall_legal[from][to];
        }
    for (unsigned i = 0; i < RECALL_STATES; i++) {
        cr_assert(!recall_legal[i][i] && ways_out[i] > 0 && ways_in[i] > 0);
        cr_assert(i == RECALL_OUT || recall_legal[i][RECALL_OUT], "whoever leaves may leave");
    }
    cr_assert(!recall_legal[RECALL_MUTE][RECALL_CUT_OFF]);
}
