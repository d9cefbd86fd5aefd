/*
 * msg SEED ROUNDS [kill RANK | stop RANK]: random messages between the ranks of a group, all of
 * which draw the same numbers. Every receive is checked against sequential matching: the n-th
 * receive of a rank and tag takes the n-th message of that rank with that tag. A rank kills or
 * stops itself in the second round; the others of a killed one end when they hear of it. Ends with
 * 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/tca-msg.h"
#include "tests/integration/msg/schedule.h"

enum {
    PAIRS = 4, /* in each of three rounds: no more than TCA_MSG_PAIRS, whatever their ranks */
    STEPS = 6, /* starts of each pair */
    GUARD = 0xee,
};
#define TIMEOUT_NS INT64_C(50000000000)

struct side {
    struct tca_msg_request *request;
    struct tca_layout *layout;
    const struct message *message; /* as sent; a receive's: as it must arrive */
    uint64_t room;
    bool sends, heap, checked;
    uint8_t *memory;
    uint64_t span; /* bytes of memory */
};

struct job {
    struct tca *session;
    struct tca_msg *msg;
    uint32_t rank, ranks;
    uint64_t round;
    const char *fate;
    uint32_t victim;
    struct random delays;
    struct message messages[MESSAGES];
    struct side sides[2 * MESSAGES];
    uint32_t side_count;
};

static _Noreturn void fail(const struct job *job, const char *what, int error)
{
    printf("rank %u, round %lu: %s: %d: %s\n", job->rank, job->round, what, error,
           tca_error_text());
    exit(1);
}

/* ---- memory */

static uint64_t strided_block(uint64_t bytes)
{
    return bytes % 8 == 0 ? 8 : 1;
}

static uint8_t *byte_of(const struct side *side, uint64_t n)
{
    uint64_t block = strided_block(side->room);

    return side->layout ? side->memory + n / block * 2 * block + n % block : side->memory + n;
}

static uint8_t content(const struct job *job, const struct message *message, uint64_t step,
                       uint64_t n)
{
    return (uint8_t)(job->round * 31 + step * 17 + (uint64_t)(message - job->messages) * 7 +
                     n * 13 + (n >> 8));
}

static void make_memory(struct job *job, struct side *side, uint64_t bytes, enum memory kind)
{
    int r = 0;

    side->room = bytes;
    side->span = 2 * bytes + 16;
    side->heap = kind == HEAP || kind == HEAP_STRIDED;
    if (kind == STRIDED || kind == HEAP_STRIDED)
        r = tca_layout_strided(bytes / strided_block(bytes), strided_block(bytes),
                               2 * (int64_t)strided_block(bytes), &side->layout);
    if (r >= 0 && side->heap)
        side->memory = malloc(side->span);
    else if (r >= 0)
        r = tca_alloc(job->session, side->span, (void **)&side->memory);
    if (r < 0)
        fail(job, "memory", r);
    memset(side->memory, GUARD, side->span);
}

static void free_memory(struct job *job, struct side *side)
{
    tca_layout_free(side->layout);
    if (side->heap)
        free(side->memory);
    else
        tca_free(job->session, side->memory);
    *side = (struct side){0};
}

static void fill(const struct job *job, const struct side *side, uint64_t step)
{
    for (uint64_t n = 0; n < side->room; n++)
        *byte_of(side, n) = content(job, side->message, step, n);
}

/* After a receive: the message, and nothing beside it. */
static void check(const struct job *job, struct side *side, uint64_t step, int status)
{
    const struct message *message = side->message;
    bool fits = message->bytes <= side->room;
    uint64_t untouched = 0;

    if (status != (fits ? 0 : -EMSGSIZE))
        fail(job, "a receive", status);
    if (tca_msg_bytes(side->request) != message->bytes)
        fail(job, "length of a message", 0);
    for (uint64_t n = 0; fits && n < message->bytes; n++)
        if (*byte_of(side, n) != content(job, message, step, n)) {
            printf("message %ld of %lu bytes from %u, tag %u, step %lu, byte %lu: %#x, not %#x\n",
                   message - job->messages, message->bytes, message->from, message->tag, step, n,
                   *byte_of(side, n), content(job, message, step, n));
            fail(job, "data", 0);
        }
    for (uint64_t n = 0; n < side->span; n++)
        untouched += side->memory[n] == GUARD;
    for (uint64_t n = 0; fits && n < message->bytes; n++)
        untouched += *byte_of(side, n) != GUARD;
    memset(side->memory, GUARD, side->span);
    if (untouched != side->span)
        fail(job, "memory beside the message was written", 0);
}

