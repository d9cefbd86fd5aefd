/*
 * tca-coll.h: collective operations of a group, planned once and started many times. Built on the
 * plans of tca.h. Results, errors, times and threads: as in tca.h.
 */
#ifndef TCA_COLL_H
#define TCA_COLL_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------- collectives */

/* An operation among all ranks of the group, prepared once:
 *
 *     tca_coll_allreduce(session, in, out, 1000, &sum, NULL, &coll);
 *     for (step = 0; step < STEPS; step++) {
 *         fill(in);
 *         tca_coll_start(coll);
 *         compute_something_else();
 *         tca_coll_wait(coll, TCA_FOREVER);
 *         use(out);
 *     }
 *     tca_coll_free(coll);
 *
 * Preparing and freeing are collective: all ranks make these calls in the same order, with
 * arguments that fit together. Either all ranks succeed or all fail, as long as they can reach each
 * other. Preparing takes a millisecond or more, but as long as a barrier or two if an operation
 * like it was freed that may have any memory (see below): up to eight of them are kept for each
 * group (64 in all), of at most 256 KiB, until the group is released, the session closed, or a call
 * exceeds a quota otherwise. All ranks start an operation equally often, and several operations in
 * any order; a rank that has completed a start may begin the next one at once.
 *
 * Memory lies in regions of the session, for example from tca_alloc(), and must remain valid until
 * tca_coll_free(). Between start and completion, an operation reads `in`, and reads and writes
 * `out`; the program may use and change both before and after. Where `in` may be NULL, the
 * operation is done in place: `out` holds the rank's own data at the start. Ranks may differ in
 * this, and in the kind of memory.
 *
 * An operation of at most 4096 bytes, those of all blocks together, moves data through memory of
 * the library, and so does every one with any_memory of struct tca_coll_args: its memory may lie
 * anywhere, need only be valid between start and completion, and can be another one in each start
 * (tca_coll_rebind()). This does not hold for tca_coll_alltoallv() and tca_coll_neighbours().
 *
 * The steps of an operation are a plan. In the daemon's seat (TCA_SEAT_DAEMON, and without a
 * request where a rank sends to other nodes), data that arrives releases the steps that send it on,
 * while the program computes. In the client's seat, data moves in the calls of tca_coll_start(),
 * tca_coll_test() and tca_coll_wait(); there, a rank that only receives a short broadcast, from a
 * rank of its node, copies it without a plan. Reductions with a function of the program always need
 * these calls, for this or another operation of the session, unless a thread of the library makes
 * them (struct tca_coll_args).
 *
 * An operation fails with -EOWNERDEAD or -EHOSTDOWN when any process of the group ends, not only a
 * direct partner: tca_coll_wait() checks for this about once in a second, and tca_coll_test() from
 * time to time. Free all operations before the process ends or closes the session. */

struct tca_coll;

/* How an operation is carried out. Each suits some operations only. */
enum tca_coll_algorithm {
    TCA_COLL_ANY = 0,      /* the one with the lowest predicted cost: tca_coll_costs() */
    TCA_COLL_DIRECT = 1,   /* every rank sends to every rank that needs its data */
    TCA_COLL_BINOMIAL = 2, /* along a binomial tree */
    TCA_COLL_CHAIN = 3,    /* from rank to rank, in segments */
    TCA_COLL_TRINARY = 4,  /* three thirds, each in segments along a ternary tree of its own */
    TCA_COLL_RING = 5,     /* blocks go around a ring */
    TCA_COLL_DOUBLING = 6, /* in rounds, with the rank at a distance of 1, 2, 4, ... */
    /* Inside each node, between one rank of each node of a sub-cluster, and between one rank of
     * each sub-cluster. */
    TCA_COLL_HIERARCHICAL = 7,
};

