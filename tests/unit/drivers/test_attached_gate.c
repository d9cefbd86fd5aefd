/* Gates of attached memory: a writer in another process, and the owner that closes the gate. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/shm/attached.h"

static const uint64_t name[2] = {7, 8}, next_name[2] = {7, 9};

static struct {
    struct attached_gate gate;
    uint8_t memory[4096];
} owner;
static struct attached_marks *marks;

struct writer {
    pid_t pid;
    int orders[2], answers[2];
};

enum { IS_ABOUT_TO_MARK = 1 };

static uint8_t from_there[sizeof owner.memory];
static const struct writer *halts; /* before its next store: of this process */

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long here_count,
                                 const struct iovec *there, unsigned long there_count,
                                 unsigned long flags);
ssize_t __real_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long here_count,
                                 const struct iovec *there, unsigned long there_count,
                                 unsigned long flags);

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *here, unsigned long here_count,
                                 const struct iovec *there, unsigned long there_count,
                                 unsigned long flags)
{
    if (halts) {
        const int r = IS_ABOUT_TO_MARK;
        char order;
        if (write(halts->answers[1], &r, sizeof r) != sizeof r ||
            read(halts->orders[0], &order, 1) != 1)
            _exit(1);
        halts = NULL;
    }
    return __real_process_vm_writev(pid, here, here_count, there, there_count, flags);
}

static void *enter_and_leave(void *attached)
{
    uint64_t mark;
    if (attached_enter(attached, &mark) != 0)
        return NULL;
    attached_leave(attached, mark);
    return attached;
}

/* 0: another thread of this process entered and left. */
static int send_thread(const struct attached *attached)
{
    pthread_t thread;
    void *result = NULL;
    if (pthread_create(&thread, NULL, enter_and_leave, (void *)attached) == 0)
        pthread_join(thread, &result);
    return result ? 0 : -ESRCH;
}

/* A writer that does what it is told to: 'e': enter, 'h': the same, but halt before its mark is
 * there, 's': store, 'l': leave, 't': have another thread enter and leave. */
static void write_on_order(const struct writer *writer, const struct attached *attached)
{
    uint64_t mark = 0;
    char order;
    while (read(writer->orders[0], &order, 1) == 1) {
        int r = 0;
        halts = order == 'h' ? writer : NULL;
        if (order == 'e' || order == 'h')
            r = attached_enter(attached, &mark);
        else if (order == 's')
            r = attached_write(attached, 0, from_there, sizeof from_there);
        else if (order == 't')
            r = send_thread(attached);
        else
            attached_leave(attached, mark);
        if (write(writer->answers[1], &r, sizeof r) != sizeof r)
            break;
    }
    _exit(0);
}

static int tell(const struct writer *writer, char order)
{
    int r = 1000;
    cr_assert_eq(write(writer->orders[1], &order, 1), 1);
    cr_assert_eq(read(writer->answers[0], &r, sizeof r), (ssize_t)sizeof r);
    return r;
}

static struct layout *make_layout(void)
{
    struct layout *layout;
    cr_assert_eq(layout_contiguous(sizeof owner.memory, &layout), 0);
    return layout;
}

/* Its process id modulo 256 is `residue`; -1: any. */
static struct writer writer_fork(const struct layout *layout, int residue)
{
    struct writer writer;
    const struct attached attached = {.pid = getpid(),
                                      .gate_address = (uint64_t)(uintptr_t)&owner.gate,
                                      .name = {name[0], name[1]},
                                      .address = (uint64_t)(uintptr_t)owner.memory,
                                      .layout = (struct layout *)layout};
    cr_assert(pipe(writer.orders) == 0 && pipe(writer.answers) == 0);
    for (unsigned tries = 0; tries < 100000; tries++) {
        writer.pid = fork();
        if (writer.pid == 0 && residue >= 0 && getpid() % 256 != residue)
            _exit(0);
        if (writer.pid == 0)
            write_on_order(&writer, &attached);
        if (residue < 0 || writer.pid % 256 == residue)
            return writer;
        waitpid(writer.pid, NULL, 0);
    }
    cr_assert_fail("no such process id");
    abort();
}

/* Skips the test where the kernel does not let a child write into its parent. */
static struct writer writer_begin(const struct layout *layout)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    marks = attached_marks_new();
    cr_assert_not_null(marks);
    attached_gate_open(&owner.gate, marks, name);
    memset(from_there, 0xbb, sizeof from_there);
    const struct writer writer = writer_fork(layout, -1);
    const int r = tell(&writer, 'e');
    if (r == -EPERM) {
        kill(writer.pid, SIGKILL);
        cr_skip_test("no cross-memory attach here");
    }
    cr_assert_eq(r, 0);
    return writer;
}