/* ---- the messages of a round */

static void dawdle(struct job *job)
{
    if (random_below(&job->delays, 16) == 0)
        usleep((useconds_t)random_below(&job->delays, 2000));
}

static int make_side(struct job *job, const struct message *message, bool sends, uint32_t count,
                     bool pairs)
{
    struct side *side = &job->sides[job->side_count++];

    make_memory(job, side, sends ? message->bytes : message->room,
                sends ? message->source : message->target);
    side->sends = sends;
    side->message = sends ? message : schedule_match(job->messages, message);
    if (sends)
        fill(job, side, 0);
    const struct tca_msg_buffer buffer = {side->memory, side->room, side->layout};
    uint32_t tag = message->tag;
    if (pairs && sends)
        return tca_msg_send_init(job->msg, message->to, tag, &buffer, &side->request);
    if (pairs)
        return tca_msg_recv_init(job->msg, message->from, tag, &buffer, &side->request);
    if (sends)
        return tca_msg_send(job->msg, message->to, tag, &buffer, &side->request);
    return tca_msg_recv(job->msg, message->from, tag, &buffer, &side->request);
}

/* Makes this rank's sends, in order, and its receives, in theirs, in a random mixture. */
static int make_sides(struct job *job, uint32_t count, bool pairs)
{
    const struct message *by_receive[MESSAGES];
    uint32_t sent = 0, received = 0;
    int r = 0;

    for (uint32_t i = 0; i < count; i++)
        by_receive[job->messages[i].receive] = &job->messages[i];
    job->side_count = 0;
    while (r >= 0 && sent + received < 2 * count) {
        bool sends = received == count || (sent < count && random_below(&job->delays, 2));
        const struct message *message = sends ? &job->messages[sent++] : by_receive[received++];
        if ((sends ? message->from : message->to) != job->rank)
            continue;
        r = make_side(job, message, sends, count, pairs);
        if (r >= 0 && random_below(&job->delays, 8) == 0)
            tca_msg_test(job->sides[random_below(&job->delays, job->side_count)].request);
        dawdle(job);
    }
    return r;
}

/* ---- completion, in many ways */

static int end_side(struct job *job, struct side *side, uint64_t step, int status)
{
    side->checked = true;
    if (job->fate && status == -EOWNERDEAD)
        return status;
    if (!side->sends)
        check(job, side, step, status);
    else if (status < 0)
        fail(job, "a send", status);
    return 0;
}

static int finish_any(struct job *job, uint64_t step)
{
    struct tca_msg_request *requests[2 * MESSAGES];
    int r = 0;

    for (uint32_t left = job->side_count; r >= 0 && left > 0; left--) {
        uint32_t index = UINT32_MAX;
        for (uint32_t i = 0; i < job->side_count; i++)
            requests[i] = job->sides[i].checked ? NULL : job->sides[i].request;
        r = tca_msg_wait_any(requests, job->side_count, TIMEOUT_NS, &index);
        if (index == UINT32_MAX)
            fail(job, "wait_any", r);
        r = end_side(job, &job->sides[index], step, r);
    }
    return r;
}

static int finish_all(struct job *job, uint64_t step)
{
    struct tca_msg_request *requests[2 * MESSAGES];
    int r;

    for (uint32_t i = 0; i < job->side_count; i++)
        requests[i] = job->sides[i].request;
    r = tca_msg_wait_all(requests, job->side_count, TIMEOUT_NS);
    if (r == -ETIMEDOUT)
        fail(job, "wait_all", r);
    r = 0;
    for (uint32_t i = 0; r >= 0 && i < job->side_count; i++) {
        r = tca_msg_test(requests[i]);
        r = end_side(job, &job->sides[i], step, r > 0 ? 0 : r < 0 ? r : -EBUSY);
    }
    return r;
}

