#include "daemon/sessions/closer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/base/log.h"
#include "daemon/base/worker.h"
#include "daemon/tcad.h"
#include "proto/frame.h"

/* Of one user, of closer_waiting(). A single message can bring 253 more. */
enum { CLOSINGS_MAX = 256 };

struct closing {
    int fd;
    bool is_connection;
};

/* With unread messages, a client could not read the last ones either (ECONNRESET). */
static void work(void *context)
{
    const struct closing *closing = context;
    if (closing->is_connection)
        frame_discard(closing->fd);
    frame_close_foreign(closing->fd);
}

static void close_later(struct tcad *tcad, uid_t uid, int fd, bool is_connection)
{
    if (!tcad->closer) /* tcad ends: the kernel closes it */
        return;
    struct closing *closing = malloc(sizeof(*closing));
    if (closing)
        *closing = (struct closing){.fd = fd, .is_connection = is_connection};
    if (closing && worker_submit(tcad->closer, uid, work, free, free, closing) == 0)
        return;
    free(closing);
    log_error(NULL, "out of memory: a descriptor of user %u stays open", uid);
}

void closer_close(struct tcad *tcad, uid_t uid, int fd)
{
    if (fd >= 0)
        close_later(tcad, uid, fd, false);
}

void closer_end(struct tcad *tcad, uid_t uid, int fd)
{
    shutdown(fd, SHUT_RDWR);
    close_later(tcad, uid, fd, true);
}

unsigned closer_waiting(const struct tcad *tcad, uid_t uid)
{
    const unsigned all = tcad->closer ? worker_jobs(tcad->closer, uid) : 0,
                   sessions = tcad->conf->limits.sessions_per_user;
    return all > sessions ? all - sessions : 0;
}

bool closer_is_stuck(const struct tcad *tcad, uid_t uid, char *text, size_t text_bytes)
{
    const unsigned waiting = closer_waiting(tcad, uid);
    if (waiting < CLOSINGS_MAX)
        return false;
    snprintf(text, text_bytes,
             "%u descriptors of user %u wait to be closed: does a file system of this user not "
             "respond? End the processes that serve it",
             waiting, uid);
    return true;
}