static void writer_end(const struct writer *writer)
{
    kill(writer->pid, SIGKILL);
    waitpid(writer->pid, NULL, 0);
}

Test(attached_gate, a_closed_gate_waits_for_the_writer_that_is_there, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout);
    cr_assert_eq(attached_writer(marks, name[1]), writer.pid);
    cr_assert_eq(attached_writer(marks, next_name[1]), 0, "of another region");
    attached_gate_close(&owner.gate);
    cr_assert_eq(attached_writer(marks, name[1]), writer.pid, "it may still store");
    cr_assert_eq(tell(&writer, 's'), 0);
    cr_assert_eq(owner.memory[4095], 0xbb);
    cr_assert_eq(tell(&writer, 'l'), 0);
    cr_assert_eq(attached_writer(marks, name[1]), 0);
    cr_assert_eq(tell(&writer, 'e'), -ESTALE);
    cr_assert_eq(attached_writer(marks, name[1]), 0, "who was turned away is not there");
    attached_gate_open(&owner.gate, marks, next_name); /* of another region */
    cr_assert_eq(tell(&writer, 'e'), -ESTALE);
    cr_assert_eq(attached_writer(marks, name[1]), 0);
    attached_gate_open(&owner.gate, marks, name);
    cr_assert_eq(tell(&writer, 'e'), 0);
    writer_end(&writer);
    free(layout);
}

/* The gate is closed after a writer's first look at it, and before its mark is there. */
Test(attached_gate, a_writer_that_comes_late_is_turned_away, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout);
    cr_assert_eq(tell(&writer, 'l'), 0);
    for (int reused = 0; reused < 2; reused++) {
        attached_gate_open(&owner.gate, marks, name);
        cr_assert_eq(tell(&writer, 'h'), IS_ABOUT_TO_MARK);
        attached_gate_close(&owner.gate);
        cr_assert_eq(attached_writer(marks, name[1]), 0, "so the region is freed");
        if (reused)
            attached_gate_open(&owner.gate, marks, next_name);
        cr_assert_eq(tell(&writer, 'c'), -ESTALE);
        cr_assert_eq(attached_writer(marks, name[1]), 0, "who was turned away is not there");
    }
    writer_end(&writer);
    free(layout);
}

/* Another writer that enters and leaves does not take away the mark of one that is there. */
Test(attached_gate, writers_do_not_hide_each_other, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout),
                        other = writer_fork(layout, writer.pid % 256);
    cr_assert_neq(other.pid, writer.pid);
    cr_assert_eq(tell(&other, 'e'), 0);
    cr_assert_eq(tell(&other, 'l'), 0);
    cr_assert_eq(attached_writer(marks, name[1]), writer.pid);
    cr_assert_eq(tell(&writer, 't'), 0);
    cr_assert_eq(attached_writer(marks, name[1]), writer.pid);
    cr_assert_eq(tell(&other, 'e'), 0);
    cr_assert_eq(tell(&writer, 'l'), 0);
    cr_assert_eq(attached_writer(marks, name[1]), other.pid);
    writer_end(&writer);
    writer_end(&other);
    free(layout);
}

Test(attached_gate, a_writer_that_was_killed_is_not_waited_for, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout);
    siginfo_t info;
    attached_gate_close(&owner.gate);
    kill(writer.pid, SIGSTOP);
    cr_assert_eq(attached_writer(marks, name[1]), writer.pid, "stopped, it may still store");
    kill(writer.pid, SIGKILL);
    cr_assert_eq(waitid(P_PID, (id_t)writer.pid, &info, WEXITED | WNOWAIT), 0);
    cr_assert_eq(attached_writer(marks, name[1]), 0, "a zombie stores nothing");
    writer_end(&writer);
    cr_assert_eq(attached_writer(marks, name[1]), 0);
    free(layout);
}

Test(attached_gate, what_is_no_gate_is_not_written_to, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout);
    cr_assert_eq(tell(&writer, 'l'), 0);
    owner.gate.self_address++;
    marks->used[writer.pid / ATTACHED_PAGE_THREADS] = 77;
    marks->regions[writer.pid] = 77;
    cr_assert_eq(tell(&writer, 'e'), -EOWNERDEAD);
    cr_assert_eq(marks->used[writer.pid / ATTACHED_PAGE_THREADS], 77);
    cr_assert_eq(marks->regions[writer.pid], 77);
    writer_end(&writer);
    free(layout);
}
