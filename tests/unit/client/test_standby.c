/* What stands in for a program on the helper thread: it works while the program is away, wakes it
 * up, and keeps out of its way. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/core/standby.h"
#include "client/forks.h"
#include "proto/notify.h"

enum { ROUNDS = 20000 };

/* A process that reads from a socket, whose bytes either of its threads takes. */
struct process {
    int own;
    struct notify_segment segment;
    struct standby *standby;
    bool both;                  /* take_byte() was called by both at once */
    int inside;                 /* plain: the lock protects it */
    uint64_t bytes, on_standby; /* under the lock */
    uint64_t taken;
};

static bool take_byte(struct process *process)
{
    char byte;
    process->both |= process->inside++ != 0;
    const bool got = recv(process->own, &byte, 1, MSG_DONTWAIT) == 1;
    process->bytes += got;
    process->inside--;
    return got;
}

static bool work(void *context)
{
    struct process *process = context;
    const bool got = take_byte(process);
    process->on_standby += got;
    return got;
}

static bool arm(void *context)
{
    struct process *process = context;
    return standby_add(process->standby, process->own, true) == 0;
}

static bool left(void *context)
{
    return false;
}

static const struct standby_ops ops = {.work = work, .arm = arm, .left = left};

static void process_init(struct process *process, int fd)
{
    process->own = fd;
    cr_assert_eq(standby_new(&ops, process, &process->segment, &process->standby), 0);
}

static void process_deinit(struct process *process)
{
    cr_assert(!process->both);
    standby_free(process->standby);
    close(process->own);
}

static bool received(struct process *process)
{
    standby_enter(process->standby);
    take_byte(process);
    const bool any = process->bytes > process->taken;
    process->taken += any;
    standby_leave(process->standby);
    return any;
}

/* Sleeps at every opportunity, without a time-out. */
static void wait_for(struct process *process, bool (*ready)(struct process *))
{
    while (!ready(process)) {
        const uint32_t doorbell = notify_prepare_sleep(&process->segment);
        if (ready(process)) {
            notify_cancel_sleep(&process->segment);
            return;
        }
        standby_enter(process->standby);
        standby_wait(process->standby);
        standby_leave(process->standby);
        notify_sleep(&process->segment, doorbell, -1);
    }
}

static void *reply(void *argument)
{
    struct process *process = argument;
    for (int i = 0; i < ROUNDS; i++) {
        wait_for(process, received);
        if (send(process->own, "", 1, 0) != 1)
            abort();
    }
    return NULL;
}

struct two {
    struct process here, there;
    int fds[2];
};

static void two_init(struct two *two)
{
    *two = (struct two){0};
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, two->fds), 0);
    process_init(&two->here, two->fds[0]);
}

/* Both sleep in each wait: no wake-up is lost. */
Test(standby, sleepers_are_woken)
{
    static struct two two;
    pthread_t thread;
    two_init(&two);
    process_init(&two.there, two.fds[1]);
    cr_assert_eq(pthread_create(&thread, NULL, reply, &two.there), 0);
    for (int i = 0; i < ROUNDS; i++) {
        cr_assert_eq(send(two.here.own, "", 1, 0), 1);
        wait_for(&two.here, received);
    }
    pthread_join(thread, NULL);
    process_deinit(&two.here);
    process_deinit(&two.there);
}

static void pause_ms(long ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000};
    nanosleep(&pause, NULL);
}

static uint64_t bytes_of(struct process *process, uint64_t *ret_on_standby)
{
    standby_enter(process->standby);
    const uint64_t bytes = process->bytes;
    *ret_on_standby = process->on_standby;
    standby_leave(process->standby);
    return bytes;
}

/* Looks rarely, as a program that computes. */
Test(standby, a_program_that_computes, .timeout = 60)
{
    static struct two two;
    uint64_t on_standby;
    two_init(&two);
    for (uint64_t i = 1; i <= 20; i++) {
        cr_assert_eq(send(two.fds[1], "", 1, 0), 1);
        while (bytes_of(&two.here, &on_standby) < i)
            pause_ms(20);
        cr_assert_eq(on_standby, i);
    }
    process_deinit(&two.here);
    close(two.fds[1]);
}

/* While the program waits for tcad, and takes all events itself, the standby does not look, again
 * and again, whether that goes on; afterwards, it does its work. */
