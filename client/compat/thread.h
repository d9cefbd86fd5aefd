/* Threads of this library: public headers lead to no thread of libtca. */
#pragma once

#include <pthread.h>

/* Creates a thread in which all signals are blocked. Returns 0 or a negative errno. */
int compat_thread(pthread_t *ret_thread, void *(*run)(void *argument));
