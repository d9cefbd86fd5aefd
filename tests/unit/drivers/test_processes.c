/*
 * A driver (DRIVER) between two processes that sleep on its descriptor whenever they can, and with
 * a receiver that is killed, stopped or replaced in the middle of transfers.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/drivers/kit.h"
#include "tests/unit/proto/random.h"

enum { REGION = 4 << 20, SEED = 99, PATIENCE_MS = 20000 };

static const struct shape shapes[] = {
    {.block = 8, .count = 1, .outer = 1, .offset = 5},
    {.block = 8, .count = 1000, .stride = 24, .outer = 1},
    {.block = 1000000, .count = 1, .outer = 1},
    {.block = 8, .count = 125000, .stride = 16, .outer = 1},
    {.block = 40, .count = 125, .stride = 48, .outer = 200, .outer_stride = 6001},
};
static const struct {
    unsigned source, target;
} jobs[] = {{0, 0}, {1, 1}, {2, 2}, {2, 3}, {3, 2}, {3, 3}, {3, 4}, {4, 2}, {4, 4}};
enum { JOBS = sizeof(jobs) / sizeof(jobs[0]) };

static struct side side; /* of this process */

/* Not in the parent: a failed assertion there would go unnoticed. */
static void must(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "receiver: %s\n", what);
        _exit(1);
    }
}

static bool send_all(int fd, const void *data, size_t bytes)
{
    return write(fd, data, bytes) == (ssize_t)bytes;
}

