#include "client/compat/listen.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "client/compat/stores.h"
#include "client/compat/thread.h"
#include "client/compat/turn.h"

/* Leaves a thread that is in the library the time to handle the event itself. */
#define PATIENCE_NS (200 * 1000)
/* Interval between checks of stores; the loss of a rail takes seconds. */
enum { LOOK_MS = 200 };

static struct {
    bool begun;
    bool looks;   /* checks stores until none is in flight; protected by the turn */
    int begin_fd; /* tells it to begin */
    int event_fd; /* tca_event_fd(), which only a thread with the turn may call */
} listener;

/* Waits for an event or for the next check of stores. Returns whether there is work for the
 * turn. */
static bool wait_for_news(bool *looks)
{
    uint64_t begun;
    struct pollfd fds[] = {{.fd = listener.event_fd, .events = POLLIN},
                           {.fd = listener.begin_fd, .events = POLLIN}};
    int r = poll(fds, 2, *looks ? LOOK_MS : -1);
    if (r > 0 && fds[1].revents)
        *looks |= read(listener.begin_fd, &begun, sizeof(begun)) > 0;
    if (r <= 0 || !fds[0].revents)
        return r == 0;
    nanosleep(&(struct timespec){.tv_nsec = PATIENCE_NS}, NULL);
    return *looks || poll(fds, 1, 0) > 0;
}

static int hear(bool *ret_looks)
{
    TAKE_TURN();
    int r = tca_dispatch(compat.session);
    listener.looks = listener.looks && stores_look();
    *ret_looks = listener.looks;
    return r;
}

static void *run(void *unused)
{
    bool looks = false;
    int r = 0;
    while (r == 0) /* < 0: the session is lost */
        if (wait_for_news(&looks))
            r = hear(&looks);
    return NULL;
}

static int begin(void)
{
    pthread_t thread;
    listener.event_fd = tca_event_fd(compat.session);
    listener.begin_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (listener.begin_fd < 0)
        return -errno;
    int r = compat_thread(&thread, run);
    if (r < 0)
        close(listener.begin_fd);
    else
        pthread_detach(thread);
    return r;
}

tcaresult listen_begin(void)
{
    int r = listener.begun ? 0 : begin();
    if (r < 0)
        return compat_fail(TCA_ERROR_SYSTEM, "cannot create a thread: %s", strerror(-r));
    listener.begun = true;
    return TCA_SUCCESS;
}

void listen_for_stores(void)
{
    if (listener.looks)
        return;
    listener.looks = true;
    eventfd_write(listener.begin_fd, 1);
}
