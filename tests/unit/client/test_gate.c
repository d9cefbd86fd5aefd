/* Freeing attached memory while another process stores to it. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/core/session.h"
#include "client/memory/gate.h"
#include "client/memory/region.h"
#include "tests/unit/client/kit.h"

enum { MILLISECOND = 1000000 };

static struct kit kit;
static uint8_t memory[4096];

static struct {
    struct tca_region *region;
    struct attached from_there;
    struct layout *layout;
    _Atomic uint8_t *shared; /* with the writers */
} world;

static void setup(void)
{
    kit_init(&kit, FAKE_HONEST);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    cr_assert_eq(tca_region_attach(kit.session, memory, sizeof memory, &world.region), 0);
    cr_assert_eq(layout_contiguous(sizeof memory, &world.layout), 0);
    const struct attached_gate *gate = world.region->gate;
    world.from_there = (struct attached){.pid = getpid(),
                                         .gate_address = (uint64_t)(uintptr_t)gate,
                                         .name = {gate->name[0], gate->name[1]},
                                         .address = (uint64_t)(uintptr_t)memory,
                                         .layout = world.layout};
    world.shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(world.shared, MAP_FAILED);
}

static void end(void)
{
    free(world.layout);
    munmap((void *)world.shared, 4096);
    kit_deinit(&kit);
}

TestSuite(gate, .init = setup, .fini = end, .timeout = 60);

/* What a writer gets at the gate. */
static int try_to_enter(void)
{
    const pid_t child = fork();
    int status;
    if (child == 0) {
        uint64_t mark;
        const int r = attached_enter(&world.from_there, &mark);
        if (r == 0)
            attached_leave(&world.from_there, mark);
        _exit(-r);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    return -WEXITSTATUS(status);
}

enum { ENTERED, TURNED_AWAY }; /* in world.shared */

static void tell(unsigned what)
{
    atomic_store(&world.shared[what], 1);
}

static void await(unsigned what)
{
    while (atomic_load(&world.shared[what]) == 0)
        usleep(100);
}

/* A writer that has entered; it stores and leaves when another one has been turned away. Skips the
 * test where the kernel does not let a child write into its parent. */
static pid_t writer(void)
{
    if (try_to_enter() == -EPERM)
        cr_skip_test("no cross-memory attach here");
    const pid_t child = fork();
    if (child == 0) {
        const uint8_t data[sizeof memory] = {[sizeof memory - 1] = 0xbb};
        uint64_t mark;
        if (attached_enter(&world.from_there, &mark) != 0)
            _exit(1);
        tell(ENTERED);
        await(TURNED_AWAY);
        attached_write(&world.from_there, 0, data, sizeof data);
        attached_leave(&world.from_there, mark);
        _exit(0);
    }
    await(ENTERED);
    return child;
}

Test(gate, freeing_turns_writers_away_and_waits_for_those_that_are_there)
{
    const pid_t first = writer(), second = fork();
    if (second == 0) {
        uint64_t mark;
        while (attached_enter(&world.from_there, &mark) == 0)
            attached_leave(&world.from_there, mark);
        tell(TURNED_AWAY);
        _exit(0);
    }
    cr_assert_eq(tca_region_free(world.region), 0, "%s", tca_error_text());
    cr_assert_eq(memory[sizeof memory - 1], 0xbb, "it stores after the region was freed");
    cr_assert_eq(try_to_enter(), -ESTALE);
    cr_assert_eq(waitpid(first, NULL, 0), first);
    cr_assert_eq(waitpid(second, NULL, 0), second);
}

Test(gate, a_writer_that_stays_is_named_and_the_region_is_kept)
{
    const pid_t child = writer();
    char name[32];
    kit.session->settings.timeout_ns = 20 * MILLISECOND;
    cr_assert_eq(tca_region_free(world.region), -ETIMEDOUT);
    snprintf(name, sizeof name, "thread %d ", (int)child);
    cr_assert(strstr(tca_error_text(), name) != NULL, "%s", tca_error_text());
    cr_assert_eq(try_to_enter(), 0);
    kill(child, SIGKILL);
    kit.session->settings.timeout_ns = 10000 * MILLISECOND; /* it may need a while to end */
    cr_assert_eq(tca_region_free(world.region), 0);
    cr_assert_eq(try_to_enter(), -ESTALE);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* Its memory is a copy: nobody writes there, whatever marks the copy has. */
Test(gate, a_forked_process_does_not_wait)
{
    const pid_t child = writer();
    int status;
    kit.session->settings.timeout_ns = 20 * MILLISECOND;
    const pid_t forked = fork();
    if (forked == 0)
        _exit(-gate_close(kit.session, world.region->gate));
    cr_assert_eq(waitpid(forked, &status, 0), forked);
    cr_assert_eq(status, 0);
    kill(child, SIGKILL);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

/* A gate is used again, for the next region. */
Test(gate, a_writer_to_a_freed_region_does_not_enter_the_next)
{
    if (try_to_enter() == -EPERM)
        cr_skip_test("no cross-memory attach here");
    const struct attached_gate *gate = world.region->gate;
    cr_assert_eq(tca_region_free(world.region), 0);
    cr_assert_eq(tca_region_attach(kit.session, memory, sizeof memory, &world.region), 0);
    cr_assert_eq(world.region->gate, gate);
    world.from_there.name[1]--; /* the fake tcad grants the same one */
    cr_assert_eq(try_to_enter(), -ESTALE);
    world.from_there.name[1]++;
    cr_assert_eq(try_to_enter(), 0);
}
