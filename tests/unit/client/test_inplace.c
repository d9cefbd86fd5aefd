/* Memory that is made shared where it is (client/memory/inplace.h). */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/forks.h"
#include "client/include/tca.h"
#include "client/memory/inplace.h"

enum { PAGE = 4096, HUGE = 2 << 20 };

TestSuite(inplace, .init = forks_handle, .timeout = 120);

/* The stack of a thread that forks becomes private only in part. */
static bool fails_half_way;
int __real_inplace_move(const struct inplace_parts *parts, enum inplace_kind kind, int fd,
                        bool alone, uint8_t *before, uintptr_t *ret_done);
int __wrap_inplace_move(const struct inplace_parts *parts, enum inplace_kind kind, int fd,
                        bool alone, uint8_t *before, uintptr_t *ret_done);
int __wrap_inplace_move(const struct inplace_parts *parts, enum inplace_kind kind, int fd,
                        bool alone, uint8_t *before, uintptr_t *ret_done)
{
    struct inplace_part first;
    const struct inplace_parts half = {.list = &first, .count = 1};
    if (!fails_half_way || kind != INPLACE_PRIVATE || !before)
        return __real_inplace_move(parts, kind, fd, alone, before, ret_done);
    first = parts->list[0];
    first.end = first.first + (first.end - first.first) / PAGE / 2 * PAGE;
    fails_half_way = false;
    const int r = __real_inplace_move(&half, kind, fd, alone, before, ret_done);
    return r < 0 ? r : -ENOMEM;
}

static uint8_t *anonymous(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(memory, MAP_FAILED);
    return memory;
}

/* Shares it, and maps its pages once more, as another process would. */
static uint8_t *share(void *memory, size_t bytes)
{
    const uintptr_t at = (uintptr_t)memory, first = at & ~(uintptr_t)(PAGE - 1);
    int fd;
    if (getenv("TCA_TEST_EMULATED"))
        cr_skip_test("qemu-user has threads of its own, and no userfaultfd() that could hold them");
    cr_assert_eq(inplace_share(memory, bytes, &fd), 0, "%s", tca_error_text());
    uint8_t *there =
        mmap(NULL, at + bytes - first, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)first);
    cr_assert_neq(there, MAP_FAILED);
    return there + (at - first);
}

static void fill(uint8_t *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)(seed + i * 7 + (i >> 12) * 13);
}

static void check(const uint8_t *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        cr_assert_eq(memory[i], (uint8_t)(seed + i * 7 + (i >> 12) * 13), "byte %zu", i);
}

Test(inplace, both_see_the_same)
{
    static const size_t sizes[] = {1, 100, PAGE, PAGE + 1, 300000, HUGE, 3 * HUGE + 5 * PAGE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const size_t bytes = sizes[i];
        uint8_t *memory = malloc(bytes);
        fill(memory, bytes, 1);
        uint8_t *there = share(memory, bytes);
        check(memory, bytes, 1);
        check(there, bytes, 1);
        fill(there, bytes, 2);
        check(memory, bytes, 2);
        fill(memory, bytes, 3);
        check(there, bytes, 3);
        inplace_unshare(memory, bytes);
        check(memory, bytes, 3);
        memset(there, 0, bytes); /* reaches nobody */
        check(memory, bytes, 3);
        free(memory);
    }
}

Test(inplace, neighbours_keep_what_they_have)
{
    uint8_t *memory = anonymous(3 * PAGE);
    fill(memory, 3 * PAGE, 5);
    uint8_t *there = share(memory + PAGE + 10, 20);
    check(memory, 3 * PAGE, 5);
    there[0] = 1;
    memory[PAGE + 10]--;
    cr_assert_eq(there[0], 0);
    inplace_unshare(memory + PAGE + 10, 20);
}

