#include "client/compat/meet.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/compat/thread.h"
#include "client/compat/turn.h"

/* Enough for processes that call tcaInit() at the same time. */
enum { TOGETHER_NS = 500 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };

static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    enum { MEET_NOT_YET, MEET_BEGINS, MEET_WAITS, MEET_ENDED } state;
    tcaresult (*begin)(void);
    tcaresult result; /* MEET_ENDED */
    char text[512];   /* tcaGetErrorString() of the result */
} meeting = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void set_state(int state)
{
    pthread_mutex_lock(&meeting.mutex);
    meeting.state = state;
    pthread_cond_broadcast(&meeting.changed);
    pthread_mutex_unlock(&meeting.mutex);
}

static void *run(void *unused)
{
    TAKE_TURN();
    set_state(MEET_WAITS);
    meeting.result = meeting.begin();
    snprintf(meeting.text, sizeof(meeting.text), "%s", tcaGetErrorString(meeting.result));
    set_state(MEET_ENDED);
    return NULL;
}

/* Waits, with the mutex held, until the thread has the turn, and then for the end of begin(), at
 * most TOGETHER_NS. */
static void wait_a_while(void)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += TOGETHER_NS;
    end.tv_sec += end.tv_nsec / SECOND_NS;
    end.tv_nsec %= SECOND_NS;
    int error = 0;
    while (meeting.state == MEET_BEGINS || (meeting.state == MEET_WAITS && error == 0))
        error = meeting.state == MEET_BEGINS
                    ? pthread_cond_wait(&meeting.changed, &meeting.mutex)
                    : pthread_cond_timedwait(&meeting.changed, &meeting.mutex, &end);
}

tcaresult meet_others(tcaresult (*begin)(void))
{
    pthread_t thread;
    int r = 0;
    pthread_mutex_lock(&meeting.mutex);
    if (meeting.state == MEET_NOT_YET ||
        (meeting.state == MEET_ENDED && meeting.result != TCA_SUCCESS)) {
        meeting.begin = begin;
        r = compat_thread(&thread, run);
        if (r == 0) {
            pthread_detach(thread);
            meeting.state = MEET_BEGINS;
        }
    }
    if (r == 0)
        wait_a_while();
    tcaresult result = meeting.state == MEET_ENDED ? meeting.result : TCA_SUCCESS;
    pthread_mutex_unlock(&meeting.mutex);
    if (r < 0)
        return compat_fail(TCA_ERROR_SYSTEM, "tcaInit: cannot create a thread: %s", strerror(-r));
    return result == TCA_SUCCESS ? result : compat_fail_as(result, meeting.text);
}

tcaresult meet_missing(void)
{
    pthread_mutex_lock(&meeting.mutex);
    bool failed = meeting.state == MEET_ENDED && meeting.result != TCA_SUCCESS;
    pthread_mutex_unlock(&meeting.mutex);
    if (failed)
        return compat_fail_as(TCA_ERROR_NOT_INITIALIZED, meeting.text);
    return compat_fail(TCA_ERROR_NOT_INITIALIZED, "tcaInit() was not called");
}
