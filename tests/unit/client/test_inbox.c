/*
 * Notices between a sender (rank 1) and a receiver (rank 0), both here: notifications of failed
 * starts are counted exactly once.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>

#include "client/compat/memory.h"
#include "client/compat/notice.h"
#include "client/compat/program.h"
#include "client/compat/turn.h"

enum { SENDER = 1, PLACES = 8, SLOT = 3, TAG = 7, A_CHAIN = 11, OTHER_CHAIN = 22 };

/* ---- what lies below: the receiver's table, its notifications, and no progress by itself */

struct compat compat = {.rank = 0, .size = 2};
static struct notice table[PLACES];
static _Atomic uint64_t taken[PLACES];
static unsigned notifications, waits;
static int ended; /* why none comes any more */

uint32_t notices_per_process(void)
{
    return PLACES;
}

struct notice *notices_from(uint32_t rank)
{
    cr_assert(rank == SENDER);
    return table;
}

const _Atomic uint64_t *taken_at(uint32_t rank)
{
    (void)rank;
    return taken;
}

struct tca_handle notices_at(uint32_t rank)
{
    (void)rank;
    return (struct tca_handle){0};
}

uint64_t taken_offset(uint32_t rank)
{
    (void)rank;
    return 0;
}

int tca_notified(struct tca *session, uint32_t rank, uint32_t slot)
{
    (void)session;
    cr_assert(rank == SENDER && slot == NOTIFY_NOTICE);
    return notifications > 0 ? (notifications--, 1) : ended;
}

int tca_notified_wait(struct tca *session, uint32_t rank, uint32_t slot, int64_t timeout_ns)
{
    (void)timeout_ns;
    waits++;
    cr_assert(waits < 10000, "it waits for ever");
    const int r = tca_notified(session, rank, slot);
    return r > 0 ? 0 : r < 0 ? r : -ETIMEDOUT;
}

int64_t turn_pass(void)
{
    return 20 * 1000 * 1000;
}

bool programs_trim(void)
{
    return false;
}

tcaresult compat_fail(tcaresult result, const char *format, ...)
{
    (void)format;
    return result;
}

tcaresult compat_fail_errno(int error, const char *what)
{
    (void)what;
    return error == -EOWNERDEAD ? TCA_ERROR_PEER_LOST : TCA_ERROR_SYSTEM;
}

/* The sender need not know what was taken: it has slots enough. */
int tca_alloc(struct tca *session, uint64_t bytes, void **ret_memory)
{
    (void)session, (void)bytes, (void)ret_memory;
    return -ENOMEM;
}

int tca_free(struct tca *session, void *memory)
{
    (void)session, (void)memory;
    return 0;
}

int tca_plan_new(struct tca *session, const struct tca_plan_args *args, struct tca_plan **ret_plan)
{
    (void)session, (void)args, (void)ret_plan;
    return -ENOMEM;
}

int tca_plan_put(struct tca_plan *plan, const struct tca_put *put)
{
    (void)plan, (void)put;
    return -ENOMEM;
}

int tca_plan_notify(struct tca_plan *plan, uint32_t rank, uint32_t slot)
{
    (void)plan, (void)rank, (void)slot;
    return -ENOMEM;
}

int tca_plan_commit(struct tca_plan *plan, int64_t timeout_ns)
{
    (void)plan, (void)timeout_ns;
    return -ENOMEM;
}

struct tca_plan *tca_plan_free(struct tca_plan *plan)
{
    return plan;
}

int tca_start(struct tca_plan *plan)
{
    (void)plan;
    return -ENOMEM;
}

int tca_test(struct tca_plan *plan)
{
    (void)plan;
    return 1;
}

/* ---- what starts do ---- */

static struct place place;

static struct place place_of(int slot, int tag)
{
    struct place made;
    cr_assert(place_take(SENDER, 0, slot, tag, &made) == TCA_SUCCESS);
    return made;
}

static void setup(void)
{
    place = place_of(SLOT, TAG);
}

static void arrive(struct place at, const struct notice *notice)
{
    table[at.index] = *notice;
    notifications++;
}

enum outcome { GOOD, FAILED_THERE, FAILED_NOT_THERE, REFUSED };

