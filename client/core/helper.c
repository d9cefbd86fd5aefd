#include "client/core/helper.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "client/core/clock.h"
#include "client/core/pause.h"
#include "proto/list.h"
#include "proto/thread.h"

enum {
    NAP_NS = 1000 * 1000,
    EVENTS = 16,
    LOOKS_PER_POLL = 64, /* turns without a rest between two looks at descriptors */
};

static struct {
    pthread_mutex_t life; /* of those who add and remove: of the thread and the descriptors */
    pthread_mutex_t lock; /* of all below; not held during turns */
    pthread_cond_t ended; /* a turn */
    struct helper_job *jobs;
    const struct helper_job *running;
    bool stop;
    pthread_t thread;
    int epoll_fd, bell_fd; /* of the descriptors and the bell; -1: there is no thread */
} helper = {.life = PTHREAD_MUTEX_INITIALIZER,
            .lock = PTHREAD_MUTEX_INITIALIZER,
            .ended = PTHREAD_COND_INITIALIZER,
            .epoll_fd = -1,
            .bell_fd = -1};

/* ---- the thread ---- */

static bool is_due(struct helper_job *job, uint64_t now_ns)
{
    /* seq_cst, as in helper_wake(): what was done before it is seen in the turn */
    if (atomic_load_explicit(&job->woken, memory_order_relaxed) &&
        atomic_exchange_explicit(&job->woken, false, memory_order_seq_cst))
        return true;
    return job->waits < HELPER_NAPS || (job->waits == HELPER_NAPS && now_ns >= job->nap_end_ns);
}

static void give_turn(struct helper_job *job)
{
    helper.running = job;
    pthread_mutex_unlock(&helper.lock);
    const enum helper_next next = job->turn(job);
    pthread_mutex_lock(&helper.lock);
    helper.running = NULL;
    pthread_cond_broadcast(&helper.ended);
    job->waits = next;
    job->nap_end_ns = clock_now_ns() + NAP_NS;
    if (next != HELPER_SLEEPS || job->fd < 0 || job->leaving)
        return;
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = job};
    epoll_ctl(helper.epoll_fd, EPOLL_CTL_MOD, job->fd, &event);
}

/* How long the thread may rest after the turns. 0: not at all; UINT64_MAX: until it is woken. */
static uint64_t give_turns(uint64_t *round)
{
    uint64_t rest_ns = UINT64_MAX, pause_ns = 0;
    bool looks = false, goes_on = false;
    for (struct helper_job *job = helper.jobs; job; job = job->next) {
        if (!job->leaving && is_due(job, clock_now_ns()))
            give_turn(job);
        const uint64_t left_ns =
            job->waits == HELPER_NAPS ? clock_left(job->nap_end_ns) : UINT64_MAX;
        rest_ns = left_ns < rest_ns ? left_ns : rest_ns;
        goes_on |= !job->leaving && job->waits == HELPER_GOES_ON;
        looks |= !job->leaving && job->waits == HELPER_LOOKS;
    }
    if (goes_on)
        *round = 0;
    else if (looks)
        pause_ns = pause_step((*round)++);
    return !goes_on && !looks ? rest_ns : pause_ns < rest_ns ? pause_ns : rest_ns;
}

static void take_events(const struct epoll_event *events, int count)
{
    eventfd_t rings;
    for (int i = 0; i < count; i++) {
        if (!events[i].data.ptr)
            eventfd_read(helper.bell_fd, &rings);
        for (struct helper_job *job = helper.jobs; job; job = job->next)
            if (job == events[i].data.ptr) /* else it was removed meanwhile */
                job->waits = HELPER_GOES_ON;
    }
}

static void rest(uint64_t rest_ns)
{
    struct pollfd any = {.fd = helper.epoll_fd, .events = POLLIN};
    const struct timespec time = clock_timespec(rest_ns);
    struct epoll_event events[EVENTS];
    pthread_mutex_unlock(&helper.lock);
    int count = 0;
    if (ppoll(&any, 1, rest_ns == UINT64_MAX ? NULL : &time, NULL) > 0)
        count = epoll_wait(helper.epoll_fd, events, EVENTS, 0);
    pthread_mutex_lock(&helper.lock);
    take_events(events, count);
}