/* Any member may be 0; args may be NULL. The same at all ranks, unless it says otherwise. */
struct tca_coll_args {
    enum tca_coll_algorithm algorithm; /* -EINVAL if it does not suit the operation */
    /* Length of the pieces that TCA_COLL_BINOMIAL, TCA_COLL_CHAIN, TCA_COLL_TRINARY and
     * TCA_COLL_HIERARCHICAL pass on; at most 256 pieces. 0: by predicted cost. */
    uint64_t segment_bytes;
    /* 1: a thread of the library carries the operation out, for programs that compute for a long
     * time where the daemon's seat does not suit. The thread waits for data that arrives, and then
     * starts plans that send it on, so that preparing takes longer. A session has one such thread,
     * from this call until its last operation is freed; the thread advances all operations, and
     * runs the functions of reductions. While an operation runs, the program makes no other calls
     * for the session than tca_coll_start(), tca_coll_test() and tca_coll_wait(). Ranks may differ.
     * -EBUSY: an operation is running. */
    int thread;
    /* 1: memory may lie anywhere (see above). A start then copies what the rank contributes, and
     * what it receives. -EINVAL in tca_coll_alltoallv() and tca_coll_neighbours(). */
    int any_memory;
    /* The group whose ranks take part (tca-group.h; NULL: all ranks of the session); and rail,
     * seat, channel, flags and name of the plans, in which ranks may differ. If the name is NULL,
     * they are named after operation and algorithm ("broadcast, trinary"); tcactl plans shows the
     * names. Their steps include copies within a rank: with a rail that only leads to other nodes,
     * use TCA_PLAN_PREFER. */
    struct tca_plan_args plan;
};

/* What a reduction does: an operator of tca.h, or a function of the program. The order in which
 * elements are combined depends on the arguments only, so that all starts with the same data give
 * the same bits. */
struct tca_coll_operator {
    /* Combines elements of this type in the plan, in either seat. `out` of tca_coll_reduce() must
     * then be daemon-allocated memory, unless the operation may have any memory. */
    enum tca_combine combine;
    enum tca_type type;
    /* If combine is 0: combines `count` elements in this process, result[i] = left[i] op right[i].
     * `result` is the same memory as `left` or as `right`. The function must be associative. */
    void (*function)(const void *left, const void *right, void *result, uint64_t count,
                     void *context);
    void *context;          /* for the function */
    uint64_t element_bytes; /* > 0; ignored if combine is not 0 */
    int ordered;            /* 1: the function does not commute: combine in the order of ranks */
};

/* Part of a buffer. */
struct tca_coll_span {
    uint64_t offset_bytes;
    uint64_t bytes;
};

/* Errors of all functions that prepare an operation: -EINVAL (an argument is invalid, or memory is
 * in no region of the session), -EPROTO (the ranks disagree), and those of tca_allgather(),
 * tca_alloc() and tca_plan_commit(). If only other ranks failed, tca_error_text() returns the
 * message of the first of them. */

/* Complete when all ranks have started it. TCA_COLL_DOUBLING, TCA_COLL_HIERARCHICAL. */
TCA_API int tca_coll_barrier(struct tca *session, const struct tca_coll_args *args,
                             struct tca_coll **ret_coll);

/* Copies `bytes` bytes of the root to all ranks. Up to 4096 bytes, the root need not wait for the
 * others: it can be at least four starts ahead of them. TCA_COLL_DIRECT, TCA_COLL_BINOMIAL,
 * TCA_COLL_CHAIN, TCA_COLL_TRINARY, TCA_COLL_HIERARCHICAL. */
