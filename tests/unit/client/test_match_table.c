/* Receives and messages by context, rank and tag, against lists searched from the front. */
#include "client/msg/match_table.h"

#include <criterion/criterion.h>

#include "tests/unit/proto/random.h"

enum { WAITING_MAX = 300, STEPS = 30000, MANY = 100000 };

struct receive {
    struct match_receive link; /* first */
    struct match_key key;
};

struct message {
    struct match_message links; /* first */
    struct match_key key;
};

static struct matching matching;
static struct receive *receives[WAITING_MAX]; /* in the order in which they were posted */
static struct message *messages[WAITING_MAX]; /* in that in which they came */
static uint32_t receive_count, message_count;

static bool takes(struct match_key receive, struct match_key message)
{
    return receive.context == message.context &&
           (receive.rank == MATCH_ANY || receive.rank == message.rank) &&
           (receive.tag == MATCH_ANY || receive.tag == message.tag);
}

static struct match_key any_key(struct random *random, bool of_receive)
{
    struct match_key key = {(uint32_t)random_below(random, 2), (uint32_t)random_below(random, 3),
                            (uint32_t)random_below(random, 4)};
    if (of_receive && random_below(random, 3) == 0)
        key.rank = MATCH_ANY;
    if (of_receive && random_below(random, 3) == 0)
        key.tag = MATCH_ANY;
    return key;
}

static void remove_receive(uint32_t i)
{
    free(receives[i]);
    receive_count--;
    for (; i < receive_count; i++)
        receives[i] = receives[i + 1];
}

static void remove_message(uint32_t i)
{
    free(messages[i]);
    message_count--;
    for (; i < message_count; i++)
        messages[i] = messages[i + 1];
}

static void message_comes(struct match_key key)
{
    uint32_t i = 0;
    while (i < receive_count && !takes(receives[i]->key, key))
        i++;
    const struct match_receive *found = match_take_receive(&matching, key);
    cr_assert_eq((const void *)found, i < receive_count ? (void *)receives[i] : NULL);
    if (found) {
        remove_receive(i);
        return;
    }
    if (message_count == WAITING_MAX)
        return;
    struct message *message = malloc(sizeof(*message));
    message->key = key;
    match_keep(&matching, &message->links, key);
    messages[message_count++] = message;
}

static void receive_comes(struct match_key key)
{
    uint32_t i = 0;
    while (i < message_count && !takes(key, messages[i]->key))
        i++;
    struct match_message *found = match_find_message(&matching, key);
    cr_assert_eq((void *)found, i < message_count ? (void *)messages[i] : NULL);
    if (found) {
        cr_assert_eq(match_key_of(found).rank, messages[i]->key.rank);
        cr_assert_eq(match_key_of(found).tag, messages[i]->key.tag);
        match_drop(&matching, found);
        remove_message(i);
        return;
    }
    if (receive_count == WAITING_MAX)
        return;
    struct receive *receive = malloc(sizeof(*receive));
    receive->key = key;
    match_post(&matching, &receive->link, key);
    receives[receive_count++] = receive;
}

Test(match_table, any_order)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct random random = {seed};
        cr_assert_eq(matching_init(&matching), 0);
        for (uint32_t step = 0; step < STEPS; step++) {
            const bool sends = random_below(&random, 100) < (step / 500 % 2 ? 70 : 30);
            if (receive_count > 0 && random_below(&random, 20) == 0) {
                const uint32_t i = (uint32_t)random_below(&random, receive_count);
                match_withdraw(&matching, &receives[i]->link);
                remove_receive(i);
            } else if (sends) {
                message_comes(any_key(&random, false));
            } else {
                receive_comes(any_key(&random, true));
            }
        }
        for (uint32_t i = 0; i < message_count; i++) { /* each of them once */
            struct match_message *message = match_some_message(&matching);
            cr_assert(message);
            match_drop(&matching, message);
        }
        cr_assert_null(match_some_message(&matching));
        while (message_count > 0)
            remove_message(0);
        while (receive_count > 0)
            remove_receive(0);
        matching_deinit(&matching);
    }
}

/* Takes minutes if a search walks what waits. */
Test(match_table, many)
{
    struct match_message *all = calloc(MANY, sizeof(*all));
    cr_assert_eq(matching_init(&matching), 0);
    for (uint32_t i = 0; i < MANY; i++)
        match_keep(&matching, &all[i], (struct match_key){.rank = i % 7, .tag = i});
    for (uint32_t i = MANY; i-- > 0;) {
        const uint32_t kind = i % 3;
        const struct match_key key = {.rank = kind == 1 ? MATCH_ANY : i % 7, .tag = i};
        struct match_message *found = match_find_message(&matching, key);
        cr_assert_eq(found, &all[i]);
        match_drop(&matching, found);
    }
    cr_assert_null(match_some_message(&matching));
    struct match_receive *posted = calloc(MANY, sizeof(*posted));
    for (uint32_t i = 0; i < MANY; i++)
        match_post(&matching, &posted[i], (struct match_key){.rank = MATCH_ANY, .tag = i});
    for (uint32_t i = MANY; i-- > 0;)
        cr_assert_eq(match_take_receive(&matching, (struct match_key){.rank = i % 7, .tag = i}),
                     &posted[i]);
    matching_deinit(&matching);
    free(posted);
    free(all);
}
