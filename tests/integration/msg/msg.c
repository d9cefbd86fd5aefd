/*
 * msg SEED ROUNDS all|parts [kill RANK | stop RANK]: random messages between the ranks of a session
 * and, with "parts", at the same time in groups of random splits, which are freed before or after
 * their messengers. All ranks of a group draw the same numbers. Every receive is checked against
 * sequential matching: the n-th receive of a rank and tag takes the n-th message of that rank with
 * that tag. A rank kills or stops itself in the second round. Messages to and from a killed one
 * fail; all others arrive, its groups end with that round, and the survivors become a group. Ends
 * with 0, or prints what was wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/tca-group.h"
#include "client/include/tca-msg.h"
#include "tests/integration/groups/world.h"
#include "tests/integration/msg/schedule.h"

enum {
    PAIRS = 4,  /* in each of three rounds: no more than TCA_MSG_PAIRS, whatever their ranks */
    STEPS = 6,  /* starts of each pair */
    NESTED = 3, /* splits of splits */
    JOBS = 1 + NESTED + 2,
    GUARD = 0xee,
};
#define TIMEOUT_NS INT64_C(50000000000)

struct side {
    struct tca_msg_request *request;
    struct tca_layout *layout;
    const struct message *own;     /* its ranks and tag */
    const struct message *message; /* as sent; a receive's: as it must arrive */
    uint64_t room;
    bool sends, heap, checked;
    uint8_t *memory;
    uint64_t span; /* bytes of memory */
};

/* The messages of a group. */
struct job {
    uint64_t number;    /* of the group, among those of a rank */
    struct world world; /* its ranks, */
    uint32_t rank;      /* and this one's place among them */
    struct tca_group *group;
    struct tca_msg *msg;
    struct random random; /* the same at all its ranks */
    struct message messages[MESSAGES];
    struct side sides[2 * MESSAGES];
    uint32_t side_count;
    uint32_t lost; /* place of the rank that is killed; the size: it is in other groups */
    bool ended;    /* the rank has been killed */
};

static struct tca *session;
static uint64_t current; /* round */
static const char *fate;
static uint32_t victim;
static struct random delays;
static struct job jobs[JOBS];
static uint32_t job_count;

static _Noreturn void fail(const struct job *job, const char *what, int error)
{
    printf("rank %u, round %lu, group %lu: %s: %d: %s\n", tca_rank(session), current, job->number,
           what, error, tca_error_text());
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
    return (uint8_t)(current * 31 + job->number * 101 + step * 17 +
                     (uint64_t)(message - job->messages) * 7 + n * 13 + (n >> 8));
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
        r = tca_alloc(session, side->span, (void **)&side->memory);
    if (r < 0)
        fail(job, "memory", r);
    memset(side->memory, GUARD, side->span);
}

