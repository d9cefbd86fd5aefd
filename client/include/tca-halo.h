/*
 * tca-halo.h: halo exchange between the neighbours of a process grid, planned once and started in
 * every step. Built on the plans of tca.h. Results, errors, times and threads: as in tca.h.
 */
#ifndef TCA_HALO_H
#define TCA_HALO_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ halo */

/* A distributed array is cut into boxes, one for each process of a process grid. A process stores
 * its box, its *own* elements, with a *halo* around it: copies of the neighbours' elements that its
 * stencil reads. An exchange fills the halos of one or several arrays:
 *
 *     tca_halo_new(session, &args, &halo);
 *     for (step = 0; step < STEPS; step++) {
 *         compute_rim();       // what neighbours need, and what reads halos
 *         tca_halo_start(halo);
 *         compute_interior();  // reads no halo
 *         tca_halo_wait(halo, TCA_FOREVER);
 *     }
 *     tca_halo_free(halo);
 *
 * The process grid has 1 to 7 dimensions. Rank r of the group is at the position that is number r
 * in row-major order: the last coordinate varies fastest. The product of the grid's sizes is the
 * size of the group. tcactl place (tcactl(1)) advises which rank to run on which node.
 *
 * Neighbours in diagonal directions receive their edges and corners directly, at the same time as
 * the faces, so that an exchange takes one latency and depends on the direct neighbours only. All
 * data for one neighbour is one plan, on the rail and in the seat with the lowest predicted cost;
 * where several rails lead to neighbours on other nodes, the plans divide these so that the whole
 * exchange ends as early as possible (`together` of struct tca_plan_args).
 * The plans are started in rounds: in each round a rank exchanges with one neighbour only, so that
 * no board receives from two at once.
 *
 * When memory may be read and written. By calling tca_halo_start(), a process declares that it has
 * read all halos, of both buffers if there are two, and has written all own elements that its
 * neighbours need: what it computes between start and wait reads no halo. The library synchronises
 * with the neighbours.
 *
 * One buffer: neighbours write into the halos between tca_halo_start() and the end of
 * tca_halo_wait(), and at no other time. For this, each start tells every neighbour that the halos
 * are free, which costs one more latency.
 *
 * Two buffers that alternate: a start sends the own elements of one buffer, and fills the halos of
 * the same buffer. These can be read from the end of its tca_halo_wait() until the next start, of
 * the other buffer, and no longer. The halos of the buffer that the next start fills
 * (tca_halo_buffer()) can change at any time, from tca_halo_new() on: a neighbour may be one
 * exchange ahead. This needs no message, because the data of one exchange permits the next one.
 *
 * Own elements: those that an exchange sends may be written again when it is complete; all others,
 * those of the other buffer among them, at any time.
 *
 * Exchanges use notification slots of the library's own, not those of the program. */
#define TCA_HALO_DIMENSIONS 7
#define TCA_HALO_ARRAYS     64

struct tca_halo;

/* One array, row-major: the last dimension is contiguous in memory. In each dimension d it has
 * low[d] + extents[d] + high[d] elements. */
struct tca_halo_array {
    /* First element, halo included, of each buffer; in a region of the session, for example from
     * tca_alloc(). memory[1] is NULL if there is only one buffer; arrays of one exchange all have
     * one or all have two. The memory must remain valid until tca_halo_free(). Ignored for an array
     * without elements. */
    void *memory[2];
    uint64_t element_bytes; /* a power of two or not; the same at all ranks */
    /* Own elements. Ranks that differ only in other coordinates must have the same extent. 0: the
     * rank has none; it sends nothing. */
    uint64_t extents[TCA_HALO_DIMENSIONS];
    /* Width of the halo below and above, in elements; may differ between ranks, and be 0. No wider
     * than the neighbour that fills it. A halo without a neighbour is not written. */
    uint64_t low[TCA_HALO_DIMENSIONS];
    uint64_t high[TCA_HALO_DIMENSIONS];
};

struct tca_halo_args {
    uint32_t dimensions;
    uint32_t grid[TCA_HALO_DIMENSIONS];    /* processes in each dimension */
    uint8_t periodic[TCA_HALO_DIMENSIONS]; /* 1: the first and the last process are neighbours; in
                                              a grid of 1, a process is its own neighbour */
    /* Neighbours to exchange with: those displaced in at most this many dimensions. 0 or 1: faces
     * only; 2: also edges (the corners of a plane); 3: also corners; at most `dimensions`. */
    uint32_t diagonals;
    const struct tca_halo_array *arrays; /* need not remain valid */
    uint32_t array_count;                /* 1 to TCA_HALO_ARRAYS */
    /* The group whose ranks are the process grid (tca-group.h; NULL: all ranks of the session), and
     * for the plans: rail, seat, channel, flags, `together` (0: those of this exchange), and the
     * first 48 bytes of their names ("halo"), to which the neighbour's rank is added. To overlap
     * computation within a node, request TCA_SEAT_DAEMON. */
    struct tca_plan_args plan;
};

