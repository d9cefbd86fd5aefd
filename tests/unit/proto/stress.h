/* Two parties over one piece of shared memory, as threads or as processes. */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STRESS_LOST_NS = 2000000000
}; /* a party that sleeps this long although work is pending has lost a wake-up */

struct stress {
    void *shared;
    uint64_t iterations;
    int eventfd;
};

typedef void stress_party(struct stress *stress);

struct stress_side {
    struct stress *stress;
    stress_party *party;
};

__attribute__((noreturn, format(printf, 1, 2))) static inline void stress_fail(const char *format,
                                                                               ...)
{
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

static inline void *stress_thread(void *argument)
{
    struct stress_side *side = argument;
    side->party(side->stress);
    return NULL;
}

static inline void stress_threads(struct stress *stress, stress_party *first, stress_party *second)
{
    pthread_t thread;
    struct stress_side side = {stress, second};
    if (pthread_create(&thread, NULL, stress_thread, &side) != 0)
        stress_fail("no thread: %m");
    first(stress);
    pthread_join(thread, NULL);
}

static inline void stress_processes(struct stress *stress, stress_party *first,
                                    stress_party *second)
{
    pid_t child = fork();
    if (child < 0)
        stress_fail("no process: %m");
    if (child == 0) {
        second(stress);
        _exit(0);
    }
    first(stress);
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        stress_fail("the other process failed");
}

/* program threads|processes iterations */
static inline int stress_main(int argc, char **argv, size_t bytes, stress_party *first,
                              stress_party *second, int eventfd)
{
    bool threads = argc == 3 && strcmp(argv[1], "threads") == 0;
    if (argc != 3 || (!threads && strcmp(argv[1], "processes") != 0)) {
        fprintf(stderr, "usage: %s threads|processes ITERATIONS\n", argv[0]);
        return 2;
    }
    struct stress stress = {.iterations = strtoull(argv[2], NULL, 10), .eventfd = eventfd};
    stress.shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stress.shared == MAP_FAILED)
        stress_fail("no memory: %m");
    (threads ? stress_threads : stress_processes)(&stress, first, second);
    munmap(stress.shared, bytes);
    return 0;
}
