/* Processes that an earlier command may have started, identified by id and start time, so that a
 * process that reuses the id is not mistaken for one of them. */
#pragma once

#include <sys/types.h>

struct process {
    pid_t pid;                /* 0: none */
    unsigned long long start; /* clock ticks since boot, as in /proc */
};

enum process_state { PROCESS_GONE, PROCESS_STOPPED, PROCESS_RUNNING };

/* The process that currently has this id. 0 or -ESRCH. */
int process_find(pid_t pid, struct process *ret_process);
/* A zombie counts as ended. */
enum process_state process_state(const struct process *process);
/* A pidfd, or -ESRCH: it has ended. */
int process_open(const struct process *process);
/* 0, -ESRCH (ended) or another negative errno. */
int process_signal(const struct process *process, int number);
/* Waits until all have ended or the time is over. The number of those left. */
size_t process_wait_gone(const struct process *processes, size_t count, int timeout_ms);

/* One line of a file. 0 or negative errno. */
int process_save(const struct process *process, const char *path);
int process_load(const char *path, struct process *ret_process);
