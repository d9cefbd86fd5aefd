/* Plans, one call at a time. */
#include <errno.h>
#include <string.h>

#include "tests/integration/actor/actor.h"

static enum tca_seat seat_of(const char *name)
{
    return strcmp(name, "client") == 0   ? TCA_SEAT_CLIENT
           : strcmp(name, "daemon") == 0 ? TCA_SEAT_DAEMON
                                         : TCA_SEAT_ANY;
}

static uint32_t flags_of(const char *name)
{
    return strcmp(name, "timed") == 0    ? TCA_PLAN_TIMED
           : strcmp(name, "landed") == 0 ? TCA_PLAN_LANDED
           : strcmp(name, "prefer") == 0 ? TCA_PLAN_PREFER
           : strcmp(name, "repeat") == 0 ? TCA_PLAN_REPEAT
                                         : 0;
}

/* plan NAME RAIL SEAT CHANNEL [timed|landed|prefer|repeat|- [TOGETHER]]: ok PLAN */
static int new_plan(struct actor *actor, const struct words *words)
{
    struct tca_plan_args args = {.name = word(words, 1),
                                 .seat = seat_of(word(words, 3)),
                                 .channel = (uint32_t)word_number(words, 4),
                                 .flags = flags_of(words->count > 5 ? word(words, 5) : ""),
                                 .together =
                                     words->count > 6 ? (uint32_t)word_number(words, 6) : 0};
    if (strcmp(word(words, 2), "any") != 0)
        args.rail_name = word(words, 2);
    if (actor->plan_count == PLANS_MAX)
        return say_error(-E2BIG, "this program can count %d plans", PLANS_MAX);
    int r = tca_plan_new(actor->session, &args, &actor->plans[actor->plan_count]);
    return r < 0 ? say_result(r) : say("%u", actor->plan_count++);
}

/* chain PLAN */
static int chain(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_chain(word_plan(actor, words, 1)));
}

/* put PLAN REGION OFFSET SHAPE HANDLE TARGET_OFFSET TARGET_SHAPE [ordered] */
static int put(struct actor *actor, const struct words *words)
{
    struct tca_layout *source = shape_layout(word_shape(words, 4)),
                      *target = shape_layout(word_shape(words, 7));
    struct tca_put put = {.source = word_region(actor, words, 2),
                          .source_offset_bytes = word_number(words, 3),
                          .source_layout = source,
                          .target_offset_bytes = word_number(words, 6),
                          .target_layout = target,
                          .ordered = words->count > 8};
    word_bytes(words, 5, put.target.bytes, sizeof(put.target.bytes));
    int r = source && target ? tca_plan_put(word_plan(actor, words, 1), &put) : -EINVAL;
    say_result(r);
    tca_layout_free(source);
    tca_layout_free(target);
    return 0;
}

/* reduce PLAN REGION OFFSET BYTES HANDLE TARGET_OFFSET OPERATOR TYPE: both as numbers */
static int reduce(struct actor *actor, const struct words *words)
{
    struct tca_put put = {.source = word_region(actor, words, 2),
                          .source_offset_bytes = word_number(words, 3),
                          .bytes = word_number(words, 4),
                          .target_offset_bytes = word_number(words, 6),
                          .combine = (enum tca_combine)word_number(words, 7),
                          .type = (enum tca_type)word_number(words, 8)};
    word_bytes(words, 5, put.target.bytes, sizeof(put.target.bytes));
    return say_result(tca_plan_put(word_plan(actor, words, 1), &put));
}

/* notify PLAN RANK SLOT */
static int notify(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_notify(word_plan(actor, words, 1), (uint32_t)word_number(words, 2),
                                      (uint32_t)word_number(words, 3)));
}

/* await PLAN RANK SLOT COUNT: a wait step */
static int await(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_wait(word_plan(actor, words, 1), (uint32_t)word_number(words, 2),
                                    (uint32_t)word_number(words, 3), word_number(words, 4)));
}

/* flush PLAN */
static int flush(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_flush(word_plan(actor, words, 1)));
}

/* commit PLAN TIMEOUT */
static int commit(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_commit(word_plan(actor, words, 1), word_timeout_ns(words, 2)));
}

