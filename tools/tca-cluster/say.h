/* What tca-cluster tells people: all of it on stderr, stdout belongs to the answers and to the
 * programs it runs. */
#pragma once

#include <stdbool.h>

/* Errors: always. Gives back -error, for "return complain(EINVAL, ...)". */
int complain(int error, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Progress; nothing when quiet. A step replaces the last one on a terminal, and is a line
 * elsewhere. */
void say_quiet(bool quiet);
void say_step(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* A line that stays. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
