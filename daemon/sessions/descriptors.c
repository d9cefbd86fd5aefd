#include "daemon/sessions/descriptors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/sessions/closer.h"
#include "daemon/sessions/user.h"
#include "daemon/tcad.h"

enum {
    START_MIN = 64,     /* the least with which tcad starts */
    CLIENTS_MIN = 32,   /* of these, for clients and tcactl */
    FDS_PER_NODE = 4,   /* connections of daemons and rails, and those that take their place */
    FDS_PER_ENGINE = 2, /* connections of each further engine: its own and the other end's */
};

struct descriptors descriptors_now(void)
{
    struct rlimit limit;
    struct descriptors descriptors = {0};
    /* The lowest free one: approximately the number in use. */
    int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        descriptors.limit = (uint64_t)limit.rlim_cur;
    descriptors.used = fd < 0 ? descriptors.limit : (uint64_t)fd;
    if (fd >= 0)
        close(fd);
    return descriptors;
}

int descriptors_check(char *text, size_t text_bytes)
{
    const struct descriptors now = descriptors_now();
    if (now.limit >= START_MIN)
        return 0;
    snprintf(text, text_bytes,
             "tcad may have %" PRIu64 " file descriptors (LimitNOFILE=, ulimit -n), and needs at "
             "least %d: raise the limit",
             now.limit, START_MIN);
    return -EMFILE;
}

/* What the limit leaves for all users. */
static uint64_t for_users(const struct tcad *tcad, uint64_t limit)
{
    return limit > tcad->own_descriptors ? limit - tcad->own_descriptors : 0;
}

static uint64_t for_one_user(const struct tcad *tcad, uint64_t limit)
{
    return for_users(tcad, limit) / 4 * 3;
}

/* With connections that have no session, among them those of tcactl. */
static uint64_t for_connections(const struct tcad *tcad, uint64_t limit)
{
    return for_users(tcad, limit) / 8 * 7;
}

int descriptors_reserve(struct tcad *tcad, char *text, size_t text_bytes)
{
    const struct descriptors now = descriptors_now();
    const size_t others = tcad->cluster->count - 1;
    const uint64_t nodes =
        (FDS_PER_NODE + FDS_PER_ENGINE * (tcad->engine_count - 1)) * (uint64_t)others;
    const uint64_t most = now.limit > now.used ? (now.limit - now.used) / 2 : 0;
    /* a large cluster's nodes are not all contacted at once */
    tcad->descriptors_limit = now.limit;
    tcad->own_descriptors = now.used + (nodes < most ? nodes : most);
    const uint64_t left = for_users(tcad, now.limit);
    if (left < CLIENTS_MIN) {
        snprintf(text, text_bytes,
                 "tcad may have %" PRIu64 " file descriptors (LimitNOFILE=, ulimit -n): it needs "
                 "%" PRIu64
                 " for its rails and %zu other node%s, and at least %d for clients: raise "
                 "the limit",
                 now.limit, tcad->own_descriptors, others, others == 1 ? "" : "s", CLIENTS_MIN);
        return -EMFILE;
    }
    if (left / FDS_PER_SESSION < tcad->conf->limits.sessions)
        log_info(NULL,
                 "%" PRIu64 " file descriptors (LimitNOFILE=, ulimit -n): of these, tcad needs "
                 "%" PRIu64 " for its rails and %zu other node%s; the others are enough for "
                 "%" PRIu64 " sessions without regions, %" PRIu64 " of them of one user "
                 "(limits.sessions is %" PRIu32 ")",
                 now.limit, tcad->own_descriptors, others, others == 1 ? "" : "s",
                 left / FDS_PER_SESSION, for_one_user(tcad, now.limit) / FDS_PER_SESSION,
                 tcad->conf->limits.sessions);
    return 0;
}

/* One that was lowered meanwhile takes nothing away from those who were there. */
static uint64_t limit_of(const struct tcad *tcad)
{
    const uint64_t now = descriptors_now().limit;
    return now > tcad->descriptors_limit ? now : tcad->descriptors_limit;
}

static uint64_t has(const struct tcad *tcad, uid_t uid)
{
    const struct user *user = user_find(tcad, uid);
    return (user ? user->descriptors : 0) + closer_waiting(tcad, uid);
}

bool session_user_may_have(const struct tcad *tcad, uid_t uid, unsigned fds_more, char *text,
                           size_t text_bytes)
{
    const uint64_t fds = has(tcad, uid), limit = limit_of(tcad), most = for_one_user(tcad, limit);
    if (fds + fds_more <= most)
        return true;
    snprintf(text, text_bytes,
             "user %u has %" PRIu64 " of the %" PRIu64
             " descriptors that tcad grants one user (3/4 of its LimitNOFILE= (%" PRIu64
             ") without the %" PRIu64
             " that it needs itself), 1 per region and %d per session: free some, allocate fewer, "
             "larger regions, or raise the limit",
             uid, fds, most, limit, tcad->own_descriptors, FDS_PER_SESSION);
    return false;
}

bool session_user_may_connect(const struct tcad *tcad, uid_t uid, char *text, size_t text_bytes)
{
    const uint64_t fds = has(tcad, uid), limit = limit_of(tcad),
                   most = for_connections(tcad, limit);
    if (fds < most)
        return true;
    snprintf(text, text_bytes,
             "user %u has %" PRIu64 " of the %" PRIu64
             " descriptors that tcad grants one user with all connections (7/8 of its LimitNOFILE= "
             "(%" PRIu64 ") without the %" PRIu64
             " that it needs itself): close sessions or connections, or raise the limit",
             uid, fds, most, limit, tcad->own_descriptors);
    return false;
}