/* start PLAN */
static int start(struct actor *actor, const struct words *words)
{
    return say_result(tca_start(word_plan(actor, words, 1)));
}

/* starts FIRST LAST: starts plans of these numbers until one fails. ok COUNT, or error and COUNT in
 * front of the text */
static int starts(struct actor *actor, const struct words *words)
{
    uint64_t first = word_number(words, 1), last = word_number(words, 2);
    for (uint64_t number = first; number <= last; number++) {
        int r = number < actor->plan_count && actor->plans[number] ? tca_start(actor->plans[number])
                                                                   : -EINVAL;
        if (r < 0)
            return say_error(r, "%llu %s", (unsigned long long)(number - first), tca_error_text());
    }
    return say("%llu", (unsigned long long)(last - first + 1));
}

/* test PLAN */
static int test(struct actor *actor, const struct words *words)
{
    return say_result(tca_test(word_plan(actor, words, 1)));
}

/* wait PLAN TIMEOUT */
static int wait_plan(struct actor *actor, const struct words *words)
{
    return say_result(tca_wait(word_plan(actor, words, 1), word_timeout_ns(words, 2)));
}

/* waits FIRST LAST TIMEOUT: for the starts of these plans */
static int waits(struct actor *actor, const struct words *words)
{
    uint64_t first = word_number(words, 1), last = word_number(words, 2);
    int r = 0;
    for (uint64_t number = first; number <= last && r == 0; number++)
        r = number < actor->plan_count && actor->plans[number]
                ? tca_wait(actor->plans[number], word_timeout_ns(words, 3))
                : -EINVAL;
    return say_result(r);
}

/* freeplan PLAN */
static int free_plan(struct actor *actor, const struct words *words)
{
    tca_plan_free(word_plan(actor, words, 1));
    actor->plans[word_number(words, 1)] = NULL;
    return say("freed");
}

/* cancel PLAN */
static int cancel(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_cancel(word_plan(actor, words, 1)));
}

/* stop PLAN */
static int stop(struct actor *actor, const struct words *words)
{
    return say_result(tca_plan_stop(word_plan(actor, words, 1)));
}

/* rounds PLAN: ok ROUNDS */
static int rounds(struct actor *actor, const struct words *words)
{
    return say("%llu", (unsigned long long)tca_plan_rounds(word_plan(actor, words, 1)));
}

/* receipt PLAN: ok KEY=VALUE... */
static int receipt(struct actor *actor, const struct words *words)
{
    struct tca_receipt receipt;
    int r = tca_plan_receipt(word_plan(actor, words, 1), &receipt);
    if (r < 0)
        return say_result(r);
    return say("rail=%s name=%s seat=%s way=%s status=%d descriptors=%u retries=%u hops=%u "
               "bytes=%llu starts=%llu "
               "start_ns=%llu "
               "taken_ns=%llu posted_ns=%llu done_ns=%llu seen_ns=%llu trying=%u encryption=%s",
               tca_rail_name(receipt.rail), receipt.rail_name, tca_seat_name(receipt.seat),
               tca_copy_method_name(receipt.copy_method), receipt.status, receipt.descriptors,
               receipt.retries, receipt.hops, (unsigned long long)receipt.bytes,
               (unsigned long long)receipt.starts, (unsigned long long)receipt.start_ns,
               (unsigned long long)receipt.taken_ns, (unsigned long long)receipt.posted_ns,
               (unsigned long long)receipt.done_ns, (unsigned long long)receipt.seen_ns,
               receipt.trying, tca_encryption_name(receipt.encryption));
}

const struct command plan_commands[] = {
    {"plan", 4, new_plan},
    {"chain", 1, chain},
    {"put", 7, put},
    {"reduce", 8, reduce},
    {"notify", 3, notify},
    {"await", 4, await},
    {"flush", 1, flush},
    {"commit", 2, commit},
    {"start", 1, start},
    {"starts", 2, starts},
    {"test", 1, test},
    {"wait", 2, wait_plan},
    {"waits", 3, waits},
    {"freeplan", 1, free_plan},
    {"receipt", 1, receipt},
    {"cancel", 1, cancel},
    {"stop", 1, stop},
    {"rounds", 1, rounds},
    {NULL},
};
