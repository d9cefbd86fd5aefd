#include "daemon/sessions/closer.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "daemon/base/worker.h"
#include "daemon/sessions/user.h"
#include "daemon/tcad.h"

/* Of one user, besides limits.sessions_per_user, whose sockets are closed at once when a job ends. A single message can
 * bring 253 more. */
enum { CLOSINGS_MAX = 256 };

struct closing {
    int fd;
    bool is_connection;
    struct charge charge;
};

/* Any thread. With unread messages, a client could not read the last ones either (ECONNRESET). */
static void close_now(int fd, bool is_connection)
{
    if (is_connection)
        frame_discard(fd);
    frame_close_foreign(fd);
}

static void work(void *context)
{
    const struct closing *closing = context;
    close_now(closing->fd, closing->is_connection);
}

static void done(void *context)
{
    struct closing *closing = context;
    charge_drop(&closing->charge);
    free(closing);
}

static void close_later(struct tcad *tcad, uid_t uid, int fd, bool is_connection)
{
    char text[256];
    if (!tcad->closer) /* tcad ends: the kernel closes it */
        return;
    struct closing *closing = calloc(1, sizeof *closing);
    if (closing && charge_take(tcad, &closing->charge, uid, USER_CLOSINGS, 0, "a descriptor", text,
                               sizeof text) == 0) {
        closing->fd = fd;
        closing->is_connection = is_connection;
        if (!is_connection) /* those of a job that has ended are not in the way of the next one */
            charge_descriptors(&closing->charge, 1);
        if (worker_submit(tcad->closer, uid, work, done, done, closing) == 0)
            return;
        charge_drop(&closing->charge);
    }
    free(closing);
    close_now(fd, is_connection); /* out of memory */
}

void closer_close(struct tcad *tcad, uid_t uid, int fd)
{
    close_later(tcad, uid, fd, false);
}

void closer_end(struct tcad *tcad, uid_t uid, int fd)
{
    shutdown(fd, SHUT_RDWR);
    close_later(tcad, uid, fd, true);
}

static void close_of_frame(void *context, uint64_t lane, int fd)
{
    closer_close(context, (uid_t)lane, fd);
}

struct frame_closer closer_for(struct tcad *tcad, uid_t uid)
{
    return (struct frame_closer){.close = close_of_frame, .context = tcad, .lane = uid};
}

bool closer_is_stuck(const struct tcad *tcad, uid_t uid, char *text, size_t text_bytes)
{
    const struct user *user = user_find(tcad, uid);
    if (!user || user->count[USER_CLOSINGS] < CLOSINGS_MAX + tcad->conf->limits.sessions_per_user)
        return false;
    snprintf(text, text_bytes,
             "%u descriptors of user %u wait to be closed: does a file system of this user not "
             "respond? End the processes that serve it",
             user->count[USER_CLOSINGS], uid);
    return true;
}