Test(inplace, ranges_may_overlap)
{
    uint8_t *memory = anonymous(8 * PAGE);
    uint8_t *all = share(memory, 8 * PAGE), *part = share(memory + 100, 3 * PAGE);
    all[200] = 1;
    cr_assert_eq(part[100], 1);
    inplace_unshare(memory, 8 * PAGE);
    part[100] = 2;
    cr_assert_eq(memory[200], 2);
    all[6 * PAGE] = 3; /* not shared any more */
    cr_assert_eq(memory[6 * PAGE], 0);
    inplace_unshare(memory + 100, 3 * PAGE);
    part[100] = 4;
    cr_assert_eq(memory[200], 2);
}

Test(inplace, untouched_memory_is_zero)
{
    uint8_t *memory = anonymous(2 * HUGE);
    const uint8_t *there = share(memory, 2 * HUGE);
    for (size_t i = 0; i < 2 * HUGE; i++)
        cr_assert_eq(there[i], 0);
}

Test(inplace, protection_remains)
{
    uint8_t *memory = anonymous(PAGE);
    fill(memory, PAGE, 9);
    mprotect(memory, PAGE, PROT_READ);
    const uint8_t *there = share(memory, PAGE);
    check(there, PAGE, 9);
    inplace_unshare(memory, PAGE);
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile uint8_t *)memory = 1;
        _exit(0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    /* SIGABRT: its first function finds no canary on the empty page that Linux gives it */
    cr_assert(WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGABRT));
}

static uint64_t locked_kb(void)
{
    char line[128];
    unsigned long value = 0;
    FILE *from = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof(line), from))
        sscanf(line, "VmLck: %lu", &value);
    fclose(from);
    return value;
}

Test(inplace, locked_memory_stays_locked)
{
    uint8_t *memory = anonymous(8 * PAGE);
    if (mlock(memory, 4 * PAGE) < 0 || locked_kb() != 16) /* sanitizers do not lock */
        cr_skip_test("cannot lock memory");
    share(memory, 8 * PAGE);
    cr_assert_eq(locked_kb(), 16);
    inplace_unshare(memory, 8 * PAGE);
    cr_assert_eq(locked_kb(), 16);
}

/* ---- what cannot be shared ---- */

static void refused(const void *memory, size_t bytes, int error, const char *why)
{
    int fd;
    cr_assert_eq(inplace_share(memory, bytes, &fd), error, "%s", tca_error_text());
    cr_assert(strstr(tca_error_text(), why), "%s", tca_error_text());
}

Test(inplace, says_what_it_cannot_share)
{
    uint8_t *hole = anonymous(3 * PAGE);
    munmap(hole + PAGE, PAGE);
    refused(hole, 2 * PAGE, -EFAULT, "nothing is mapped");
    refused((void *)(uintptr_t)16, 8, -EFAULT, "nothing is mapped");
    mprotect(hole, PAGE, PROT_NONE);
    refused(hole, 8, -EFAULT, "not readable");
    refused((void *)(uintptr_t)&refused, 8, -EOPNOTSUPP, "code");
    refused((void *)pthread_self(), 8, -EOPNOTSUPP, "control block");
    void *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    refused(shared, PAGE, -EOPNOTSUPP, "shared with");
}

/* ---- stacks ---- */

/* With frames in the same pages, which go on. */
static unsigned deeper(unsigned depth, uint8_t *local, uint8_t *there)
{
    volatile unsigned frame = depth;
    there[depth] = (uint8_t)depth;
    const unsigned sum = depth > 0 ? deeper(depth - 1, local, there) : 0;
    return sum + frame * (local[depth] == depth);
}

static void expect_success(pid_t child);

static void use_stack(void)
{
    uint8_t local[300] = {0};
    for (unsigned round = 0; round < 20; round++) {
        memset(local, (int)round, sizeof(local));
        uint8_t *there = share(local, sizeof(local));
        cr_assert_eq(there[7], round);
        cr_assert_eq(deeper(100, local, there), 5050);
        /* during fork(), what others store arrives, and both go on with what they had */
        const pid_t child = fork();
        if (child == 0) {
            local[5] = 99;
            _exit(deeper(100, local, local) != 5050 || there[5] == 99);
        }
        expect_success(child);
        cr_assert_eq(local[5], 5);
        there[6] = (uint8_t)(100 + round);
        cr_assert_eq(local[6], 100 + round);
        inplace_unshare(local, sizeof(local));
        there[6] = 3;
        cr_assert_eq(local[6], 100 + round);
        munmap((void *)((uintptr_t)there & ~(uintptr_t)(PAGE - 1)), sizeof(local));
    }
}