TCA_API int tca_coll_broadcast(struct tca *session, void *memory, uint64_t bytes, uint32_t root,
                               const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* Every rank receives the `bytes` bytes of all ranks, in rank order. In place: `in` is NULL.
 * TCA_COLL_DIRECT, TCA_COLL_RING, TCA_COLL_DOUBLING. */
TCA_API int tca_coll_allgather(struct tca *session, const void *in, void *out, uint64_t bytes,
                               const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* The same with blocks of any length at any offset: spans[rank] of out, the same at all ranks.
 * TCA_COLL_DIRECT, TCA_COLL_RING. */
TCA_API int tca_coll_allgatherv(struct tca *session, const void *in, void *out,
                                const struct tca_coll_span *spans, const struct tca_coll_args *args,
                                struct tca_coll **ret_coll);

/* Combines the `count` elements of all ranks into `out` of the root; other ranks' `out` is ignored.
 * In place at the root: its `in` is NULL. TCA_COLL_DIRECT, TCA_COLL_BINOMIAL, TCA_COLL_CHAIN,
 * TCA_COLL_HIERARCHICAL. */
TCA_API int tca_coll_reduce(struct tca *session, const void *in, void *out, uint64_t count,
                            const struct tca_coll_operator *operation, uint32_t root,
                            const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* The same into `out` of all ranks. In place: `in` is NULL. TCA_COLL_DIRECT, TCA_COLL_RING,
 * TCA_COLL_DOUBLING, TCA_COLL_HIERARCHICAL. */
TCA_API int tca_coll_allreduce(struct tca *session, const void *in, void *out, uint64_t count,
                               const struct tca_coll_operator *operation,
                               const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* Combines the elements of all ranks and distributes the result: rank 0 receives the first
 * counts[0] elements, rank 1 the next counts[1], and so on. counts: the same at all ranks.
 * TCA_COLL_DIRECT, TCA_COLL_RING. */
TCA_API int tca_coll_reduce_scatter(struct tca *session, const void *in, void *out,
                                    const uint64_t *counts,
                                    const struct tca_coll_operator *operation,
                                    const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* Each rank sends `bytes` bytes to each rank: block s of rank r's `in` becomes block r of rank s's
 * `out`. TCA_COLL_DIRECT, TCA_COLL_DOUBLING. */
TCA_API int tca_coll_alltoall(struct tca *session, const void *in, void *out, uint64_t bytes,
                              const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* The same with blocks of any length at any offset: from sent[s] of `in` to received[r] of rank s's
 * `out`, which must be equally long. TCA_COLL_DIRECT. */
TCA_API int tca_coll_alltoallv(struct tca *session, const void *in,
                               const struct tca_coll_span *sent, void *out,
                               const struct tca_coll_span *received,
                               const struct tca_coll_args *args, struct tca_coll **ret_coll);

enum { TCA_COLL_EDGES = 4096 };

/* What a rank sends to a neighbour, which may be itself. */
struct tca_coll_edge {
    uint32_t rank;
    const void *source;           /* in a region of the session */
    uint64_t target_offset_bytes; /* of the target layout's base, in the neighbour's `out` */
    /* As in struct tca_put; need not remain valid. The sender also gives the layout at the
     * neighbour. */
    const struct tca_layout *source_layout, *target_layout;
    uint64_t bytes;
};

/* Alltoall between neighbours: each rank puts its edges into its neighbours' `out`; no byte of an
 * `out` may be the target of two edges. The other arguments concern this rank only; several edges
 * may lead to one rank. Complete when this rank has received the edges that lead to it.
 * TCA_COLL_DIRECT. */
TCA_API int tca_coll_neighbours(struct tca *session, const struct tca_coll_edge *edges,
                                uint32_t edge_count, void *out, uint64_t out_bytes,
                                const struct tca_coll_args *args, struct tca_coll **ret_coll);

/* Starts the operation. -EBUSY: neither tca_coll_wait() nor tca_coll_test() has found the last
 * start complete. Other errors are permanent. */
TCA_API int tca_coll_start(struct tca_coll *coll);

/* Gives the operation other memory, at this rank only and without asking anybody: that of the next
 * starts. `in` and `out` as when it was prepared (broadcast: `out`; a reduction may change between
 * in place and not). -EBUSY: as above. -EINVAL: the operation has more than 4096 bytes and not
 * any_memory, or needs an argument that is NULL. */
TCA_API int tca_coll_rebind(struct tca_coll *coll, const void *in, void *out);

/* Tests whether the last start is complete at this rank. 1: complete, or never started; 0: running;
 * negative: it failed. */
TCA_API int tca_coll_test(struct tca_coll *coll);

/* Waits until the last start is complete at this rank: 0, -ETIMEDOUT (it is still running), or the
 * error with which it failed. */
TCA_API int tca_coll_wait(struct tca_coll *coll, int64_t timeout_ns);

/* Releases the operation. Collective, unless it has failed: waits for a running start and for the
 * other ranks to call it, together at most for the session's time-out. What the library has made
 * for it can then be used again, unless it has failed or the ranks have not started it equally
 * often: as other ranks could still notify and put, that remains until the session is closed. NULL
 * is a no-op. Returns NULL. */
TCA_API struct tca_coll *tca_coll_free(struct tca_coll *coll);

/* Describes the operation in lines of text: algorithm, segments, steps and scratch memory of this
 * rank, the costs by which the algorithm was chosen, and the predicted cost of each that suits.
 * Truncated to text_bytes, always NUL-terminated. tcactl plan explain shows the choice, too, with
 * the steps of a plan. */
TCA_API void tca_coll_explain(const struct tca_coll *coll, char *text, size_t text_bytes);

/* The algorithm that the operation uses. */
TCA_API enum tca_coll_algorithm tca_coll_algorithm_of(const struct tca_coll *coll);

/* "direct", "binomial", ... Static; "?" for an invalid value. */
TCA_API const char *tca_coll_algorithm_name(enum tca_coll_algorithm algorithm);

/* What one step costs by how far it goes, in nanoseconds: what algorithms are chosen by. */
struct tca_coll_link {
    uint64_t latency_ns;   /* from the end of the sender's work to visibility at the target */
    uint64_t overhead_ns;  /* the sender's work for each put or notification */
    uint64_t small_kib_ns; /* 1024 bytes of a put of up to 64 KiB */
    uint64_t large_kib_ns; /* the same of 4 MiB and more */
    int measured;          /* 1: by the calibration of tcad; 0: typical numbers */
};

struct tca_coll_costs {
    struct tca_coll_link node;       /* between ranks of a node */
    struct tca_coll_link subcluster; /* between nodes of a sub-cluster */
    struct tca_coll_link cluster;    /* between other nodes */
    uint64_t combine_kib_ns;         /* of 1024 bytes of a reduction */
};

/* The costs by which operations of this session choose their algorithms, in the client's or the
 * daemon's seat (TCA_SEAT_ANY: the client's): of the numbers that the tcad of each node had
 * measured when the group was joined, the greatest; the same at all ranks. If one of the ranks
 * requests the daemon's seat (TCA_SEAT counts), all choose by its costs. What no node had measured
 * (see rails.calibration in tcad.conf(5)) is a typical number; so are all if session is NULL. */
TCA_API void tca_coll_costs(const struct tca *session, enum tca_seat seat,
                            struct tca_coll_costs *ret_costs);

/* An operation of ranks that need not exist. Rank, then node, then sub-cluster follow one
 * another. */
struct tca_coll_simulation {
    /* "barrier", "broadcast", "allgather", "reduce", "allreduce", "reduce-scatter", "alltoall" */
    const char *operation;
    enum tca_coll_algorithm algorithm; /* TCA_COLL_ANY: the one that a real operation would use */
    uint32_t ranks;                    /* 1 to TCA_COLL_PREDICTED_RANKS */
    uint32_t per_node;                 /* ranks of each node; 0: all */
    uint32_t per_subcluster;           /* nodes of each sub-cluster; 0: all */
    uint32_t root;
    /* broadcast, reduce, allreduce: of the whole; otherwise of each block. Reductions: of
     * doubles */
    uint64_t bytes;
    uint64_t segment_bytes;             /* as in struct tca_coll_args */
    const struct tca_coll_costs *costs; /* NULL: typical ones */
};

enum tca_coll_step_kind {
    TCA_COLL_PUT = 0, /* to `peer`, which may be the rank itself */
    TCA_COLL_NOTIFY = 1,
    TCA_COLL_WAIT = 2,   /* until the notification of `peer` arrives */
    TCA_COLL_REDUCE = 3, /* combines two places of this rank */
};

struct tca_coll_simulated_step {
    uint32_t rank, chain;
    enum tca_coll_step_kind kind;
    uint32_t peer;
    uint64_t bytes;
    uint64_t begin_ns, end_ns; /* from the start of all ranks */
};

struct tca_coll_simulated {
    enum tca_coll_algorithm algorithm;
    uint64_t segment_bytes; /* UINT64_MAX: one piece */
    uint64_t ns; /* until the last rank is done, by the costs that algorithms are chosen by */
};

#define TCA_COLL_SIMULATED_RANKS 512
#define TCA_COLL_PREDICTED_RANKS (1 << 20)

/* Carries out all ranks' schedules against a clock, without a session: which steps each rank takes,
 * and when. `step`, which may be NULL, is called for each, those of one chain in order. Of more
 * than TCA_COLL_SIMULATED_RANKS, only the time is found, by the structure of the algorithm, as real
 * operations choose by it: `step` must then be NULL. -EINVAL: there is no such operation, its
 * arguments do not fit together, or the algorithm does not suit it; -ENOMEM. */
TCA_API int tca_coll_simulate(const struct tca_coll_simulation *simulation,
                              void (*step)(void *context,
                                           const struct tca_coll_simulated_step *step),
                              void *context, struct tca_coll_simulated *ret_simulated);

#ifdef __cplusplus
}
#endif

#endif