static bool receive_all(int fd, void *data, size_t bytes)
{
    return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

/* Sleeps whenever the driver permits; false when no event came in time. */
static bool sleep_until(const unsigned *counter, unsigned goal)
{
    struct driver *driver = side.driver;
    while (*counter < goal) {
        int r = driver->ops->progress(driver, 16);
        if (r < 0)
            return false;
        if (r > 0 || *counter >= goal || driver->ops->arm(driver) < 0)
            continue;
        struct pollfd fd = {.fd = driver->ops->event_fd(driver), .events = POLLIN};
        if (poll(&fd, 1, PATIENCE_MS) == 0)
            return false;
    }
    return true;
}

struct target {
    uint8_t blob[LANDING_MAX_BYTES];
    size_t bytes;
};

static struct driver_landing *say_target(int fd, struct layout *layout, uint64_t token)
{
    struct target there = {0};
    struct driver_landing *landing;
    struct driver_landing_args args = {
        .region = side.region,
        .layout = layout,
        .notify = true,
        .token = token,
    };
    must(side.driver->ops->landing_new(side.driver, &args, &landing, there.blob, &there.bytes) == 0,
         "landing");
    must(send_all(fd, &there, sizeof(there)), "target");
    return landing;
}

/* The addresses that processes exchange to connect. */
struct greeting {
    uint8_t address[ADDRESS_MAX_BYTES];
    size_t address_bytes;
    uint8_t offer[OFFER_MAX_BYTES];
    size_t offer_bytes;
};

static bool say_address(int fd)
{
    struct greeting greeting = {0};
    int r = side.driver->ops->address(side.driver, greeting.address);
    greeting.address_bytes = (size_t)r;
    return r > 0 && send_all(fd, &greeting, sizeof(greeting));
}

/* Both processes do the same. */
static struct driver_peer *meet(int fd)
{
    const struct driver_ops *ops = side.driver->ops;
    struct greeting other, own = {0};
    struct driver_peer *peer;
    if (!say_address(fd) || !receive_all(fd, &other, sizeof(other)) ||
        ops->peer_connect(side.driver, other.address, other.address_bytes, &peer, own.offer,
                          &own.offer_bytes) < 0)
        return NULL;
    if (!ops->peer_answer)
        return peer;
    if (!send_all(fd, &own, sizeof(own)) || !receive_all(fd, &other, sizeof(other)) ||
        ops->peer_answer(side.driver, peer, other.offer, other.offer_bytes) < 0)
        return NULL;
    return peer;
}

static void check_job(unsigned job)
{
    const struct shape *source = &shapes[jobs[job].source], *target = &shapes[jobs[job].target];
    static uint8_t sent[REGION], expected[REGION];
    fill(sent, REGION, SEED);
    memset(expected, 0xa5, REGION);
    for (uint64_t i = 0; i < shape_bytes(source); i++)
        expected[shape_place(target, i)] = sent[shape_place(source, i)];
    must(memcmp(expected, side.memory, REGION) == 0, "wrong bytes");
}

/* Receives every job, and confirms it. */
static void receive_jobs(int fd)
{
    must(side_open(&side, DRIVER, 32768, REGION) == 0, "open");
    struct driver_peer *peer = meet(fd);
    must(peer != NULL, "meet");
    for (unsigned job = 0; job < JOBS; job++) {
        struct layout *layout = shape_layout(&shapes[jobs[job].target]);
        memset(side.memory, 0xa5, REGION);
        struct driver_landing *landing = say_target(fd, layout, job);
        must(sleep_until(&side.notified_count, job + 1), "not notified");
        must(side.notified[job] == job, "wrong token");
        check_job(job);
        side.driver->ops->landing_free(side.driver, landing);
        free(layout);
        must(send_all(fd, "k", 1), "say done");
    }
    side.driver->ops->peer_disconnect(side.driver, peer);
    side_close(&side);
}

/* Receives for ever, until it is killed. */
static void receive_until_killed(int fd)
{
    unsigned never = 0;
    must(side_open(&side, DRIVER, 32768, REGION) == 0, "open");
    must(meet(fd) != NULL, "meet");
    struct layout *contiguous = shape_layout(&shapes[2]), *strided = shape_layout(&shapes[3]);
    say_target(fd, contiguous, 0);
    say_target(fd, strided, 1);
    sleep_until(&never, 1);
}

static pid_t start(void (*receiver)(int fd), int *ret_fd)
{
    int fds[2];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    pid_t pid = fork();
    cr_assert(pid >= 0);
    if (pid == 0) {
        close(fds[0]);
        receiver(fds[1]);
        _exit(0);
    }
    close(fds[1]);
    *ret_fd = fds[0];
    return pid;
}

static struct driver_peer *connect_over(int fd)
{
    struct driver_peer *peer = meet(fd);
    cr_assert_not_null(peer);
    return peer;
}

static struct driver_put *take_target(int fd, struct driver_peer *peer, struct layout *source,
                                      struct layout *target)
{
    struct target there;
    struct driver_put *put;
    struct driver_put_info info;
    cr_assert(receive_all(fd, &there, sizeof(there)));
    struct driver_put_args args = {
        .peer = peer,
        .region = side.region,
        .layout = source,
        .landing = there.blob,
        .landing_bytes = there.bytes,
        .target_layout = target,
    };
    cr_assert(side.driver->ops->put_prepare(side.driver, &args, &put, &info) == 0);
    return put;
}

static void open_sender(void)
{
    cr_assert(side_open(&side, DRIVER, 32768, REGION) == 0);
    fill(side.memory, REGION, SEED);
}

static void run_jobs(void)
{
    int fd, status;
    char answer;
    pid_t pid = start(receive_jobs, &fd);
    struct driver_peer *peer = connect_over(fd);
    for (unsigned job = 0; job < JOBS; job++) {
        struct layout *source = shape_layout(&shapes[jobs[job].source]);
        struct layout *target = shape_layout(&shapes[jobs[job].target]);
        struct driver_put *put = take_target(fd, peer, source, target);
        struct op op;
        op_init(&op);
        cr_assert(post(&side, NULL, put, &op) == 0);
        cr_assert(sleep_until(&op.done, 1), "job %u does not complete", job);
        cr_assert(op.status == 0, "job %u: %d", job, op.status);
        cr_assert(receive_all(fd, &answer, 1), "job %u: the receiver is not content", job);
        side.driver->ops->put_release(side.driver, put);
        free(source);
        free(target);
    }
    cr_assert(waitpid(pid, &status, 0) == pid && status == 0);
    side.driver->ops->peer_disconnect(side.driver, peer);
    close(fd);
}

Test(DRIVER_SUITE, asleep_on_both_sides, .timeout = 120)
{
    open_sender();
    run_jobs();
    side_close(&side);
}

/* Two kinds of puts in flight all the time; something happens to the receiver; everything ends in
 * bounded time. */
struct victim {
    pid_t pid;
    int fd;
    struct driver_peer *peer;
    struct layout *source, *contiguous, *strided;
    struct driver_put *puts[2];
    struct op ops[2];
    unsigned completed;
};

static void victim_start(struct victim *victim)
{
    *victim = (struct victim){0};
    victim->pid = start(receive_until_killed, &victim->fd);
    victim->peer = connect_over(victim->fd);
    victim->source = shape_layout(&shapes[2]);
    victim->contiguous = shape_layout(&shapes[2]);
    victim->strided = shape_layout(&shapes[3]);
    victim->puts[0] = take_target(victim->fd, victim->peer, victim->source, victim->contiguous);
    victim->puts[1] = take_target(victim->fd, victim->peer, victim->source, victim->strided);
    for (unsigned i = 0; i < 2; i++) {
        op_init(&victim->ops[i]);
        cr_assert(post(&side, NULL, victim->puts[i], &victim->ops[i]) == 0);
    }
}

/* 0, or the first error. */
static int victim_feed(struct victim *victim)
{
    cr_assert(side.driver->ops->progress(side.driver, 16) >= 0);
    for (unsigned i = 0; i < 2; i++) {
        if (!victim->ops[i].done)
            continue;
        if (victim->ops[i].status < 0)
            return victim->ops[i].status;
        victim->completed++;
        op_init(&victim->ops[i]);
        int r = post(&side, NULL, victim->puts[i], &victim->ops[i]);
        if (r < 0) {
            victim->ops[i].done = 1;
            return r;
        }
    }
    return 0;
}

static void victim_expect_end(struct victim *victim, int error)
{
    struct op late;
    for (unsigned i = 0; i < 2; i++) {
        cr_assert(sleep_until(&victim->ops[i].done, 1), "put %u hangs", i);
        cr_assert(victim->ops[i].done == 1);
    }
    op_init(&late);
    cr_assert(post(&side, NULL, victim->puts[0], &late) == error);
}

static void victim_end(struct victim *victim)
{
    kill(victim->pid, SIGKILL);
    waitpid(victim->pid, NULL, 0);
    for (unsigned i = 0; i < 2; i++)
        side.driver->ops->put_release(side.driver, victim->puts[i]);
    side.driver->ops->peer_disconnect(side.driver, victim->peer);
    free(victim->source);
    free(victim->contiguous);
    free(victim->strided);
    close(victim->fd);
}

/* Killed after some puts (before the first: nobody_there); the same instance then works with
 * others. */
Test(DRIVER_SUITE, receiver_killed_in_mid_transfer, .timeout = 300)
{
    open_sender();
    for (unsigned life = 1; life <= random_rounds(2); life++) {
        struct victim victim;
        victim_start(&victim);
        const unsigned downs = side.downs;
        while (victim.completed < life % 6 * 20)
            cr_assert(victim_feed(&victim) == 0);
        kill(victim.pid, SIGKILL);
        int error;
        while ((error = victim_feed(&victim)) == 0)
            ;
        cr_assert(error == -ENETDOWN);
        victim_expect_end(&victim, error);
        cr_assert(side.downs == downs + 1 && side.down_error == -ENETDOWN);
        victim_end(&victim);
    }
    run_jobs();
    side_close(&side);
}

/* A stopped receiver keeps its connection: only its owner can declare it dead. */
Test(DRIVER_SUITE, receiver_stopped_and_given_up, .timeout = 120)
{
    struct victim victim;
    open_sender();
    victim_start(&victim);
    while (victim.completed < 20)
        cr_assert(victim_feed(&victim) == 0);
    kill(victim.pid, SIGSTOP);
    for (unsigned i = 0; i < 5000; i++)
        victim_feed(&victim);
    side.driver->ops->peer_fail(side.driver, victim.peer, -EHOSTDOWN);
    victim_expect_end(&victim, -EHOSTDOWN);
    cr_assert(side.downs == 0);
    victim_end(&victim);
    run_jobs();
    side_close(&side);
}

Test(DRIVER_SUITE, nobody_there, .timeout = 120)
{
    struct victim victim;
    open_sender();
    victim_start(&victim);
    kill(victim.pid, SIGKILL);
    waitpid(victim.pid, NULL, 0);
    while (victim_feed(&victim) == 0)
        ;
    victim_expect_end(&victim, -ENETDOWN);
    victim_end(&victim);
    side_close(&side);
}

/* Quiet after work: nothing to move, and no wake-ups. */
Test(DRIVER_SUITE, idle_is_asleep, .timeout = 60)
{
    struct driver *driver;
    unsigned wakes = 0;
    open_sender();
    run_jobs();
    driver = side.driver;
    for (unsigned i = 0; i < 20; i++) {
        while (driver->ops->progress(driver, 16) > 0 || driver->ops->arm(driver) < 0)
            ;
        struct pollfd fd = {.fd = driver->ops->event_fd(driver), .events = POLLIN};
        wakes += poll(&fd, 1, 50) > 0;
    }
    cr_assert(wakes <= 5, "woken %u times for nothing", wakes);
    side_close(&side);
}