Test(inplace, the_own_stack)
{
    use_stack();
}

/* The child ends; the parent's pages are shared as before, and have lost nothing. */
Test(inplace, a_stack_that_cannot_be_private)
{
    enum { BYTES = 8 * PAGE };
    uint8_t local[BYTES];
    int status;
    fill(local, BYTES, 3);
    uint8_t *there = share(local, BYTES);
    fails_half_way = true;
    void (*handler)(int) = signal(SIGSEGV, SIG_DFL);
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    signal(SIGSEGV, handler);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (fails_half_way)
        cr_skip_test("a sanitizer has put the array elsewhere");
    /* SIGABRT: the compiler's check of the stack has found it changed */
    bool ends = WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGABRT);
#ifdef __SANITIZE_ADDRESS__ /* which moves the array: the child may need none of what is gone */
    ends = ends || status == 0;
#endif
    cr_assert(ends, "status %#x", status);
    check(local, BYTES, 3);
    fill(there, BYTES, 4);
    check(local, BYTES, 4);
    fill(local, BYTES, 5);
    check(there, BYTES, 5);
    const pid_t other = fork(); /* the next one has all of it */
    if (other == 0)
        _exit(local[PAGE] != there[PAGE] || deeper(100, local, local) != 5050);
    expect_success(other);
}

static void *thread_uses_stack(void *context)
{
    use_stack();
    return context;
}

Test(inplace, the_own_stack_of_a_thread)
{
    pthread_t thread;
    pthread_create(&thread, NULL, thread_uses_stack, NULL);
    pthread_join(thread, NULL);
}

static void *share_other_stack(void *local)
{
    refused(local, 1, -EOPNOTSUPP, "stack");
    return NULL;
}

Test(inplace, not_the_main_thread_s_from_another)
{
    pthread_t thread;
    uint8_t local = 0;
    if (gettid() != getpid())
        cr_skip_test("the test is not in the main thread");
    pthread_create(&thread, NULL, share_other_stack, &local);
    pthread_join(thread, NULL);
}

Test(inplace, nothing_remains_of_a_refusal)
{
    uint8_t *memory = anonymous(3 * PAGE);
    fill(memory, 3 * PAGE, 4);
    munmap(memory + 2 * PAGE, PAGE);
    refused(memory, 3 * PAGE, -EFAULT, "nothing is mapped");
    uint8_t *there = share(memory, PAGE);
    there[0]++;
    cr_assert_eq(memory[0], 5);
    inplace_unshare(memory, PAGE);
}

Test(inplace, a_limit_of_file_sizes)
{
    const struct rlimit limit = {1 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_FSIZE, &limit);
    refused(anonymous(PAGE), PAGE, -EFBIG, "ulimit -f");
}

/* ---- threads ---- */

enum { WRITERS = 3, COUNTERS = 3000 };

static struct {
    _Atomic bool stop;
    uint64_t *counters; /* counter i belongs to writer i % WRITERS */
} busy;

static void *write_always(void *context)
{
    const size_t me = (size_t)context;
    uint64_t *mine = calloc(COUNTERS, sizeof(*mine));
    uint64_t lost = 0;
    while (!atomic_load(&busy.stop)) {
        for (size_t i = me; i < COUNTERS; i += WRITERS) {
            lost += ((volatile uint64_t *)busy.counters)[i * 64] != mine[i];
            ((volatile uint64_t *)busy.counters)[i * 64] = ++mine[i];
        }
    }
    free(mine);
    return (void *)lost;
}

