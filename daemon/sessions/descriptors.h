/* The descriptors of this process: how many tcad needs for itself, and what that leaves for
 * users. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tcad;

enum { FDS_PER_SESSION = 4 }; /* socket, two segments, eventfd */

struct descriptors {
    uint64_t used, limit;
};
struct descriptors descriptors_now(void);

/* Before anything is opened: -EMFILE if the limit is too low to start at all. */
int descriptors_check(char *text, size_t text_bytes);
/* When everything is open that tcad needs: sets tcad->own_descriptors, logs how many sessions the
 * limit allows if that is fewer than limits.sessions. -EMFILE if too few are left for clients. */
int descriptors_reserve(struct tcad *tcad, char *text, size_t text_bytes);

/* Whether this user's sessions may hold fds_more more descriptors in the daemon, as other users
 * need some too. If not, `text` describes the limit and the remedy. */
bool session_user_may_have(const struct tcad *tcad, uid_t uid, unsigned fds_more, char *text,
                           size_t text_bytes);
/* Whether this user may have one more connection, which may become a session. */
bool session_user_may_connect(const struct tcad *tcad, uid_t uid, char *text, size_t text_bytes);