Test(standby, a_program_that_waits_for_tcad, .timeout = 60)
{
    static struct two two;
    uint64_t on_standby;
    two_init(&two);
    struct standby *standby = two.here.standby;
    for (uint64_t i = 1; i <= 20; i++) {
        standby_enter(standby);
        standby_block(standby, true);
        helper_wake(&standby->job); /* it may sleep already */
        while (i % 2 && atomic_load(&standby->rest) != STANDBY_STOPS)
            pause_ms(1);
        standby_block(standby, false);
        standby_leave(standby);
        cr_assert_eq(send(two.fds[1], "", 1, 0), 1);
        while (bytes_of(&two.here, &on_standby) < i)
            pause_ms(20);
        cr_assert_eq(on_standby, i);
    }
    process_deinit(&two.here);
    close(two.fds[1]);
}

/* What a program leaves behind in its own structures, without an event, is noticed. */
static bool left_behind;
static bool work_left(void *context)
{
    const bool any = left_behind;
    left_behind = false;
    return any;
}

static bool arm_unless_left(void *context)
{
    return !left_behind;
}

static bool leaves_behind(void *context)
{
    return left_behind;
}

Test(standby, what_is_left_behind, .timeout = 60)
{
    static const struct standby_ops left_ops = {
        .work = work_left, .arm = arm_unless_left, .left = leaves_behind};
    struct notify_segment segment = {0};
    struct standby *standby;
    cr_assert_eq(standby_new(&left_ops, NULL, &segment, &standby), 0);
    for (int i = 0; i < 20; i++) {
        pause_ms(i % 4); /* it naps or sleeps */
        standby_enter(standby);
        left_behind = true;
        standby_leave(standby);
        for (bool left = true; left; pause_ms(20)) {
            pthread_mutex_lock(&standby->lock); /* not as an entry */
            left = left_behind;
            pthread_mutex_unlock(&standby->lock);
        }
    }
    standby_free(standby);
}

/* Programs are bound to processors before and after they open a session. */
static cpu_set_t worked_on;
static bool work_somewhere(void *context)
{
    return sched_getaffinity(0, sizeof(worked_on), &worked_on) != 0;
}

static bool always(void *context)
{
    return true;
}

Test(standby, runs_where_the_program_may, .timeout = 60)
{
    static const struct standby_ops place_ops = {
        .work = work_somewhere, .arm = always, .left = always};
    struct notify_segment segment = {0};
    struct standby *standby;
    cpu_set_t all, one;
    cr_assert_eq(sched_getaffinity(0, sizeof(all), &all), 0);
    if (CPU_COUNT(&all) < 2)
        cr_skip_test("one processor only");
    cr_assert_eq(standby_new(&place_ops, NULL, &segment, &standby), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &all))
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        cr_assert_eq(sched_setaffinity(0, sizeof(one), &one), 0);
        for (bool there = false; !there; pause_ms(2)) {
            standby_enter(standby);
            there = CPU_EQUAL(&worked_on, &one);
            standby_leave(standby); /* wakes it up */
        }
    }
    standby_free(standby);
}

/* A busy thread lets the program in. */
static bool work_always(void *context)
{
    ++*(uint64_t *)context;
    return true;
}

static bool arm_never(void *context)
{
    return false;
}

Test(standby, a_thread_that_never_rests, .timeout = 60)
{
    static const struct standby_ops busy_ops = {
        .work = work_always, .arm = arm_never, .left = left};
    static uint64_t turns;
    struct notify_segment segment = {0};
    struct standby *standby;
    cr_assert_eq(standby_new(&busy_ops, &turns, &segment, &standby), 0);
    for (int i = 0; i < 200; i++) {
        standby_enter(standby);
        standby_enter(standby); /* nested */
        standby_leave(standby);
        standby_leave(standby);
        if (i % 20 == 0)
            pause_ms(5);
    }
    cr_assert_gt(turns, 0);
    standby_free(standby);
}

/* Also one that is made while the thread holds the lock: the child can use it, and free it. */
Test(standby, forked_children, .timeout = 120)
{
    static struct two two;
    forks_handle();
    two_init(&two);
    for (int i = 0; i < 100; i++) {
        int status;
        cr_assert_eq(send(two.fds[1], "x", 1, 0), 1);
        const pid_t child = fork();
        if (child == 0) {
            standby_enter(two.here.standby);
            standby_leave(two.here.standby);
            standby_free(two.here.standby);
            _exit(0);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0);
    }
    for (int i = 0; i < 100; i++)
        wait_for(&two.here, received);
    process_deinit(&two.here);
    close(two.fds[1]);
}
