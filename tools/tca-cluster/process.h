/* Processes that were started by somebody else, perhaps long ago: known by id and start time, so
 * that none is ever mistaken for another that got its id later. */
#pragma once

#include <stddef.h>
#include <sys/types.h>

struct process {
    pid_t pid;                /* 0: none */
    unsigned long long start; /* clock ticks since boot, as /proc says */
};

enum process_state { PROCESS_GONE, PROCESS_STOPPED, PROCESS_RUNNING };

/* The process that has this id now. 0 or -ESRCH. */
int process_find(pid_t pid, struct process *ret_process);
/* A zombie is gone: it does nothing any more. */
enum process_state process_state(const struct process *process);
/* 0, -ESRCH: gone, or another negative errno. */
int process_signal(const struct process *process, int number);
/* Waits until all are gone, at most so long. How many are left. */
size_t process_wait_gone(const struct process *processes, size_t count, int timeout_ms);

/* One line of a file. 0 or negative errno. */
int process_save(const struct process *process, const char *path);
int process_load(const char *path, struct process *ret_process);
