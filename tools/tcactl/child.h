/* Runs another program and reads its output. */
#pragma once

#include <stdio.h>
#include <sys/types.h>

struct child {
    pid_t pid;
    FILE *pipe; /* its standard output and standard error */
};

/* A program that cannot be executed exits with 127. 0 or negative errno. */
int child_start(struct child *child, char *const *command);
/* Closes the pipe and waits: the exit status, 128 plus the number of the signal that ended the
 * program, or a negative errno. */
int child_wait(struct child *child);
