/* Gates of attached memory: a writer in another process, and the owner that closes the gate. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "drivers/shm/attached.h"

static const uint64_t name[2] = {7, 8}, next_name[2] = {7, 9};

static struct {
    struct attached_gate gate;
    uint8_t memory[4096];
} owner;

struct writer {
    pid_t pid;
    int orders[2], answers[2];
};

static uint8_t from_there[sizeof owner.memory];

/* A writer that enters, stores, and leaves when it is told to: 'e', 's', 'l'. */
static void write_on_order(const struct writer *writer, const struct attached *attached)
{
    char order;
    while (read(writer->orders[0], &order, 1) == 1) {
        int r = 0;
        if (order == 'e')
            r = attached_enter(attached);
        else if (order == 's')
            r = attached_write(attached, 0, from_there, sizeof from_there);
        else
            attached_leave(attached);
        if (write(writer->answers[1], &r, sizeof r) != sizeof r)
            break;
    }
    _exit(0);
}

static int tell(const struct writer *writer, char order)
{
    int r = 1;
    cr_assert_eq(write(writer->orders[1], &order, 1), 1);
    cr_assert_eq(read(writer->answers[0], &r, sizeof r), (ssize_t)sizeof r);
    return r;
}

/* Skips the test where the kernel does not let a child write into its parent. */
static struct writer writer_begin(struct layout *layout)
{
    struct writer writer;
    const struct attached attached = {.pid = getpid(),
                                      .gate_address = (uint64_t)(uintptr_t)&owner.gate,
                                      .name = {name[0], name[1]},
                                      .address = (uint64_t)(uintptr_t)owner.memory,
                                      .layout = layout};
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    attached_gate_open(&owner.gate, name);
    memset(from_there, 0xbb, sizeof from_there);
    cr_assert(pipe(writer.orders) == 0 && pipe(writer.answers) == 0);
    writer.pid = fork();
    if (writer.pid == 0)
        write_on_order(&writer, &attached);
    const int r = tell(&writer, 'e');
    if (r == -EPERM) {
        kill(writer.pid, SIGKILL);
        cr_skip_test("no cross-memory attach here");
    }
    cr_assert_eq(r, 0);
    return writer;
}

static struct layout *make_layout(void)
{
    struct layout *layout;
    cr_assert_eq(layout_contiguous(sizeof owner.memory, &layout), 0);
    return layout;
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
    cr_assert_eq(attached_gate_writer(&owner.gate), writer.pid);
    attached_gate_close(&owner.gate);
    cr_assert_eq(attached_gate_writer(&owner.gate), writer.pid, "it may still store");
    cr_assert_eq(tell(&writer, 's'), 0);
    cr_assert_eq(owner.memory[4095], 0xbb);
    cr_assert_eq(tell(&writer, 'l'), 0);
    cr_assert_eq(attached_gate_writer(&owner.gate), 0);
    cr_assert_eq(tell(&writer, 'e'), -ESTALE);
    cr_assert_eq(attached_gate_writer(&owner.gate), 0, "who was turned away is not there");
    attached_gate_open(&owner.gate, next_name); /* of another region */
    cr_assert_eq(tell(&writer, 'e'), -ESTALE);
    cr_assert_eq(attached_gate_writer(&owner.gate), 0);
    attached_gate_open(&owner.gate, name);
    cr_assert_eq(tell(&writer, 'e'), 0);
    writer_end(&writer);
    free(layout);
}

Test(attached_gate, a_writer_that_was_killed_is_not_waited_for, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout);
    attached_gate_close(&owner.gate);
    kill(writer.pid, SIGSTOP);
    cr_assert_eq(attached_gate_writer(&owner.gate), writer.pid, "stopped, it may still store");
    writer_end(&writer);
    cr_assert_eq(attached_gate_writer(&owner.gate), 0);
    free(layout);
}

Test(attached_gate, what_is_no_gate_is_not_written_to, .timeout = 60)
{
    struct layout *layout = make_layout();
    const struct writer writer = writer_begin(layout);
    cr_assert_eq(tell(&writer, 'l'), 0);
    owner.gate.writers_address++;
    memset(owner.gate.writers, 0x77, sizeof owner.gate.writers);
    cr_assert_eq(tell(&writer, 'e'), -EOWNERDEAD);
    for (unsigned i = 0; i < ATTACHED_WRITERS; i++)
        cr_assert_eq(owner.gate.writers[i], 0x77777777);
    writer_end(&writer);
    free(layout);
}