/* A start of a chain with one notice. */
static void start(struct place at, uint64_t chain, enum outcome outcome)
{
    place_begin(at, chain);
    const struct notice notice = place_next(at);
    if (outcome == REFUSED) {
        place_undo(at);
        return;
    }
    if (outcome != FAILED_NOT_THERE)
        arrive(at, &notice);
    if (outcome != GOOD)
        place_doubt(at, chain);
}

static const char *told = ""; /* which history this is */

static void check_gets(unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        cr_assert(inbox_wait(SENDER, SLOT, TAG) == TCA_SUCCESS, "%snotification %u of %u", told, i,
                  count);
    cr_assert(inbox_test(SENDER, SLOT, TAG) == TCA_ERROR_NOT_READY, "%sone more than %u", told,
              count);
}

TestSuite(inbox, .init = setup, .timeout = 30);

/*
 * Histories of one place. A letter is a start of the chain of that name: alone it is good, with !
 * it fails and has arrived, with ? it fails and has not, with - it is refused, with ~ its notice
 * arrives, and the data before it need not have: + is its notification. A digit: so many
 * notifications can be taken. w: one is taken by waiting.
 */
struct history {
    char name[40], steps[24];
};

ParameterizedTestParameters(inbox, histories)
{
    static struct history histories[] = {
        {"each once", "0 A 1 C D E F G 5"},
        {"seen before it was notified of", "A 1 A~ 0 + 1"},
        {"failed and did not arrive",
         "A? B 1 B 1"},                     /* the receiver finds out with the next chain */
        {"failed and arrived", "A! 1 B 1"}, /* whatever the sender thinks */
        {"failed and arrived unseen", "A! B 2"},
        {"arrived and then late", "A! B 2 B~ w + 0 B 1"}, /* resolved doubts stay resolved */
        {"repeated and then late", "A! A 1 A~ 0 + 1"}, /* the second one is not the next notice's */
        {"repeated after it arrived", "A! A 1 A 1"},   /* repeating a start keeps its number */
        {"repeated after it was taken", "A! 1 A 0 B 1"},
        {"repeated after it did not arrive", "A? A? A 1 A 1"},
        {"repeated in vain", "A! 1 A- B 1"}, /* its number is not free for another chain's */
        {"refused", "A- 0 B 1"},
    };
    return cr_make_param_array(struct history, histories, sizeof(histories) / sizeof(histories[0]));
}

ParameterizedTest(struct history *history, inbox, histories)
{
    char text[sizeof(*history) + 8];
    snprintf(text, sizeof(text), "%s, %s: ", history->name, history->steps);
    told = text;
    for (const char *step = history->steps; *step; step++)
        if (isupper((unsigned char)*step)) {
            start(place, (uint64_t)*step,
                  step[1] == '!'   ? FAILED_THERE
                  : step[1] == '?' ? FAILED_NOT_THERE
                  : step[1] == '-' ? REFUSED
                                   : GOOD);
            notifications -= step[1] == '~';
        } else if (isdigit((unsigned char)*step)) {
            check_gets((unsigned)(*step - '0'));
        } else if (*step == 'w') {
            cr_assert(inbox_wait(SENDER, SLOT, TAG) == TCA_SUCCESS, "believed after a while");
        } else {
            notifications += *step == '+';
        }
}

Test(inbox, other_slots_and_tags_are_others)
{
    const struct place others[] = {place_of(SLOT, TAG + 1), place_of(SLOT + 1, TAG)};
    start(others[0], A_CHAIN, GOOD);
    start(others[1], A_CHAIN, GOOD);
    check_gets(0);
    start(place, A_CHAIN, GOOD);
    check_gets(1);
    cr_assert(inbox_wait(SENDER, SLOT, TAG + 1) == TCA_SUCCESS);
    cr_assert(inbox_wait(SENDER, SLOT + 1, TAG) == TCA_SUCCESS);
}

Test(inbox, half_written)
{
    start(place, A_CHAIN, GOOD);
    const struct notice whole = table[place.index];
    table[place.index].key = notice_key(0, SLOT + 1, TAG);
    cr_assert(inbox_test(SENDER, SLOT + 1, TAG) == TCA_ERROR_NOT_READY);
    check_gets(0);
    table[place.index] = whole;
    check_gets(1);
}