static void *helper_main(void *none)
{
    uint64_t round = 0, busy = 0;
    pthread_mutex_lock(&helper.lock);
    while (!helper.stop) {
        const uint64_t rest_ns = give_turns(&round);
        if (rest_ns > 0 || ++busy % LOOKS_PER_POLL == 0)
            rest(rest_ns);
    }
    pthread_mutex_unlock(&helper.lock);
    return none;
}

/* ---- life ---- */

static void close_all(void)
{
    if (helper.epoll_fd >= 0)
        close(helper.epoll_fd);
    if (helper.bell_fd >= 0)
        close(helper.bell_fd);
    helper.epoll_fd = helper.bell_fd = -1;
}

static int watch(int fd, uint32_t events, struct helper_job *job)
{
    struct epoll_event event = {.events = events, .data.ptr = job};
    return epoll_ctl(helper.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int begin(void)
{
    helper.stop = false;
    helper.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    helper.bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int r =
        helper.epoll_fd < 0 || helper.bell_fd < 0 ? -errno : watch(helper.bell_fd, EPOLLIN, NULL);
    if (r == 0)
        r = thread_begin(&helper.thread, "tca-helper", helper_main, NULL);
    if (r < 0)
        close_all();
    return r;
}

static void end(void)
{
    pthread_mutex_lock(&helper.lock);
    helper.stop = true;
    pthread_mutex_unlock(&helper.lock);
    eventfd_write(helper.bell_fd, 1);
    pthread_join(helper.thread, NULL);
    close_all();
}

int helper_add(struct helper_job *job)
{
    pthread_mutex_lock(&helper.life);
    int r = helper.epoll_fd < 0 ? begin() : 0;
    if (r == 0 && job->fd >= 0)
        r = watch(job->fd, 0, job);
    if (r == 0) {
        job->waits = HELPER_GOES_ON;
        job->added = true;
        pthread_mutex_lock(&helper.lock);
        LIST_ADD(&helper.jobs, job, next, link);
        pthread_mutex_unlock(&helper.lock);
        helper_ring(job);
    } else if (helper.epoll_fd >= 0 && !helper.jobs) {
        end();
    }
    pthread_mutex_unlock(&helper.life);
    return r;
}

void helper_remove(struct helper_job *job)
{
    if (!job->added)
        return;
    pthread_mutex_lock(&helper.lock);
    job->leaving = true;
    while (helper.running == job) /* a turn may add a job */
        pthread_cond_wait(&helper.ended, &helper.lock);
    pthread_mutex_unlock(&helper.lock);
    pthread_mutex_lock(&helper.life);
    pthread_mutex_lock(&helper.lock);
    LIST_REMOVE(job, next, link);
    pthread_mutex_unlock(&helper.lock);
    job->added = false;
    if (job->fd >= 0)
        epoll_ctl(helper.epoll_fd, EPOLL_CTL_DEL, job->fd, NULL);
    if (!helper.jobs)
        end();
    pthread_mutex_unlock(&helper.life);
}

void helper_ring(struct helper_job *job)
{
    eventfd_write(helper.bell_fd, 1);
}

/* ---- forks ---- */

void helper_before_fork(void)
{
    pthread_mutex_lock(&helper.life);
    pthread_mutex_lock(&helper.lock);
    for (struct helper_job *job = helper.jobs; job; job = job->next)
        if (job->lock)
            pthread_mutex_lock(job->lock);
}

void helper_after_fork(void)
{
    for (struct helper_job *job = helper.jobs; job; job = job->next)
        if (job->lock)
            pthread_mutex_unlock(job->lock);
    pthread_mutex_unlock(&helper.lock);
    pthread_mutex_unlock(&helper.life);
}

void helper_in_child(void)
{
    struct helper_job *jobs = helper.jobs;
    for (struct helper_job *job = jobs; job; job = job->next)
        job->added = false;
    helper_after_fork();
    helper.jobs = NULL;
    helper.running = NULL;
    close_all();
}
