/* Threads of the library's own in a program of the API. */
#pragma once

#include <pthread.h>

/* Begins one that takes none of the program's signals. 0 or a negative errno. */
int compat_thread(pthread_t *ret_thread, void *(*run)(void *argument));