static void free_memory(struct side *side)
{
    tca_layout_free(side->layout);
    if (side->heap)
        free(side->memory);
    else
        tca_free(session, side->memory);
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

/* Whether a call may fail with this for a message: one to or from the rank that is killed. */
static bool may_fail(const struct job *job, bool sends, const struct message *message, int error)
{
    return error == -EOWNERDEAD && (sends ? message->to : message->from) == job->lost;
}

static void dawdle(void)
{
    if (random_below(&delays, 16) == 0)
        usleep((useconds_t)random_below(&delays, 2000));
}

static int ask(const struct job *job, struct side *side, const struct message *message, bool pairs)
{
    const struct tca_msg_buffer buffer = {side->memory, side->room, side->layout};
    const uint32_t tag = message->tag;

    if (pairs && side->sends)
        return tca_msg_send_init(job->msg, message->to, tag, &buffer, &side->request);
    if (pairs)
        return tca_msg_recv_init(job->msg, message->from, tag, &buffer, &side->request);
    if (side->sends)
        return tca_msg_send(job->msg, message->to, tag, &buffer, &side->request);
    return tca_msg_recv(job->msg, message->from, tag, &buffer, &side->request);
}

static void make_side(struct job *job, const struct message *message, bool sends, bool pairs)
{
    struct side *side = &job->sides[job->side_count];

    make_memory(job, side, sends ? message->bytes : message->room,
                sends ? message->source : message->target);
    side->sends = sends;
    side->own = message;
    side->message = sends ? message : schedule_match(job->messages, message);
    if (sends)
        fill(job, side, 0);
    const int r = ask(job, side, message, pairs);
    if (r >= 0)
        job->side_count++;
    else if (may_fail(job, sends, message, r))
        free_memory(side);
    else
        fail(job, sends ? "making a send" : "making a receive", r);
}

/* Makes this rank's sends, in order, and its receives, in theirs, in a random mixture. */
static void make_sides(struct job *job, uint32_t count, bool pairs)
{
    const struct message *by_receive[MESSAGES];
    uint32_t sent = 0, received = 0;

    schedule_choose(job->messages, &job->random, count, job->world.size);
    for (uint32_t i = 0; i < count; i++)
        by_receive[job->messages[i].receive] = &job->messages[i];
    job->side_count = 0;
    while (sent + received < 2 * count) {
        bool sends = received == count || (sent < count && random_below(&delays, 2));
        const struct message *message = sends ? &job->messages[sent++] : by_receive[received++];
        if ((sends ? message->from : message->to) != job->rank)
            continue;
        make_side(job, message, sends, pairs);
        if (job->side_count > 0 && random_below(&delays, 8) == 0)
            tca_msg_test(job->sides[random_below(&delays, job->side_count)].request);
        dawdle();
    }
}

/* ---- completion, in many ways */

static void end_side(struct job *job, struct side *side, uint64_t step, int status)
{
    side->checked = true;
    if (may_fail(job, side->sends, side->own, status))
        return;
    if (!side->sends)
        check(job, side, step, status);
    else if (status < 0)
        fail(job, "a send", status);
}

static void finish_any(struct job *job, uint64_t step)
{
    struct tca_msg_request *requests[2 * MESSAGES];

    for (uint32_t left = job->side_count; left > 0; left--) {
        uint32_t index = UINT32_MAX;
        for (uint32_t i = 0; i < job->side_count; i++)
            requests[i] = job->sides[i].checked ? NULL : job->sides[i].request;
        const int r = tca_msg_wait_any(requests, job->side_count, TIMEOUT_NS, &index);
        if (index == UINT32_MAX)
            fail(job, "wait_any", r);
        end_side(job, &job->sides[index], step, r);
    }
}

static void finish_all(struct job *job, uint64_t step)
{
    struct tca_msg_request *requests[2 * MESSAGES];

    for (uint32_t i = 0; i < job->side_count; i++)
        requests[i] = job->sides[i].request;
    int r = tca_msg_wait_all(requests, job->side_count, TIMEOUT_NS);
    if (r == -ETIMEDOUT)
        fail(job, "wait_all", r);
    for (uint32_t i = 0; i < job->side_count; i++) {
        r = tca_msg_test(requests[i]);
        end_side(job, &job->sides[i], step, r > 0 ? 0 : r < 0 ? r : -EBUSY);
    }
}

static void finish_each(struct job *job, uint64_t step)
{
    for (uint32_t i = job->side_count; i-- > 0;) {
        struct side *side = &job->sides[i];
        uint64_t round = 0;
        int r = 0;
        if (random_below(&delays, 2))
            while ((r = tca_msg_test(side->request)) == 0 && round < 2000)
                tca_pause(round++);
        if (r == 0 || round > 0)
            r = tca_msg_wait(side->request, TIMEOUT_NS);
        end_side(job, side, step, r > 0 ? 0 : r);
    }
}

static void finish(struct job *job, uint64_t step)
{
    for (uint32_t i = 0; i < job->side_count; i++)
        job->sides[i].checked = false;
    switch (random_below(&delays, 3)) {
    case 0:
        finish_any(job, step);
        break;
    case 1:
        finish_all(job, step);
        break;
    default:
        finish_each(job, step);
    }
}

static void release(struct job *job)
{
    for (uint32_t i = 0; i < job->side_count; i++) {
        tca_msg_release(job->sides[i].request);
        free_memory(&job->sides[i]);
    }
    tca_msg_forget(job->msg);
}

/* ---- rounds */

static void start(struct job *job, uint64_t step)
{
    uint32_t first = (uint32_t)random_below(&delays, job->side_count + 1);

    for (uint32_t i = 0; i < job->side_count; i++) {
        struct side *side = &job->sides[(first + i) % job->side_count];
        if (side->sends)
            fill(job, side, step);
        const int r = tca_msg_start(side->request);
        if (r < 0 && !may_fail(job, side->sends, side->own, r))
            fail(job, "start", r);
        dawdle();
    }
}

static void suffer(void)
{
    if (fate && tca_rank(session) == victim)
        raise(strcmp(fate, "kill") == 0 ? SIGKILL : SIGSTOP);
}

/* Each rank begins with another group: what it waits for there may need this rank to advance
 * messages of a group that it waits for later. */
static struct job *job_of(uint32_t first, uint32_t i)
{
    struct job *job = &jobs[(first + i) % job_count];

    return job->ended ? NULL : job;
}

static void finish_jobs(uint64_t step)
{
    const uint32_t first = (uint32_t)random_below(&delays, job_count);

    for (uint32_t i = 0; i < job_count; i++)
        if (job_of(first, i))
            finish(job_of(first, i), step);
}

static void run_round(bool pairs)
{
    const uint32_t first = (uint32_t)random_below(&delays, job_count);

    for (uint32_t i = 0; i < job_count; i++)
        if (job_of(first, i))
            make_sides(job_of(first, i), pairs ? PAIRS : MESSAGES, pairs);
    if (!pairs)
        finish_jobs(0);
    for (uint64_t step = 0; pairs && step < STEPS; step++) {
        for (uint32_t i = 0; i < job_count; i++)
            if (job_of(first, i))
                start(job_of(first, i), step);
        if (current == 1 && step == STEPS / 2)
            suffer();
        finish_jobs(step);
        for (uint32_t i = 0; current == 1 && step == STEPS / 2 && i < job_count; i++)
            jobs[i].ended |= jobs[i].lost < jobs[i].world.size;
    }
    for (uint32_t i = 0; i < job_count; i++)
        if (job_of(first, i))
            release(job_of(first, i));
}

/* ---- groups */

static struct job *add_job(struct tca_group *group, const struct world *world, uint64_t seed,
                           uint64_t number)
{
    struct job *job = &jobs[job_count++];
    const struct tca_plan_args args = {.group = group};

    job->group = group;
    job->world = *world;
    job->rank = world_place(world, tca_rank(session));
    job->lost = fate && strcmp(fate, "kill") == 0 ? world_place(world, victim) : world->size;
    job->number = number;
    job->random.state = seed + number * 1000 + world->ranks[0];
    const int r = tca_msg_new(session, &args, &job->msg);
    if (r < 0)
        fail(job, "tca_msg_new()", r);
    return job;
}

/* The group is freed when its messenger, which may be in use for long, has been made, or after
 * it. */
static struct job *add_part(struct tca_group *parent, const struct world *of_parent, uint64_t seed,
                            uint64_t number)
{
    struct random random = {seed + number * 2000 + of_parent->ranks[0]};
    struct world world;
    struct tca_group *group = NULL;
    int32_t key;
    const uint32_t colour =
        world_split(of_parent, tca_size(session), tca_rank(session), &random, &world, &key);
    const int r = tca_group_split(session, parent, colour, key, TIMEOUT_NS, &group);

    if (r < 0)
        fail(&jobs[0], "split", r);
    return group ? add_job(group, &world, seed, number) : NULL;
}

static void add_parts(uint64_t seed)
{
    struct job *parent = &jobs[0];

    for (uint64_t depth = 1; parent && depth <= NESTED; depth++)
        parent = add_part(parent->group, &parent->world, seed, depth);
    add_part(NULL, &jobs[0].world, seed, NESTED + 1);
    for (uint32_t i = 0; i < job_count; i++)
        if (random_below(&delays, 2))
            jobs[i].group = tca_group_free(jobs[i].group);
}

static void survive(uint64_t seed)
{
    struct world world = {0};
    struct tca_group *group;

    for (uint32_t r = 0; r < tca_size(session); r++)
        if (r != victim)
            world.ranks[world.size++] = r;
    const int r = tca_group_shrink(session, NULL, TIMEOUT_NS, &group);
    if (r < 0)
        fail(&jobs[0], "shrink", r);
    add_job(group, &world, seed, NESTED + 2);
    run_round(false);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const uint64_t seed = strtoull(argv[1], NULL, 0), rounds = strtoull(argv[2], NULL, 0);
    if (argc > 5) {
        fate = argv[4];
        victim = (uint32_t)strtoul(argv[5], NULL, 0);
    }
    const int r = tca_open(NULL, &session);
    if (r < 0)
        fail(&jobs[0], "tca_open()", r);
    delays.state = seed * 64 + tca_rank(session);
    const struct world all = world_all(tca_size(session));
    add_job(NULL, &all, seed, 0);
    if (strcmp(argv[3], "parts") == 0)
        add_parts(seed);
    for (current = 0; current < rounds; current++)
        run_round(current % 2);
    if (fate && strcmp(fate, "kill") == 0)
        survive(seed);
    for (uint32_t i = 0; i < job_count; i++) {
        const bool before = random_below(&delays, 2);
        if (before)
            tca_group_free(jobs[i].group);
        tca_msg_free(jobs[i].msg);
        if (!before)
            tca_group_free(jobs[i].group);
    }
    tca_close(session);
    return 0;
}