static void start_writers(pthread_t threads[WRITERS])
{
    busy.counters = (uint64_t *)(anonymous(COUNTERS * 64 * sizeof(uint64_t) + PAGE) + 8);
    for (size_t i = 0; i < WRITERS; i++)
        pthread_create(&threads[i], NULL, write_always, (void *)i);
}

static void stop_writers(pthread_t threads[WRITERS])
{
    atomic_store(&busy.stop, true);
    for (size_t i = 0; i < WRITERS; i++) {
        void *lost;
        pthread_join(threads[i], &lost);
        cr_assert_null(lost, "writer %zu lost %zu stores", i, (size_t)lost);
    }
}

Test(inplace, no_store_of_another_thread_is_lost)
{
    pthread_t threads[WRITERS];
    start_writers(threads);
    for (unsigned round = 0; round < 30; round++) {
        share(busy.counters, COUNTERS * 64 * sizeof(uint64_t));
        inplace_unshare(busy.counters, COUNTERS * 64 * sizeof(uint64_t));
    }
    stop_writers(threads);
}

static uint64_t initialized[4 * PAGE / sizeof(uint64_t)] = {1, 2, 3};

static void expect_success(pid_t child)
{
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", (unsigned)status);
}

Test(inplace, initialized_data)
{
    pthread_t threads[WRITERS];
    uint64_t *part = initialized + PAGE / sizeof(uint64_t);
    start_writers(threads); /* elsewhere */
    for (unsigned round = 0; round < 3; round++) {
        part[1] = 5;
        uint64_t *there = (uint64_t *)(void *)share(part, PAGE);
        cr_assert_eq(there[1], 5);
        there[1] = 6 + round;
        inplace_unshare(part, PAGE);
        cr_assert_eq(part[1], 6 + round);
        cr_assert_eq(initialized[2], 3);
    }
    stop_writers(threads);
}

/* ---- forks ---- */

Test(inplace, a_child_has_its_own)
{
    const size_t bytes = HUGE + 5 * PAGE;
    uint8_t *memory = anonymous(bytes), *other = malloc(100);
    int go[2];
    char byte = 0;
    cr_assert_eq(pipe(go), 0);
    fill(memory, bytes, 1);
    strcpy((char *)other, "kept");
    uint8_t *there = share(memory, bytes);
    share(other, 100);
    fill(there, bytes, 2);
    const pid_t child = fork();
    if (child == 0) { /* exits with 1 if something is not as it was at the fork */
        for (size_t i = 0; i < bytes; i++)
            if (memory[i] != (uint8_t)(2 + i * 7 + (i >> 12) * 13))
                _exit(1);
        memset(memory, 99, bytes);
        strcpy((char *)other, "changed");
        if (write(go[1], &byte, 1) != 1 || usleep(1000) < 0)
            _exit(2);
        for (unsigned i = 0; i < 100; i++, usleep(1000))
            if (memory[i * PAGE % bytes] != 99)
                _exit(3);
        uint8_t *again; /* a child may share memory of its own */
        int fd;
        if (inplace_share(memory, bytes, &fd) < 0 ||
            (again = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, (off_t)(uintptr_t)memory)) ==
                MAP_FAILED ||
            again[5] != 99)
            _exit(4);
        _exit(0);
    }
    cr_assert_eq(read(go[0], &byte, 1), 1);
    check(memory, bytes, 2);
    cr_assert_str_eq((char *)other, "kept");
    fill(memory, bytes, 3); /* while the child looks */
    expect_success(child);
    check(there, bytes, 3);
}

Test(inplace, forks_of_forks_and_of_threads)
{
    pthread_t threads[WRITERS];
    start_writers(threads);
    uint8_t *memory = anonymous(4 * PAGE);
    fill(memory, 4 * PAGE, 6);
    share(memory, 4 * PAGE);
    share(busy.counters, 1000);
    for (unsigned i = 0; i < 10; i++) {
        const pid_t child = fork();
        if (child == 0) {
            const pid_t grandchild = fork();
            memory[PAGE] = (uint8_t)i;
            if (grandchild == 0)
                _exit(0);
            int status = 0;
            waitpid(grandchild, &status, 0);
            _exit(status != 0);
        }
        expect_success(child);
        check(memory, 4 * PAGE, 6);
    }
    stop_writers(threads);
}

