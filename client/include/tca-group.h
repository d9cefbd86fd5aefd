/*
 * tca-group.h: groups of some ranks of a session, as MPI's communicators. Results, errors, times
 * and threads: as in tca.h.
 */
#ifndef TCA_GROUP_H
#define TCA_GROUP_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- groups */

/* All ranks of a session are a group. A *split* divides a group into others, without new sessions,
 * for a part of a program whose ranks work by themselves: a row of a process grid, or a grid of its
 * own for each of several problems:
 *
 *     const uint32_t colour = tca_rank(session) / ROW;
 *     tca_group_split(session, NULL, colour, 0, TCA_DEFAULT, &row);
 *     struct tca_coll_args args = {.plan.group = row};
 *     tca_coll_allreduce(session, in, out, count, &sum, &args, &reduction);
 *     ...
 *     tca_coll_free(reduction);
 *     tca_group_free(row);
 *
 * A group has ranks of its own, from 0 on. Plans, collective operations, halo exchanges, messengers
 * and grids take a group in struct tca_plan_args: the ranks that they are given, or return, are
 * then those of the group, and what is collective concerns its ranks only. Memory and handles
 * belong to the session, and so do notifications: tca_notified() and the calls like it take ranks
 * of the session (tca_group_rank_in_session()); a rank has the same slots in all groups.
 *
 * Calls of different groups do not wait for one another: two halves of a group can make different
 * numbers of them at the same time. A rank of several groups makes its calls one after the other,
 * so that the ranks of two groups with more than one rank in common must make calls of the two in
 * the same order.
 *
 * When a rank ends, calls of its groups fail with -EOWNERDEAD or -EHOSTDOWN, and those of other
 * groups go on. tca_group_shrink() makes a group of the ranks that are left.
 *
 * Groups cost a few KiB and up to 40 bytes a rank, in each tcad that has ranks of them and against
 * the user's quota (limits.bytes_per_user in tcad.conf(5)): a session can have thousands. A call of
 * a group with one rank needs no tcad. */

struct tca_group;

#define TCA_GROUP_NONE UINT32_MAX

/* Divides a group, NULL: all ranks of the session. Ranks that give the same colour are a group, in
 * the order of their keys, and of their ranks where these are equal. With TCA_GROUP_NONE as its
 * colour, a rank gets none: NULL. Collective for `parent`, like tca_allgather(), and takes about as
 * long as two of these calls. Either all ranks get their groups, or none.
 *
 * -EDQUOT, -ENOMEM: also if this holds for another rank's node. -EPROTO: another rank makes another
 * call. -EOWNERDEAD, -EHOSTDOWN: a rank of `parent` has ended; -ECANCELED: it has released it. */
TCA_API int tca_group_split(struct tca *session, struct tca_group *parent, uint32_t colour,
                            int32_t key, int64_t timeout_ns, struct tca_group **ret_group);

/* Makes a group of the ranks of `parent` (NULL: the session's) that have not ended, in the same
 * order, after a call has failed with -EOWNERDEAD or -EHOSTDOWN: the survivors go on. Collective
 * for them; they need not know yet which ranks have ended. Ranks that end meanwhile are left out.
 *
 * All survivors get the same group, or an error. If a rank ends just when they have met, some may
 * get a group with this rank, whose calls fail with -EOWNERDEAD, while others still wait: the
 * former then shrink that group, or `parent` again, and meet the latter. Each further call needs a
 * further end, and waits for it.
 *
 * -ETIMEDOUT: not all survivors have called it in time, or no further rank has ended; can be
 * repeated. The call counts all the same: when the others have called it, too, they get a group
 * that has this rank, and whose calls wait for it to repeat this one and to take part, or to end.
 * -EDQUOT, -ENOMEM: at this rank's node; the others get -ETIMEDOUT. All can repeat the call when
 * the node has room again. Until it has, or the rank ends, there is no group of the survivors. */
TCA_API int tca_group_shrink(struct tca *session, struct tca_group *parent, int64_t timeout_ns,
                             struct tca_group **ret_group);

/* Releases a group, when the last object that uses it has been freed. Not collective, and does not
 * wait: calls of ranks that still use the group fail with -ECANCELED. tca_close() releases those
 * that are left. NULL is a no-op. Returns NULL. */
TCA_API struct tca_group *tca_group_free(struct tca_group *group);

/* The number of ranks, and that of this process. */
TCA_API uint32_t tca_group_size(const struct tca_group *group);
TCA_API uint32_t tca_group_rank(const struct tca_group *group);

/* Rank of the session that has this rank in the group. -EINVAL: there is no such rank. */
TCA_API int tca_group_rank_in_session(const struct tca_group *group, uint32_t rank);
/* Rank in the group of a rank of the session. -ENOENT: it is not in the group. Takes time
 * proportional to the size of the group unless its ranks are evenly spaced. */
TCA_API int tca_group_rank_of(const struct tca_group *group, uint32_t session_rank);

/* As tca_allgather() and tca_barrier(), for the ranks of the group. -ECANCELED: a rank has released
 * the group. */
TCA_API int tca_group_allgather(struct tca_group *group, const void *blob, size_t blob_bytes,
                                void *ret_all, int64_t timeout_ns);
TCA_API int tca_group_barrier(struct tca_group *group, int64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
