/*
 * Two programs that send one another a byte at a time, and take it themselves or let their standby
 * thread take it: they spin, sleep in a wait, or compute, in turn. What both threads touch is plain
 * memory, for the thread sanitizer to look at.
 */
#include <errno.h>
#include <sched.h>
#include <sys/socket.h>
#include <time.h>

#include "client/core/standby.h"
#include "proto/notify.h"
#include "tests/unit/proto/stress.h"

struct program {
    int own;
    struct notify_segment segment;
    struct standby *standby;
    uint64_t bytes, early; /* received; by the thread */
    uint64_t taken;
};

struct shared {
    struct program programs[2];
};

static bool receive(struct program *program)
{
    char byte;
    const bool got = recv(program->own, &byte, 1, MSG_DONTWAIT) == 1;
    program->bytes += got;
    return got;
}

static bool work(void *context)
{
    struct program *program = context;
    const bool got = receive(program);
    program->early += got;
    return got;
}

static bool arm(void *context)
{
    struct program *program = context;
    return standby_add(program->standby, program->own, true) == 0;
}

static bool left(void *context)
{
    return false;
}

static bool take(struct program *program)
{
    standby_enter(program->standby);
    receive(program);
    const bool any = program->bytes > program->taken;
    program->taken += any;
    standby_leave(program->standby);
    return any;
}

static void sleep_once(struct program *program, uint64_t round)
{
    const uint32_t doorbell = notify_prepare_sleep(&program->segment);
    standby_enter(program->standby);
    const bool any = program->bytes > program->taken;
    if (!any)
        standby_wait(program->standby);
    standby_leave(program->standby);
    if (any)
        notify_cancel_sleep(&program->segment);
    else if (notify_sleep(&program->segment, doorbell, STRESS_LOST_NS) == -ETIMEDOUT)
        stress_fail("nobody woke a program that sleeps, in round %llu", (unsigned long long)round);
}

static void run(struct stress *stress, unsigned number)
{
    static const struct standby_ops ops = {.work = work, .arm = arm, .left = left};
    struct program *program = &((struct shared *)stress->shared)->programs[number];
    const struct timespec compute = {.tv_nsec = 3000000};
    if (standby_new(&ops, program, &program->segment, &program->standby) < 0)
        stress_fail("no standby thread");
    for (uint64_t i = 0; i < stress->iterations; i++) {
        if (number == 0 && send(program->own, "", 1, 0) != 1)
            stress_fail("cannot send: %m");
        if (i % 512 < 8)
            nanosleep(&compute, NULL);
        while (!take(program))
            if (i % 2)
                sleep_once(program, i);
            else
                sched_yield();
        if (number == 1 && send(program->own, "", 1, 0) != 1)
            stress_fail("cannot send: %m");
    }
    standby_free(program->standby);
    if (stress->iterations >= 512 && program->early == 0)
        stress_fail("the standby thread never took anything");
}

static void one(struct stress *stress)
{
    run(stress, 0);
}

static void other(struct stress *stress)
{
    run(stress, 1);
}

int main(int argc, char **argv)
{
    static struct shared shared;
    int fds[2];
    struct stress stress = {.shared = &shared,
                            .iterations = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) < 0)
        stress_fail("no sockets: %m");
    shared.programs[0].own = fds[0];
    shared.programs[1].own = fds[1];
    stress_threads(&stress, one, other);
    return 0;
}
