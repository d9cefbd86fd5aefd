#include "proto/thread.h"

#include <signal.h>

int thread_begin(pthread_t *ret_thread, const char *name, void *(*run)(void *argument),
                 void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* raised by its own accesses; if blocked, it would kill the process */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(*ret_thread, name);
    return -error;
}
