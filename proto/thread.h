/* Helper threads, in the daemon and in libtca. */
#pragma once

#include <pthread.h>

/* Starts a thread with all signals but SIGBUS blocked, which leaves them to the event loop's or the
 * program's threads. The name, at most 15 bytes, is shown by debuggers and ps(1). 0 or a negative
 * errno. */
int thread_begin(pthread_t *ret_thread, const char *name, void *(*run)(void *argument),
                 void *argument);
