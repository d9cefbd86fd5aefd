/* Announced receives: what the sender works out against the receiver's own matching, which is MPI's
 * rule played on lists. One thread in random order, and two that run at the same time. */
#include "client/msg/announce.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "tests/unit/proto/random.h"

enum {
    SENDER = 0,
    OTHER = 1, /* a rank that sends, too, but gets no announcements */
    WAITING_MAX = 200,
    RING = 16, /* messages that are not processed */
    STEPS = 400000,
    THREAD_MESSAGES = 50000,
};

struct packet {
    struct match_key key;
    bool told;
    uint32_t word;
};

struct receive {
    struct match_key key; /* rank: SENDER or MATCH_ANY */
    int word;             /* -1: not announced */
};

/* The stream of the sender's messages. */
static struct packet ring[RING];
static _Atomic uint32_t sent, processed;
static struct announce_page page;
static struct forecast forecast;
static struct announcer announcer;

/* ---- the receiver */

static struct receive receives[WAITING_MAX];
static struct match_key early[WAITING_MAX];
static uint32_t receive_count, early_count, told_count, withdrawn_count, refused_count,
    passed_count;

static bool takes(struct match_key receive, struct match_key message)
{
    return receive.context == message.context &&
           (receive.rank == MATCH_ANY || receive.rank == message.rank) &&
           (receive.tag == MATCH_ANY || receive.tag == message.tag);
}

static void remove_receive(uint32_t i)
{
    memmove(&receives[i], &receives[i + 1], (--receive_count - i) * sizeof(receives[0]));
}

static uint32_t find_receive(struct match_key message)
{
    uint32_t i = 0;
    while (i < receive_count && !takes(receives[i].key, message))
        i++;
    return i;
}

static void announce_all(void)
{
    for (uint32_t i = 0; i < receive_count; i++) {
        if (receives[i].key.rank == MATCH_ANY)
            return;
        if (receives[i].word >= 0)
            continue;
        const struct announcement announcement = {
            .context = receives[i].key.context, .tag = receives[i].key.tag, .seen = processed};
        receives[i].word = announce_make(&announcer, &announcement);
        if (receives[i].word < 0)
            return;
    }
}

static void post(struct random *random)
{
    const bool any = random_below(random, 40) == 0, any_tag = random_below(random, 4) == 0;
    const struct match_key key = {(uint32_t)random_below(random, 2), any ? MATCH_ANY : SENDER,
                                  any_tag ? MATCH_ANY : (uint32_t)random_below(random, 3)};
    uint32_t i = 0;
    while (i < early_count && !takes(key, early[i]))
        i++;
    if (i < early_count)
        memmove(&early[i], &early[i + 1], (--early_count - i) * sizeof(early[0]));
    else if (receive_count < WAITING_MAX)
        receives[receive_count++] = (struct receive){key, -1};
    if (random_below(random, 3) > 0) /* otherwise later */
        announce_all();
}

static void process(void)
{
    if (processed == atomic_load_explicit(&sent, memory_order_acquire))
        return;
    const struct packet packet = ring[(processed + 1) % RING];
    const uint32_t i = find_receive(packet.key);
    if (packet.told) {
        cr_assert_lt(i, receive_count, "a message to a receive that is not posted");
        cr_assert_eq(receives[i].word, (int)packet.word, "a message to another receive");
        announce_end(&announcer, packet.word, true);
        told_count++;
        remove_receive(i);
    } else if (i < receive_count) {
        if (receives[i].word >= 0)
            announce_end(&announcer, (uint32_t)receives[i].word, false);
        remove_receive(i);
    } else if (early_count < WAITING_MAX) {
        early[early_count++] = packet.key;
    }
    atomic_store_explicit(&processed, processed + 1, memory_order_release);
}

static void other_sends(struct random *random)
{
    const struct match_key key = {(uint32_t)random_below(random, 2), OTHER,
                                  (uint32_t)random_below(random, 3)};
    const uint32_t i = find_receive(key);
    if (i < receive_count)
        remove_receive(i);
}

static void withdraw(struct random *random)
{
    if (receive_count == 0)
        return;
    const uint32_t i = (uint32_t)random_below(random, receive_count);
    if (receives[i].word >= 0 && !announce_withdraw(&announcer, (uint32_t)receives[i].word)) {
        refused_count++;
        return; /* a message is coming */
    }
    withdrawn_count++;
    remove_receive(i);
}

static void receiver_step(struct random *random)
{
    const uint64_t what = random_below(random, 100);
    if (what < 42)
        post(random);
    else if (what < 80)
        process();
    else if (what < 86)
        withdraw(random);
    else
        other_sends(random);
}

/* ---- the sender */

