#include "client/compat/thread.h"

#include <signal.h>

int compat_thread(pthread_t *ret_thread, void *(*run)(void *argument))
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(ret_thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(*ret_thread, "tca-compat");
    return -error;
}
