/* Memory of regions that vanishes under the daemon. A shrunk file raises SIGBUS, like a hole in
 * reserved huge pages when none are left. */
#include "daemon/sessions/guard.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/sessions/region.h"
#include "proto/thread.h"

enum { PAGE = 4096, PAGES = 64, THREADS = 8 };

TestSuite(guard, .timeout = 60);

static int vanishing(const char *name, volatile char **ret_base)
{
    int fd = memfd_create(name, MFD_CLOEXEC);
    cr_assert_eq(ftruncate(fd, PAGES * PAGE), 0);
    *ret_base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(*ret_base, MAP_FAILED);
    (*ret_base)[0] = 1;
    cr_assert_eq(ftruncate(fd, 0), 0);
    return fd;
}

Test(guard, cuts_a_region_off)
{
    volatile char *base, *other;
    cr_assert_eq(guard_install(), 0);
    for (uint64_t i = 0; i < 3; i++) {
        int fd = vanishing(REGION_MEMFD, &base);
        cr_assert_eq(guard_replaced(), i);
        base[5 * PAGE] = 7;
        cr_assert_eq(base[5 * PAGE], 7);
        cr_assert_eq(base[0], 0); /* nobody's */
        cr_assert_eq(guard_replaced(), i + 1);
        /* Other users of the file do not see it. */
        cr_assert_eq(ftruncate(fd, PAGE), 0);
        other = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
        cr_assert_eq(other[0], 0);
        close(fd);
    }
}

/* Like those of a device that is unplugged, by the name that /proc/self/maps has for them. */
Test(guard, cuts_a_dmabuf_off)
{
    volatile char *base;
    cr_assert_eq(guard_install(), 0);
    close(vanishing("/dmabuf:", &base));
    base[5 * PAGE] = 7;
    cr_assert_eq(base[5 * PAGE], 7);
    cr_assert_eq(guard_replaced(), 1);
}

static volatile char *shared;
static pthread_barrier_t all;

static void *touch(void *argument)
{
    pthread_barrier_wait(&all);
    for (int page = 0; page < PAGES; page++)
        shared[page * PAGE] = 1;
    return NULL;
}

Test(guard, many_threads_at_once)
{
    cr_assert_eq(guard_install(), 0);
    pthread_barrier_init(&all, NULL, THREADS);
    for (int round = 0; round < 50; round++) {
        pthread_t threads[THREADS];
        int fd = vanishing(REGION_MEMFD, &shared);
        for (int i = 0; i < THREADS; i++)
            cr_assert_eq(thread_begin(&threads[i], "touch", touch, NULL), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        munmap((void *)shared, PAGES * PAGE);
        close(fd);
    }
    cr_assert_eq(guard_replaced(), 50);
}

Test(guard, nothing_else, .signal = SIGBUS)
{
    volatile char *base;
    signal(SIGBUS, SIG_DFL); /* a sanitizer may have one of its own */
    cr_assert_eq(guard_install(), 0);
    vanishing("something else", &base);
    base[PAGE] = 7;
}
