#include "client/compat/listen.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "client/compat/thread.h"
#include "client/compat/turn.h"

/* For so long a thread that is in the library may hear of it by itself. */
#define PATIENCE_NS (200 * 1000)

static bool something_said(int timeout_ms)
{
    struct pollfd session = {.fd = tca_event_fd(compat.session), .events = POLLIN};
    return poll(&session, 1, timeout_ms) > 0;
}

static int hear(void)
{
    TAKE_TURN();
    return tca_dispatch(compat.session);
}

static void *run(void *unused)
{
    int r = 0;
    while (r == 0) { /* until the session is lost */
        if (!something_said(-1))
            continue;
        nanosleep(&(struct timespec){.tv_nsec = PATIENCE_NS}, NULL);
        if (something_said(0))
            r = hear();
    }
    return NULL;
}

tcaresult listen_begin(void)
{
    static bool listens;
    pthread_t thread;
    int r = listens ? 0 : compat_thread(&thread, run);
    if (r < 0)
        return compat_fail(TCA_ERROR_SYSTEM, "tcaCreateHandle: no thread: %s", strerror(-r));
    if (!listens)
        pthread_detach(thread);
    listens = true;
    return TCA_SUCCESS;
}