/* Prepares the exchange. Collective: all ranks of the group call it in the same order, with the
 * same grid and the same number of arrays. Either all ranks succeed or all fail, as long as they
 * can reach each other. Takes milliseconds. Free the exchange before its session is closed.
 *
 * -EINVAL: an argument is invalid, extents do not fit, or a halo is wider than the neighbour.
 * -EPROTO: the ranks' arguments disagree. Also the errors of
 * tca_allgather(), tca_handle_of() and tca_plan_commit(). The message names rank, array and
 * dimension. If only other ranks failed, it is the message of the first of them. */
TCA_API int tca_halo_new(struct tca *session, const struct tca_halo_args *args,
                         struct tca_halo **ret_halo);

/* Releases the exchange; the arrays remain the caller's. Not collective: a rank may call it as soon
 * as its own last exchange is complete. If the exchange is running, waits for it, at most the
 * session's time-out. If it has failed, tca_close() releases the plans that
 * still wait for neighbours. NULL is a no-op. Returns NULL. */
TCA_API struct tca_halo *tca_halo_free(struct tca_halo *halo);

/* Starts an exchange, see "When memory may be written" above. Allocates nothing and makes no system
 * call, except to wake a sleeping daemon or peer (and, with more than 256 neighbours, to wait for
 * the daemon). -EBUSY: neither tca_halo_wait() nor tca_halo_test() has found the last exchange
 * complete. Other errors are permanent, for example -EOWNERDEAD: a neighbour has ended. */
TCA_API int tca_halo_start(struct tca_halo *halo);

/* Tests whether the last exchange is complete: all halos are filled, and the own elements may be
 * written again. 1: complete, or never started; 0: running; negative: it failed. */
TCA_API int tca_halo_test(struct tca_halo *halo);

/* Waits until the last exchange is complete: 0, -ETIMEDOUT (it is still running), or the error with
 * which it failed. */
TCA_API int tca_halo_wait(struct tca_halo *halo, int64_t timeout_ns);

/* The buffer that the next start sends and fills: 0 or 1, 0 first; always 0 with one buffer. */
TCA_API uint32_t tca_halo_buffer(const struct tca_halo *halo);

/* ---- single faces, edges and corners, in the order in which they are sent */

/* Memory pattern of what a process sends in one direction. */
enum tca_halo_kind {
    TCA_HALO_BLOCK = 0,        /* one contiguous block */
    TCA_HALO_BLOCK_STRIDE = 1, /* blocks of several elements */
    TCA_HALO_STRIDE = 2,       /* single elements */
};

struct tca_halo_face {
    int8_t direction[TCA_HALO_DIMENSIONS]; /* -1, 0 or 1 in each dimension */
    uint32_t rank;                         /* the neighbour */
    enum tca_halo_kind kind;               /* of the first array that sends something */
    uint64_t sent_bytes;                   /* of all arrays, by each exchange */
    uint64_t received_bytes;
};

/* Number of faces, edges and corners that have a neighbour, also if widths of 0 leave nothing to
 * send or to receive there: then the two ranks do not wait for each other, unless other faces join
 * them. */
TCA_API uint32_t tca_halo_faces(const struct tca_halo *halo);

/* Describes a face, edge or corner. -EINVAL: invalid number. */
TCA_API int tca_halo_face(const struct tca_halo *halo, uint32_t face,
                          struct tca_halo_face *ret_face);

/* Tests and waits for the halos that the neighbour of this face fills, so that elements that need
 * no other neighbour can be computed. The exchange is complete only when tca_halo_wait() or
 * tca_halo_test() says so. Results: as of tca_halo_test() and tca_halo_wait(). */
TCA_API int tca_halo_test_face(struct tca_halo *halo, uint32_t face);
TCA_API int tca_halo_wait_face(struct tca_halo *halo, uint32_t face, int64_t timeout_ns);

/* "block", "block-stride" or "stride". Static; "?" for an invalid value. */
TCA_API const char *tca_halo_kind_name(enum tca_halo_kind kind);

/* The receipt of what the last complete exchange sent to the neighbour of this face, over all faces
 * and arrays; all 0 if nothing goes to and from that neighbour. -EINVAL: invalid number; -ENODATA:
 * no exchange yet. */
TCA_API int tca_halo_receipt(const struct tca_halo *halo, uint32_t face,
                             struct tca_receipt *ret_receipt);

#ifdef __cplusplus
}
#endif

#endif
