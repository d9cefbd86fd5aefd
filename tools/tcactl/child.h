/* Running another program and reading what it writes. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    FILE *pipe; /* its standard output and standard error */
};

/* A program that cannot be executed exits with 127. 0 or negative errno. */
int child_start(struct child *child, char *const *command);
/* Closes the pipe and waits: the exit status, 128 and the signal when one ended it, or a negative
 * errno. */
int child_wait(struct child *child);
