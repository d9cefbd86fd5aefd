/*
 * tca-qmp.h: communication of lattice codes: a grid of processes, messages between its neighbours,
 * and reproducible sums. Built on tca-msg.h and tca-coll.h. Results, errors, times and threads: as
 * in tca.h.
 */
#ifndef TCA_QMP_H
#define TCA_QMP_H

#include "tca-msg.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --------------------------------------------------------------- lattice */

/* A *grid* places the ranks of a group in one to four dimensions, all of them periodic. Messages
 * are declared once, by the displacement between two ranks in the grid, and started in each step:
 *
 *     tca_qmp_new(session, NULL, 4, extents, NULL, NULL, &qmp);
 *     tca_qmp_recv_relative(qmp, &ghost, T, +1, &requests[0]);
 *     tca_qmp_send_relative(qmp, &face, T, -1, &requests[1]);
 *     for (step = 0; step < STEPS; step++) {
 *         tca_msg_start(requests[0]);
 *         tca_msg_start(requests[1]);
 *         compute_interior();
 *         tca_msg_wait_all(requests, 2, TCA_FOREVER);
 *         compute_rim();
 *     }
 *
 * The functions correspond to those of QUDA's communication layer, so that a back end for it takes
 * about a page of code:
 *
 *     comm_create_topology()              tca_qmp_new()
 *     QMP_comm_split(), of split grids    tca_group_split(), and
 *                                         tca_qmp_new() with its group
 *     comm_dim(), comm_coord()            tca_qmp_extent(), tca_qmp_coord()
 *     comm_rank_from_coords(),            tca_qmp_rank_at(),
 *     comm_coords_from_rank()             tca_qmp_coords_of()
 *     comm_rank_displaced()               tca_qmp_displaced()
 *     comm_declare_send_displaced(), ...  tca_qmp_send_displaced(), ...
 *     comm_start(), comm_wait()           tca_msg_start(), tca_msg_wait()
 *     comm_query(), comm_free()           tca_msg_test(), tca_msg_release()
 *     comm_allreduce_sum(), ..._max(),
 *     and those of arrays                 tca_qmp_sum(), tca_qmp_max()
 *     comm_broadcast(), comm_barrier()    tca_qmp_broadcast(),
 *                                         tca_qmp_barrier()
 *
 * A message that is sent over a displacement is received from the opposite one: the face sent in
 * direction -1 of a dimension is the ghost received from direction +1. Several messages of one
 * displacement match in the order in which both ranks declare them. At most TCA_MSG_PAIRS receives
 * from one rank exist at a time. */
#define TCA_QMP_DIMENSIONS 4

struct tca_qmp;

/* Makes a grid of extents[0] * ... * extents[dimensions - 1] ranks, which must be the size of the
 * group. Collective, with the same arguments everywhere. args: the group whose ranks are the grid
 * (tca-group.h; NULL: all ranks of the session), and rail, seat, channel, flags and name of the
 * plans; may be NULL. rank_of: the rank at a position; NULL: in row-major order, the last
 * coordinate varies fastest. -EINVAL, and the errors of tca_msg_new() and tca_coll_allgather().
 *
 * To split a grid into smaller ones, each for a problem of its own, divide this rank's coordinates
 * by the extents of the smaller grids. The quotients, numbered in row-major order, are the colour
 * for tca_group_split(), the remainders the key. */
TCA_API int tca_qmp_new(struct tca *session, const struct tca_plan_args *args, uint32_t dimensions,
                        const uint32_t *extents,
                        uint32_t (*rank_of)(const uint32_t *coords, void *context), void *context,
                        struct tca_qmp **ret_qmp);

/* Releases the grid and its messages; call it before the session is closed. Collective. Waits for
 * the other ranks at most for the session's time-out. NULL is a no-op. Returns NULL. */
TCA_API struct tca_qmp *tca_qmp_free(struct tca_qmp *qmp);

/* Number of ranks along a dimension, and this rank's coordinate; 1 and 0 for dimensions that the
 * grid does not have. */
TCA_API uint32_t tca_qmp_extent(const struct tca_qmp *qmp, uint32_t dimension);
TCA_API uint32_t tca_qmp_coord(const struct tca_qmp *qmp, uint32_t dimension);

/* The rank at a position (each coordinate is less than its extent), and the position of a rank.
 * -EINVAL. */
TCA_API int tca_qmp_rank_at(const struct tca_qmp *qmp, const uint32_t *coords, uint32_t *ret_rank);
TCA_API int tca_qmp_coords_of(const struct tca_qmp *qmp, uint32_t rank, uint32_t *ret_coords);

/* The rank at a displacement from this one: one number per dimension, from -63 to 63. -EINVAL. */
TCA_API int tca_qmp_displaced(const struct tca_qmp *qmp, const int *displacement,
                              uint32_t *ret_rank);

/* Memory of a message: `blocks` blocks of block_bytes bytes that begin stride_bytes apart.
 * Contiguous memory is one block. Memory in a region of the session is not copied, except that of a
 * receive with more than one block. */
struct tca_qmp_buffer {
    void *address;
    uint64_t block_bytes;
    uint64_t blocks;
    int64_t stride_bytes; /* ignored if there is one block */
};

/* Declare a message to, or from, the rank at a displacement: a persistent request of tca-msg.h. Not
 * collective. -EINVAL, and the errors of tca_msg_send_init() and tca_msg_recv_init(). */
TCA_API int tca_qmp_send_displaced(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                                   const int *displacement, struct tca_msg_request **ret_request);
TCA_API int tca_qmp_recv_displaced(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                                   const int *displacement, struct tca_msg_request **ret_request);

/* The same for the neighbour in one dimension; direction: +1 or -1. */
TCA_API int tca_qmp_send_relative(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                                  uint32_t dimension, int direction,
                                  struct tca_msg_request **ret_request);
TCA_API int tca_qmp_recv_relative(struct tca_qmp *qmp, const struct tca_qmp_buffer *buffer,
                                  uint32_t dimension, int direction,
                                  struct tca_msg_request **ret_request);

/* Replace each of `count` values by the sum, or the maximum, of those of all ranks. Collective.
 * Values are combined in the order of ranks, whatever the rail, the seat and the placement of the
 * ranks: the same values give the same bits, on all ranks. Every rank gathers the values of all
 * ranks: meant for the few values of a solver, not for fields. The errors of tca_coll_wait(). */
TCA_API int tca_qmp_sum(struct tca_qmp *qmp, double *values, uint64_t count);
TCA_API int tca_qmp_max(struct tca_qmp *qmp, double *values, uint64_t count);

/* Copies `bytes` bytes of rank 0 to all ranks. Collective. The errors of tca_coll_wait(). */
TCA_API int tca_qmp_broadcast(struct tca_qmp *qmp, void *data, uint64_t bytes);

/* Returns when all ranks have called it. The errors of tca_coll_wait(). */
TCA_API int tca_qmp_barrier(struct tca_qmp *qmp);

#ifdef __cplusplus
}
#endif

#endif
