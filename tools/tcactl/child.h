/* Running another program and talking to it through one pipe. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    FILE *pipe; /* its standard input, or what it writes */
};

/* direction "w": the pipe is its standard input; "r": its standard output and standard error. A
 * program that cannot be executed exits with 127. 0 or negative errno. */
int child_start(struct child *child, const char *direction, char *const *command);
/* Closes the pipe and waits: the exit status, 128 and the signal when one ended it, or a negative
 * errno. */
int child_wait(struct child *child);