/* seen_processed: how many were processed, found out some time ago. */
static void send_one(struct random *random, uint32_t seen_processed)
{
    const struct match_key key = {(uint32_t)random_below(random, 2), SENDER,
                                  (uint32_t)random_below(random, 3)};
    struct announcement announcement;
    struct packet packet = {.key = key};
    const uint32_t number = sent + 1;
    const bool passed = random_below(random, 2) && forecast_pass(&forecast, key, number);
    cr_assert_eq(passed ? 0 : forecast_read(&forecast, seen_processed), 0);
    if (passed) {
        passed_count++;
    } else if (!forecast_claim(&forecast, key, &announcement)) {
        forecast_sent(&forecast, key, number);
    } else if (random_below(random, 3) > 0) { /* otherwise it is short */
        packet.told = true;
        packet.word = announcement.word;
    }
    ring[number % RING] = packet;
    atomic_store_explicit(&sent, number, memory_order_release);
}

static void reset(void)
{
    memset(&page, 0, sizeof(page));
    forecast = (struct forecast){.page = &page};
    announcer = (struct announcer){.page = &page};
    sent = processed = 0xffffff00u; /* they wrap */
    receive_count = early_count = told_count = withdrawn_count = refused_count = passed_count = 0;
}

Test(announce, any_order)
{
    for (uint64_t seed = 1; seed <= 4; seed++) {
        struct random random = {seed};
        reset();
        uint32_t seen = processed;
        for (uint32_t step = 0; step < STEPS; step++) {
            if (random_below(&random, 3) == 0)
                seen = processed;
            if (random_below(&random, 100) < 35 && sent - processed < RING)
                send_one(&random, seen);
            else
                receiver_step(&random);
        }
        cr_expect_gt(told_count, STEPS / 20, "told %u", told_count);
        cr_expect_gt(withdrawn_count, STEPS / 100, "withdrawn %u", withdrawn_count);
        cr_expect_gt(refused_count, 10u, "refused %u", refused_count);
        cr_expect_gt(passed_count, 100u, "passed %u", passed_count);
    }
}

static void *sender(void *context)
{
    struct random random = {7};
    (void)context;
    for (uint32_t i = 0; i < THREAD_MESSAGES;) {
        const uint32_t seen = atomic_load_explicit(&processed, memory_order_acquire);
        if (sent - seen >= RING) {
            sched_yield();
            continue;
        }
        send_one(&random, seen);
        i++;
    }
    return NULL;
}

Test(announce, at_the_same_time)
{
    struct random random = {8};
    pthread_t thread;
    reset();
    const uint32_t end = sent + THREAD_MESSAGES;
    cr_assert_eq(pthread_create(&thread, NULL, sender, NULL), 0);
    while (processed != end) {
        const uint32_t before = processed;
        receiver_step(&random);
        if (processed == before)
            sched_yield(); /* to the sender, if both have one processor */
    }
    pthread_join(thread, NULL);
    cr_expect_gt(told_count, 1000u, "told %u", told_count);
}

/* What the other side writes is checked. */
Test(announce, garbage)
{
    struct announcement announcement;
    reset();
    page.lines[1].word = ANNOUNCE_WORDS;
    atomic_store(&page.lines[1].number, 1);
    cr_assert_eq(forecast_read(&forecast, processed), -EPROTO);
    reset();
    for (uint64_t number = 1; number <= ANNOUNCE_WORDS; number++) {
        page.lines[number % ANNOUNCE_LINES].word = (uint32_t)number - 1;
        atomic_store(&page.words[number - 1], number << 2 | 1);
        atomic_store(&page.lines[number % ANNOUNCE_LINES].number, number);
        cr_assert_eq(forecast_read(&forecast, processed), 0);
    }
    page.lines[(ANNOUNCE_WORDS + 1) % ANNOUNCE_LINES].word = 0;
    atomic_store(&page.lines[(ANNOUNCE_WORDS + 1) % ANNOUNCE_LINES].number, ANNOUNCE_WORDS + 1);
    cr_assert_eq(forecast_read(&forecast, processed), -EPROTO);
    cr_assert(forecast_claim(&forecast, (struct match_key){.tag = 0}, &announcement));
}

/* A receive that fails while its sender copies knows when that has ended; one that was given to a
 * message that had been sent before is not copied to. */
Test(announce, copying)
{
    const struct match_key key = {.rank = SENDER, .tag = 1};
    const struct announcement receive = {.tag = 1, .seen = 0xffffff00u};
    struct announcement claimed;
    reset();
    const int word = announce_make(&announcer, &receive);
    cr_assert_geq(word, 0);
    cr_assert(announce_is_copied(&announcer, (uint32_t)word));
    cr_assert_eq(forecast_read(&forecast, processed), 0);
    cr_assert(forecast_claim(&forecast, key, &claimed));
    cr_assert_not(announce_withdraw(&announcer, (uint32_t)word));
    cr_assert_not(announce_is_copied(&announcer, (uint32_t)word));
    forecast_copied(&forecast, &claimed);
    cr_assert(announce_is_copied(&announcer, (uint32_t)word));
    cr_assert_not(announce_withdraw(&announcer, (uint32_t)word));

    reset();
    forecast_sent(&forecast, key, ++sent);
    const int given = announce_make(&announcer, &receive);
    cr_assert_eq(forecast_read(&forecast, processed), 0);
    cr_assert_not(announce_withdraw(&announcer, (uint32_t)given));
    cr_assert(announce_is_copied(&announcer, (uint32_t)given));
}
