/* Threads of tcad's own, in the daemon and in programs. */
#pragma once

#include <pthread.h>

/* Begins one that takes no signals: they are for the loop's thread, or the program's. The name, at
 * most 15 bytes, is for debuggers and ps(1). 0 or a negative errno. */
int thread_begin(pthread_t *ret_thread, const char *name, void *(*run)(void *argument),
                 void *argument);
