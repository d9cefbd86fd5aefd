/*
 * When a node sends the joins of its ranks to the coordinator of their group: many in one message.
 *
 * If the node knows from a launcher how many of its ranks will join, it waits for all of them, as
 * the group waits for them, too; but not for long behind the last that has come, because that
 * number can be wrong. Otherwise the first join is sent at once and later ones together: while
 * ranks come, a node waits for twice as long from one sending to the next.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_MIN_NS   UINT64_C(1000000) /* between two sendings, */
#define PACE_MAX_NS   UINT64_C(64000000)
#define PACE_QUIET_NS UINT64_C(128000000)  /* behind the last of those that are known to come, */
#define PACE_KNOWN_NS UINT64_C(1000000000) /* and behind the first */

/* Zeroed but for known and size: nobody has come. */
struct pace {
    uint32_t known; /* ranks of this node that will join; 0: unknown */
    uint32_t size;  /* of the group */
    uint32_t sent, waiting;
    uint64_t first_ns, last_ns; /* when those that wait have come */
    uint64_t sent_ns, wait_ns;  /* the last sending, and from there to the next */
};

static inline void pace_come(struct pace *pace, uint64_t now_ns)
{
    if (pace->waiting++ == 0)
        pace->first_ns = now_ns;
    pace->last_ns = now_ns;
}

/* When those that wait are to be sent. Not after now: at once. */
static inline uint64_t pace_due(const struct pace *pace)
{
    const uint32_t most = pace->known > 0 && pace->known < pace->size ? pace->known : pace->size;
    const uint64_t quiet_ns = pace->last_ns + PACE_QUIET_NS,
                   late_ns = pace->first_ns + PACE_KNOWN_NS;
    if (pace->sent < most && pace->sent + pace->waiting >= most)
        return 0;
    if (pace->sent < pace->known)
        return quiet_ns < late_ns ? quiet_ns : late_ns;
    return pace->sent > 0 ? pace->sent_ns + pace->wait_ns : 0;
}

static inline void pace_sent(struct pace *pace, uint64_t now_ns)
{
    const bool on = pace->sent > 0 && now_ns - pace->sent_ns < 2 * pace->wait_ns;
    pace->wait_ns = !on                               ? PACE_MIN_NS
                    : pace->wait_ns * 2 > PACE_MAX_NS ? PACE_MAX_NS
                                                      : pace->wait_ns * 2;
    pace->sent_ns = now_ns;
    pace->sent += pace->waiting;
    pace->waiting = 0;
}