static int finish_each(struct job *job, uint64_t step)
{
    int r = 0;

    for (uint32_t i = job->side_count; r >= 0 && i-- > 0;) {
        struct side *side = &job->sides[i];
        uint64_t round = 0;
        if (random_below(&job->delays, 2))
            while ((r = tca_msg_test(side->request)) == 0 && round < 2000)
                tca_pause(round++);
        if (r == 0 || round > 0)
            r = tca_msg_wait(side->request, TIMEOUT_NS);
        r = end_side(job, side, step, r > 0 ? 0 : r);
    }
    return r;
}

static int finish(struct job *job, uint64_t step)
{
    for (uint32_t i = 0; i < job->side_count; i++)
        job->sides[i].checked = false;
    switch (random_below(&job->delays, 3)) {
    case 0:
        return finish_any(job, step);
    case 1:
        return finish_all(job, step);
    default:
        return finish_each(job, step);
    }
}

static void release(struct job *job)
{
    for (uint32_t i = 0; i < job->side_count; i++) {
        tca_msg_release(job->sides[i].request);
        free_memory(job, &job->sides[i]);
    }
}

/* ---- rounds */

static int start(struct job *job, uint64_t step)
{
    uint32_t first = (uint32_t)random_below(&job->delays, job->side_count + 1);
    int r = 0;

    for (uint32_t i = 0; r >= 0 && i < job->side_count; i++) {
        struct side *side = &job->sides[(first + i) % job->side_count];
        if (side->sends)
            fill(job, side, step);
        r = tca_msg_start(side->request);
        dawdle(job);
    }
    return r;
}

static void suffer(const struct job *job)
{
    if (job->fate && job->rank == job->victim && job->round == 1)
        raise(strcmp(job->fate, "kill") == 0 ? SIGKILL : SIGSTOP);
}

static int round_of_pairs(struct job *job, struct random *random)
{
    int r;

    schedule_choose(job->messages, random, PAIRS, job->ranks);
    r = make_sides(job, PAIRS, true);
    for (uint64_t step = 0; r >= 0 && step < STEPS; step++) {
        r = start(job, step);
        if (step == STEPS / 2)
            suffer(job);
        if (r >= 0)
            r = finish(job, step);
    }
    return r;
}

static int round_of_messages(struct job *job, struct random *random)
{
    schedule_choose(job->messages, random, MESSAGES, job->ranks);
    int r = make_sides(job, MESSAGES, false);
    return r < 0 ? r : finish(job, 0);
}

static void rounds(struct job *job, struct random *random, uint64_t count)
{
    int r = 0;

    for (job->round = 0; r >= 0 && job->round < count; job->round++) {
        r = job->round % 2 ? round_of_pairs(job, random) : round_of_messages(job, random);
        if (r >= 0)
            release(job);
        tca_msg_forget(job->msg);
    }
    if (r < 0 && !(job->fate && r == -EOWNERDEAD))
        fail(job, "messages", r);
}

int main(int argc, char **argv)
{
    static struct job job;

    if (argc < 3)
        return 2;
    struct random random = {strtoull(argv[1], NULL, 0)};
    if (argc > 4) {
        job.fate = argv[3];
        job.victim = (uint32_t)strtoul(argv[4], NULL, 0);
    }
    int r = tca_open(NULL, &job.session);
    if (r < 0)
        fail(&job, "tca_open()", r);
    job.rank = tca_rank(job.session);
    job.ranks = tca_size(job.session);
    job.delays.state = random.state * 64 + job.rank;
    if ((r = tca_msg_new(job.session, NULL, &job.msg)) < 0)
        fail(&job, "tca_msg_new()", r);
    rounds(&job, &random, strtoull(argv[2], NULL, 0));
    tca_msg_free(job.msg);
    tca_close(job.session);
    return 0;
}
