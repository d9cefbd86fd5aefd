/* Messages to the user, all on stderr: stdout is for results and for the programs that it runs. */
#pragma once

#include <stdbool.h>

/* An error, printed even if quiet. Returns -error, for "return complain(EINVAL, ...)". */
int complain(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Progress, not printed if quiet. On a terminal, a step replaces the previous one. */
void say_quiet(bool quiet);
void say_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line that no step replaces. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
