#include "client/compat/join.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/compat/turn.h"

/* Processes that call tcaInit() together have met by then. */
enum { TOGETHER_NS = 500 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { JOIN_NONE, JOIN_BEGINS, JOIN_MEETS, JOIN_ENDED } state;
    tcaresult (*begin)(void);
    tcaresult result; /* JOIN_ENDED */
    char text[512];   /* what tcaGetErrorString() said of it */
} join = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set_state(int state)
{
    pthread_mutex_lock(&join.mutex);
    join.state = state;
    pthread_cond_broadcast(&join.changed);
    pthread_mutex_unlock(&join.mutex);
}

static void *meet(void *unused)
{
    TAKE_TURN();
    set_state(JOIN_MEETS);
    join.result = join.begin();
    snprintf(join.text, sizeof(join.text), "%s", tcaGetErrorString(join.result));
    set_state(JOIN_ENDED);
    return NULL;
}

/* It takes none of the program's signals. */
static int begin_thread(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, meet, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    return error;
}

/* With the mutex. Its end, or as long as processes that begin together need; in any case until the
 * turn is the thread's. */
static void wait_a_while(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += TOGETHER_NS;
    end.tv_sec += end.tv_nsec / SECOND_NS;
    end.tv_nsec %= SECOND_NS;
    int error = 0;
    while (join.state == JOIN_BEGINS || (join.state == JOIN_MEETS && error == 0))
        error = join.state == JOIN_BEGINS
                    ? pthread_cond_wait(&join.changed, &join.mutex)
                    : pthread_cond_timedwait(&join.changed, &join.mutex, &end);
}

tcaresult join_others(tcaresult (*begin)(void))
{
    int error = 0;
    pthread_mutex_lock(&join.mutex);
    if (join.state == JOIN_NONE || (join.state == JOIN_ENDED && join.result != TCA_SUCCESS)) {
        join.begin = begin;
        error = begin_thread();
        if (error == 0)
            join.state = JOIN_BEGINS;
    }
    if (error == 0)
        wait_a_while();
    tcaresult result = join.state == JOIN_ENDED ? join.result : TCA_SUCCESS;
    pthread_mutex_unlock(&join.mutex);
    if (error != 0)
        return compat_fail(TCA_ERROR_SYSTEM, "tcaInit: no thread: %s", strerror(error));
    return result == TCA_SUCCESS ? result : compat_fail_as(result, join.text);
}

tcaresult join_missing(void)
{
    pthread_mutex_lock(&join.mutex);
    bool failed = join.state == JOIN_ENDED && join.result != TCA_SUCCESS;
    pthread_mutex_unlock(&join.mutex);
    if (failed)
        return compat_fail(TCA_ERROR_NOT_INITIALIZED, "tcaInit() has failed: %s", join.text);
    return compat_fail(TCA_ERROR_NOT_INITIALIZED, "this process has no session");
}