/* A child has the contents and the protection of pages that its parent may not read now. */
Test(inplace, memory_without_access)
{
    uint8_t *memory = anonymous(4 * PAGE);
    fill(memory, 4 * PAGE, 8);
    uint8_t *there = share(memory, 4 * PAGE);
    cr_assert_eq(mprotect(memory + PAGE, PAGE, PROT_NONE), 0);
    const pid_t child = fork();
    if (child == 0) {
        const pid_t grandchild = fork();
        int status;
        if (grandchild == 0) {
            signal(SIGSEGV, SIG_DFL);
            _exit(memory[PAGE]);
        }
        if (waitpid(grandchild, &status, 0) != grandchild || !WIFSIGNALED(status) ||
            mprotect(memory + PAGE, PAGE, PROT_READ | PROT_WRITE) < 0)
            _exit(1);
        for (size_t i = 0; i < 4 * PAGE; i++)
            if (memory[i] != (uint8_t)(8 + i * 7 + (i >> 12) * 13))
                _exit(2);
        memset(memory, 9, 4 * PAGE);
        _exit(0);
    }
    expect_success(child);
    check(there, 4 * PAGE, 8);
    inplace_unshare(memory, 4 * PAGE);
    cr_assert_eq(mprotect(memory + PAGE, PAGE, PROT_READ), 0);
    check(memory, 4 * PAGE, 8);
}

/* A program that unmaps what it has shared gets its memory, and so do its children. */
Test(inplace, unmapped_behind_its_back)
{
    uint8_t *memory = anonymous(4 * PAGE);
    fill(memory, 4 * PAGE, 8);
    share(memory, 4 * PAGE);
    munmap(memory + PAGE, PAGE);
    const pid_t child = fork();
    if (child == 0) {
        memory[0] = 1;
        _exit(memory[2 * PAGE] != (uint8_t)(8 + 2 * PAGE * 7 + 2 * 13));
    }
    expect_success(child);
    check(memory, PAGE, 8);
    inplace_unshare(memory, 4 * PAGE);
    check(memory, PAGE, 8);
}

/* ---- at random, against a plain copy ---- */

enum { PAGES = 40, ROUNDS = 600, RANGES = 6 };

Test(inplace, random_ranges)
{
    uint8_t *memory = anonymous(PAGES * PAGE), *copy = malloc(PAGES * PAGE);
    struct {
        size_t first, bytes;
        uint8_t *there;
    } ranges[RANGES] = {0};
    srand(28);
    memset(copy, 0, PAGES * PAGE);
    for (unsigned round = 0; round < ROUNDS; round++) {
        const unsigned i = (unsigned)rand() % RANGES;
        if (ranges[i].bytes == 0) {
            ranges[i].first = (size_t)rand() % (PAGES * PAGE);
            ranges[i].bytes = 1 + (size_t)rand() % (PAGES * PAGE - ranges[i].first);
            ranges[i].there = share(memory + ranges[i].first, ranges[i].bytes);
        } else if (rand() % 3 == 0) {
            inplace_unshare(memory + ranges[i].first, ranges[i].bytes);
            ranges[i].bytes = 0;
        } else { /* a store from outside */
            const size_t at = (size_t)rand() % ranges[i].bytes;
            copy[ranges[i].first + at] = ranges[i].there[at] = (uint8_t)rand();
        }
        const size_t at = (size_t)rand() % (PAGES * PAGE);
        copy[at] = memory[at] = (uint8_t)rand();
        cr_assert_eq(memcmp(memory, copy, PAGES * PAGE), 0, "round %u", round);
        for (unsigned j = 0; j < RANGES; j++)
            cr_assert_eq(memcmp(ranges[j].bytes ? ranges[j].there : copy, copy + ranges[j].first,
                                ranges[j].bytes),
                         0, "round %u, range %u", round, j);
    }
    free(copy);
}
