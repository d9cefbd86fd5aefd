/* Sessions, groups, notifications. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/integration/actor/actor.h"

/* open GROUP RANK SIZE TIMEOUT: "-" for no group. ok RANK SIZE NODE */
static int open_session(struct actor *actor, const struct words *words)
{
    struct tca_open_args args = {.rank = (uint32_t)word_number(words, 2),
                                 .size = (uint32_t)word_number(words, 3),
                                 .timeout_ns = word_timeout_ns(words, 4)};
    if (strcmp(word(words, 1), "-") != 0)
        args.group = word(words, 1);
    if (actor->session)
        return say_error(-EBUSY, "a session is open already");
    int r = tca_open(&args, &actor->session);
    if (r < 0)
        return say_result(r);
    return say("%u %u %u", tca_rank(actor->session), tca_size(actor->session),
               tca_node(actor->session));
}

static int close_session(struct actor *actor, const struct words *words)
{
    tca_close(actor->session);
    for (uint32_t i = 0; i < actor->region_count; i++)
        free(actor->attached[i]);
    memset(actor, 0, sizeof(*actor)); /* plans and regions went with it */
    return say("closed");
}

/* node_of RANK */
static int node_of(struct actor *actor, const struct words *words)
{
    return say_result(tca_node_of(actor->session, (uint32_t)word_number(words, 1)));
}

/* subcluster_of RANK */
static int subcluster_of(struct actor *actor, const struct words *words)
{
    return say_result(tca_subcluster_of(actor->session, (uint32_t)word_number(words, 1)));
}

/* allgather HEX TIMEOUT: ok HEX of all */
static int allgather(struct actor *actor, const struct words *words)
{
    uint8_t blob[4096];
    size_t bytes = strlen(word(words, 1)) / 2;
    if (bytes > sizeof(blob))
        return say_error(-E2BIG, "at most %zu bytes", sizeof(blob));
    word_bytes(words, 1, blob, bytes);
    uint8_t *all = malloc(tca_size(actor->session) * bytes);
    int r = tca_allgather(actor->session, blob, bytes, all, word_timeout_ns(words, 2));
    if (r < 0)
        say_result(r);
    else
        say_bytes(all, tca_size(actor->session) * bytes);
    free(all);
    return 0;
}

/* barrier TIMEOUT */
static int barrier(struct actor *actor, const struct words *words)
{
    return say_result(tca_barrier(actor->session, word_timeout_ns(words, 1)));
}

/* publish NAME HANDLE: "-" withdraws */
static int publish(struct actor *actor, const struct words *words)
{
    struct tca_handle handle;
    if (strcmp(word(words, 2), "-") == 0)
        return say_result(tca_publish(actor->session, word(words, 1), NULL));
    word_bytes(words, 2, handle.bytes, sizeof(handle.bytes));
    return say_result(tca_publish(actor->session, word(words, 1), &handle));
}

/* lookup NAME TIMEOUT: ok HANDLE */
static int lookup(struct actor *actor, const struct words *words)
{
    struct tca_handle handle;
    int r = tca_lookup(actor->session, word(words, 1), word_timeout_ns(words, 2), &handle);
    if (r < 0)
        return say_result(r);
    say_bytes(handle.bytes, sizeof(handle.bytes));
    return 0;
}

/* notified RANK SLOT */
static int notified(struct actor *actor, const struct words *words)
{
    return say_result(tca_notified(actor->session, (uint32_t)word_number(words, 1),
                                   (uint32_t)word_number(words, 2)));
}

/* notified_wait RANK SLOT TIMEOUT */
static int notified_wait(struct actor *actor, const struct words *words)
{
    return say_result(tca_notified_wait(actor->session, (uint32_t)word_number(words, 1),
                                        (uint32_t)word_number(words, 2),
                                        word_timeout_ns(words, 3)));
}

/* heard SLOT TIMEOUT: waits for a notification from any rank. ok RANK */
static int heard(struct actor *actor, const struct words *words)
{
    uint32_t rank;
    int r = tca_notified_wait_any(actor->session, (uint32_t)word_number(words, 1),
                                  word_timeout_ns(words, 2), &rank);
    return r < 0 ? say_result(r) : say("%u", rank);
}

/* count RANK SLOT */
static int notified_count(struct actor *actor, const struct words *words)
{
    return say("%llu", (unsigned long long)tca_notified_count(actor->session,
                                                              (uint32_t)word_number(words, 1),
                                                              (uint32_t)word_number(words, 2)));
}

/* sleep MS: the process makes no call of the library meanwhile. */
static int sleep_ms(struct actor *actor, const struct words *words)
{
    usleep((useconds_t)word_number(words, 1) * 1000);
    return say("awake");
}

/* dispatch: processes pending daemon events. */
static int dispatch(struct actor *actor, const struct words *words)
{
    return say_result(tca_dispatch(actor->session));
}

/* many COUNT AT_ONCE: opens COUNT sessions, at most AT_ONCE at a time, and closes them, the oldest
 * first. */
static int many(struct actor *actor, const struct words *words)
{
    uint64_t count = word_number(words, 1), at_once = word_number(words, 2);
    struct tca **open = calloc(at_once, sizeof(struct tca *));
    uint64_t i;
    int r = 0;
    for (i = 0; i < count && r == 0; i++) {
        open[i % at_once] = tca_close(open[i % at_once]);
        r = tca_open(NULL, &open[i % at_once]);
    }
    if (r < 0)
        say_result(r);
    else
        say("%llu", (unsigned long long)i);
    for (i = 0; i < at_once; i++)
        tca_close(open[i]);
    free(open);
    return 0;
}

/* hold COUNT: opens COUNT sessions and keeps them until the next line. ok COUNT, and ok closed
 * after that line */
static int hold(struct actor *actor, const struct words *words)
{
    uint64_t count = word_number(words, 1), opened = 0;
    struct tca **open = calloc(count, sizeof(struct tca *));
    int r = 0;
    while (opened < count && (r = tca_open(NULL, &open[opened])) == 0)
        opened++;
    if (r < 0)
        say_result(r);
    else
        say("%llu", (unsigned long long)opened);
    while (r == 0 && !line_waits())
        usleep(10000);
    while (opened > 0)
        tca_close(open[--opened]);
    free(open);
    return r < 0 ? 0 : say("closed");
}

const struct command session_commands[] = {
    {"open", 4, open_session},
    {"close", 0, close_session},
    {"node_of", 1, node_of},
    {"subcluster_of", 1, subcluster_of},
    {"allgather", 2, allgather},
    {"barrier", 1, barrier},
    {"publish", 2, publish},
    {"lookup", 2, lookup},
    {"notified", 2, notified},
    {"notified_wait", 3, notified_wait},
    {"heard", 2, heard},
    {"count", 2, notified_count},
    {"sleep", 1, sleep_ms},
    {"many", 2, many},
    {"hold", 1, hold},
    {"dispatch", 0, dispatch},
    {NULL},
};