/* Doubts of one place are not resolved by another's notifications. */
Test(inbox, doubts_of_one_of_two_places)
{
    const struct place other = place_of(SLOT + 1, TAG);
    start(other, A_CHAIN, GOOD);
    start(place, A_CHAIN, FAILED_NOT_THERE);
    start(place, OTHER_CHAIN, GOOD);
    start(other, OTHER_CHAIN, GOOD);
    check_gets(1);
    for (unsigned i = 0; i < 2; i++)
        cr_assert(inbox_wait(SENDER, SLOT + 1, TAG) == TCA_SUCCESS);
    cr_assert(inbox_test(SENDER, SLOT + 1, TAG) == TCA_ERROR_NOT_READY);
}

/* It is unknown whose notification has come: none is reported that may not have arrived. */
static void one_of_two_came(bool first)
{
    const struct place other = place_of(SLOT + 1, TAG);
    start(place, A_CHAIN, first ? FAILED_THERE : FAILED_NOT_THERE);
    start(other, A_CHAIN, first ? FAILED_NOT_THERE : FAILED_THERE);
    start(place, OTHER_CHAIN, GOOD);
    start(other, OTHER_CHAIN, GOOD);
    for (unsigned i = 0; i < 3; i++) { /* and it stays so */
        check_gets(1);
        cr_assert(inbox_wait(SENDER, SLOT + 1, TAG) == TCA_SUCCESS);
        cr_assert(inbox_test(SENDER, SLOT + 1, TAG) == TCA_ERROR_NOT_READY,
                  "one that did not come");
        start(place, OTHER_CHAIN, GOOD);
        start(other, OTHER_CHAIN, GOOD);
    }
}

Test(inbox, doubts_of_two_places_the_first_came)
{
    one_of_two_came(true);
}

Test(inbox, doubts_of_two_places_the_second_came)
{
    one_of_two_came(false);
}

Test(inbox, doubts_of_two_places_both_or_none_came)
{
    const struct place other = place_of(SLOT + 1, TAG);
    for (unsigned came = 0; came < 2; came++) {
        start(place, A_CHAIN, came ? FAILED_THERE : FAILED_NOT_THERE);
        start(other, A_CHAIN, came ? FAILED_THERE : FAILED_NOT_THERE);
        start(place, OTHER_CHAIN, GOOD);
        start(other, OTHER_CHAIN, GOOD);
        check_gets(1 + came);
        for (unsigned i = 0; i < 1 + came; i++)
            cr_assert(inbox_wait(SENDER, SLOT + 1, TAG) == TCA_SUCCESS);
        cr_assert(inbox_test(SENDER, SLOT + 1, TAG) == TCA_ERROR_NOT_READY);
    }
}

/* Once the sender has ended, waiting ends. */
Test(inbox, sender_has_ended)
{
    start(place, A_CHAIN, GOOD);
    start(place, A_CHAIN, FAILED_NOT_THERE);
    ended = -EOWNERDEAD;
    cr_assert(inbox_wait(SENDER, SLOT, TAG) == TCA_SUCCESS);
    cr_assert(inbox_wait(SENDER, SLOT, TAG) == TCA_ERROR_PEER_LOST);
    cr_assert(inbox_test(SENDER, SLOT, TAG) == TCA_ERROR_PEER_LOST);
}

/* A long history, compared with a sequential reference. */
Test(inbox, random_history)
{
    unsigned owed = 0;
    srand(1);
    for (unsigned i = 0; i < 3000; i++) {
        const unsigned choice = (unsigned)rand() % 8;
        const enum outcome outcome = choice < 5    ? GOOD
                                     : choice == 5 ? REFUSED
                                     : choice == 6 ? FAILED_THERE
                                                   : FAILED_NOT_THERE;
        start(place, i, outcome); /* each is another chain */
        owed += outcome == GOOD || outcome == FAILED_THERE;
        waits = 0;
        if (rand() % 4 == 0 && outcome == GOOD) {
            check_gets(owed);
            owed = 0;
        }
    }
    start(place, A_CHAIN, GOOD);
    check_gets(owed + 1);
}
