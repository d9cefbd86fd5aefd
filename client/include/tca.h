/*
 * tca.h: plan once, start many.
 *
 * A *session* connects this process to the tcad of its node. Sessions that give the same group name find each other; each has a
 * rank. A *region* is memory that others may put into; a *handle*, 64 bytes of plain data, names (part of) one anywhere in the
 * cluster. A *plan* is chains of steps: put bytes from a region here to a handle there, notify a rank, wait for a
 * notification. It is committed once, which finds the best way, and then started any number of times; a start is one write to shared
 * memory, or, when both ends are on this node, the copy itself.
 *
 * Results: 0 or more is good, a negative errno is failure; parameters called ret_* are written only on success. errno itself is
 * not used. tca_error_text() tells what was wrong and what to do. The codes that matter:
 *
 *   -EINVAL       an argument makes no sense            -ESTALE      the handle's region is gone (freed, or its daemon restarted)
 *   -ETIMEDOUT    not within the time allowed           -EOWNERDEAD  a process that this call needs has ended
 *   -EACCES       not yours: wrong key, other user      -EHOSTDOWN   a node cannot be reached, or its daemon has gone
 *   -EDQUOT       a quota of the configuration is full  -ENETDOWN    no rail leads there any more, or it was lost with data on it
 *   -EBUSY        still running or in use; node drains  -EAGAIN      a ring is full: wait for earlier starts first
 *   -ENOMEM       no memory here                        -ECONNREFUSED  no tcad answers at the socket
 *   -EOVERFLOW    offsets beyond 63 bits                -E2BIG       a layout with too many parts
 *   -ECANCELED    ended before it was done: its plan    -ENOENT      nothing is published under that name
 *                 was freed, or broke                   -EEXIST      another session has published that name
 *   -EPROTO       ranks or versions disagree            -EPROTONOSUPPORT  tcad is of another protocol version
 *   -EMFILE       no descriptors left (ulimit -n), or   -EFAULT      no memory there: attached, and unmapped since
 *                 tcad has none (LimitNOFILE=)          -ENODATA     no start was complete yet: no receipt
 *   -ENOSPC       no room: addresses, tca_pack()        -ENFILE      the machine has no descriptors left
 *
 * Threads: a session and everything made from it belong to one thread at a time. Different sessions may be used by different
 * threads without locks. Nothing is shared between sessions but what the kernel shares.
 *
 * Fork: a child must not use its parent's sessions: questions to the daemon fail there (-EINVAL), tca_close() leaves the parent's
 * alone, and anything else would be taken for the parent's doing. It may open sessions of its own.
 *
 * Time: every timeout is in nanoseconds. 0: do not wait; TCA_FOREVER: as long as it takes; for the calls that talk to
 * daemons TCA_DEFAULT: the session's time-out (TCA_TIMEOUT, 10 s).
 *
 * Environment (tcactl env shows all with their present values): TCA_SOCKET, TCA_NODE, TCA_CLUSTER_DIR, TCA_GROUP, TCA_RANK, TCA_SIZE,
 * TCA_TIMEOUT, TCA_RAIL, TCA_SEAT, TCA_COPY, TCA_SPIN, TCA_YIELD, TCA_CUDA (tca-api.h). What an argument says goes first, then the environment, then the
 * default. Times there are whole numbers with ns, us, ms or s.
 */
#ifndef TCA_H
#define TCA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TCA_VERSION_MAJOR 0
#define TCA_VERSION_MINOR 1

#if defined(__GNUC__)
#define TCA_API __attribute__((visibility("default")))
#else
#define TCA_API
#endif

struct tca; /* a session */
struct tca_region;
struct tca_layout;
struct tca_plan;

#define TCA_FOREVER ((int64_t)-1)
#define TCA_DEFAULT ((int64_t)-2)

/* ---------------------------------------------------------------- errors */

/* What the last call that failed in this thread had to say: the object, the limit, the value, the
 * remedy. Never NULL; valid until the next call of this library in this thread. */
TCA_API const char *tca_error_text(void);

/* A few words for a negative errno as this library uses it, "stale handle" for -ESTALE. Static. */
TCA_API const char *tca_strerror(int error);

/* "0.1.0" of the library in use. Static. */
TCA_API const char *tca_version(void);

/* -------------------------------------------------------------- sessions */

/* Everything may be 0 or NULL: then the environment decides, then the default. */
struct tca_open_args {
    /* The tcad to talk to: a socket's path. TCA_SOCKET; with TCA_NODE=3 that of tca-cluster's node
     * 3; else the user's own tcad if one runs, else the system's (/run/tcad/tcad.sock). */
    const char *socket;
    /* The group: processes that give the same name (and run as the same user) are together.
     * TCA_GROUP, TCA_RANK and TCA_SIZE; else what mpirun, mpiexec or srun say (OMPI_*, PMIX_*,
     * PMI_*, SLURM_*), the innermost of them where one runs inside another; else a group of one. "name@node" makes that node the meeting place instead of one
     * chosen by the name. A name here needs rank and size too; rank and size without a name take
     * the name from the environment. */
    const char *group;
    uint32_t rank;
    uint32_t size; /* at most 4096; 0: take group, rank and size from the environment */
    /* For status displays; the program's name by default. */
    const char *name;
    /* For calls with TCA_DEFAULT. 0: TCA_TIMEOUT, else 10 s. Also how long open itself may take
     * until the whole group is there. */
    int64_t timeout_ns;
};

/* Opens a session and meets the group. args may be NULL. On failure nothing is left open. */
TCA_API int tca_open(const struct tca_open_args *args, struct tca **ret_session);

/* Ends the session: its plans are released, its regions freed (handles to them become stale), its
 * group is told.
 *
 * Waits first until every start in flight has ended, at most for the session's time-out
 * (tca_open_args.timeout_ns, TCA_TIMEOUT, 10 s); a start at a wait step whose notifications have not
 * arrived ends at once. tcad tells the group when what was put has landed, at most
 * control.request_timeout later. A process may therefore close as soon as it has the last
 * notification that it needs and its own starts have been waited for: starts of its peers whose
 * puts have landed succeed, also with TCA_PLAN_LANDED. NULL is fine. Returns NULL. */
TCA_API struct tca *tca_close(struct tca *session);

/* A descriptor that is readable while tcad has something to say to this process: for who waits for
 * other things too, by poll(), and calls tca_dispatch() then. Not to be read from. */
TCA_API int tca_event_fd(const struct tca *session);

/* Hears what tcad has to say, and goes on with what this process has under way, without waiting: as
 * every wait does. 0, or why the session is lost. */
TCA_API int tca_dispatch(struct tca *session);

TCA_API uint32_t tca_rank(const struct tca *session);
TCA_API uint32_t tca_size(const struct tca *session);
/* The node of this process, and of any rank of the group (negative: no such rank). */
TCA_API uint32_t tca_node(const struct tca *session);
TCA_API int tca_node_of(const struct tca *session, uint32_t rank);
/* Name of the own node; lives as long as the session. */
TCA_API const char *tca_node_name(const struct tca *session);

/* Every rank gives blob_bytes bytes (at most 4096, the same at every rank) and gets all of them in
 * the order of ranks (size * blob_bytes). Collective: all ranks make the same calls in the same
 * order; one that failed may be made again. For set-up, not for speed. */
TCA_API int tca_allgather(struct tca *session, const void *blob, size_t blob_bytes, void *ret_all,
                          int64_t timeout_ns);

/* Returns when all ranks have called it. Collective, through the daemons: milliseconds. */
TCA_API int tca_barrier(struct tca *session, int64_t timeout_ns);

/* --------------------------------------------------------------- regions */

/* Memory from the daemon: zeroed, page aligned, mapped at the same address in every process of the
 * group on this node. Counts against the user's quota. bytes > 0; rounded up to pages. */
TCA_API int tca_region_alloc(struct tca *session, uint64_t bytes, struct tca_region **ret_region);

/* Makes a region of memory that this process has already (heap, stack, globals, a file's mapping):
 * it stays where it is, is not zeroed, and must stay valid until the region is freed. It can be the
 * source and the target of the same puts with the same results, in every seat and to and from every
 * node; no privilege is needed for that, but it is slower than memory of tcad's.
 *
 * Processes of this node, in the client's seat: what others put there arrives while this process
 * waits for notifications from them, or, where the kernel lets one process of a user write into
 * another (process_vm_writev: Yama's ptrace_scope 0, or CAP_SYS_PTRACE), at once.
 *
 * In the daemon's seat, and by other nodes: tcad has no part in this memory, so it keeps as many
 * bytes of its own beside it from the first such plan on (they count against the user's quota:
 * -EDQUOT at the commit), and a thread of this process copies between the two, before a put and
 * after one has landed, while the process computes. That thread is begun at the first such plan,
 * sleeps otherwise and takes no signals. The process hears of others' plans when it calls the
 * library (tca_event_fd() says when to); when it has not for hundreds of them, their commits fail
 * with -EBUSY. Notifications of what is put there come once it is there, to whomever. */
TCA_API int tca_region_attach(struct tca *session, void *address, uint64_t bytes,
                              struct tca_region **ret_region);

/* Frees it (not memory that was attached): its handles become stale everywhere. -EBUSY while a plan
 * of this session uses it. NULL is fine (0).
 *
 * The owner may free a target as soon as it has the notification of the last put that it expects
 * there. Plans that put into it cannot be started any more (-ESTALE); a start that runs fails only
 * if a put into it is still ahead, else it ends as if the region were there. What is in flight is
 * dropped. */
TCA_API int tca_region_free(struct tca_region *region);

TCA_API void *tca_region_address(const struct tca_region *region);
TCA_API uint64_t tca_region_bytes(const struct tca_region *region);

/* 64 bytes of plain data; copy them as you like, also to other nodes. */
struct tca_handle {
    uint8_t bytes[64];
};

/* Names length bytes from offset on (0, TCA_ALL: the whole region). A handle is good for these bytes
 * only: its key covers what it names, and a process that has it cannot make a wider one of it. */
#define TCA_ALL UINT64_MAX
TCA_API int tca_region_handle(const struct tca_region *region, uint64_t offset_bytes,
                              uint64_t length_bytes, struct tca_handle *ret_handle);

/* What a handle says of itself, for people and programs: owner's node and length. Says nothing of
 * whether it is stale. */
TCA_API int tca_handle_node(const struct tca_handle *handle);
TCA_API int64_t tca_handle_bytes(const struct tca_handle *handle);

/* Memory in regions, as from malloc: for much that is small. Not zeroed; aligned to 16 bytes, or,
 * when bytes is a power of two, to that (at most 4096). The library gets regions from the daemon as
 * it needs them, 2 MiB first, and splits them; most calls are no more than a look at a few words. A
 * pointer into it is good in all processes of the group on this node that have mapped the region,
 * and may be put from as it is (struct tca_put, source_address); tca_handle_of() names it to
 * others. bytes > 0. -EDQUOT, -ENOMEM. */
TCA_API int tca_alloc(struct tca *session, uint64_t bytes, void **ret_memory);

/* Gives it back; tca_close() does with all of it. Handles to it do not become stale, as those of a
 * region would: no one may put into it any more. -EINVAL: it is not from tca_alloc() of this
 * session, or was freed. -EBUSY: larger than 8 MiB, and a plan of this session uses it. NULL is
 * fine (0). */
TCA_API int tca_free(struct tca *session, void *memory);

/* The region of this session that an address lies in, and how far from its beginning. -EINVAL: in
 * none. A region that tca_alloc() uses cannot be freed by tca_region_free(). */
TCA_API int tca_region_of(struct tca *session, const void *address, struct tca_region **ret_region,
                          uint64_t *ret_offset_bytes);

/* Names bytes bytes from an address on, in any region of this session: tca_region_of() and
 * tca_region_handle(). */
TCA_API int tca_handle_of(struct tca *session, const void *address, uint64_t bytes,
                          struct tca_handle *ret_handle);

/* Leaves a handle under a name (at most 63 bytes) with the group; a second publish of the name by
 * the same session replaces it (by another: -EEXIST), handle NULL withdraws it. What a session has
 * published goes when it ends. */
TCA_API int tca_publish(struct tca *session, const char *name, const struct tca_handle *handle);

/* Waits until somebody in the group has published the name. */
TCA_API int tca_lookup(struct tca *session, const char *name, int64_t timeout_ns,
                       struct tca_handle *ret_handle);

/* --------------------------------------------------------------- layouts */

/* A layout says where the bytes of a transfer lie, relative to a base address, and in which order
 * they go. It is put together like an MPI datatype, from elements outwards, and means the same:
 * *size* is the bytes of data, without gaps; copies of a layout are *extent* bytes apart, from its
 * lower bound to its upper bound, both of which tca_layout_resized() moves; the *bounds* of what it
 * touches are something else. Counts may be 0, blocks empty; offsets and strides have any sign;
 * blocks of a source may overlap (of a target: what lies there afterwards is one of them). Whatever
 * was put together becomes a short program: adjacent blocks one, regular ones a loop.
 *
 * Layouts belong to nobody: they may be used in any session and thread (one that changes hands, as
 * any memory), and may be freed once the layout or plan they went into is made. Constructors copy
 * what they are given.
 *
 * Errors: -EOVERFLOW (bytes beyond 63-bit offsets), -E2BIG (more than 16 loops nested; more than
 * 1048576 blocks that are not regular), -EINVAL, -ENOMEM. */

/* What an element is. Numbers keep their meaning. */
enum tca_type {
    TCA_TYPE_BYTE = 0, /* a byte of anything: see below */
    TCA_TYPE_CHAR = 1,
    TCA_TYPE_BOOL = 2,
    TCA_TYPE_INT8 = 3,
    TCA_TYPE_INT16 = 4,
    TCA_TYPE_INT32 = 5,
    TCA_TYPE_INT64 = 6,
    TCA_TYPE_INT128 = 7,
    TCA_TYPE_UINT8 = 8,
    TCA_TYPE_UINT16 = 9,
    TCA_TYPE_UINT32 = 10,
    TCA_TYPE_UINT64 = 11,
    TCA_TYPE_UINT128 = 12,
    TCA_TYPE_FLOAT16 = 13,        /* 2 bytes */
    TCA_TYPE_FLOAT = 14,          /* 4 */
    TCA_TYPE_DOUBLE = 15,         /* 8 */
    TCA_TYPE_LONG_DOUBLE = 16,    /* 16 */
    TCA_TYPE_COMPLEX_FLOAT = 17,  /* 8, aligned like a float */
    TCA_TYPE_COMPLEX_DOUBLE = 18, /* 16, aligned like a double */
};

/* One element. The types of both sides of a put must be the same, element by element in packed
 * order (-EINVAL, with both in the text), unless one of them is made of nothing but bytes: those
 * match anything of the same size. Types are not converted. The strictest of them rounds the extent
 * of what contains it up, as the compiler does for a struct. */
TCA_API int tca_layout_element(enum tca_type type, struct tca_layout **ret_layout);

/* `bytes` bytes in a row. */
TCA_API int tca_layout_contiguous(uint64_t bytes, struct tca_layout **ret_layout);

/* Block-stride of bytes: count blocks of block_bytes, their starts stride_bytes apart (negative
 * strides go down). */
TCA_API int tca_layout_strided(uint64_t count, uint64_t block_bytes, int64_t stride_bytes,
                               struct tca_layout **ret_layout);

/* `count` copies of inner, one extent apart. (MPI_Type_contiguous) */
TCA_API int tca_layout_array(const struct tca_layout *inner, uint64_t count,
                             struct tca_layout **ret_layout);

/* `count` copies of inner, their starts stride_bytes apart. Nests to 16 loops that do not become
 * one. */
TCA_API int tca_layout_repeat(const struct tca_layout *inner, uint64_t count, int64_t stride_bytes,
                              struct tca_layout **ret_layout);

/* `count` blocks of `length` copies of inner each, the blocks' starts `stride` extents, or
 * stride_bytes, apart. (MPI_Type_vector, MPI_Type_create_hvector) */
TCA_API int tca_layout_vector(const struct tca_layout *inner, uint64_t count, uint64_t length,
                              int64_t stride, struct tca_layout **ret_layout);
TCA_API int tca_layout_hvector(const struct tca_layout *inner, uint64_t count, uint64_t length,
                               int64_t stride_bytes, struct tca_layout **ret_layout);

/* `count` blocks, block i of lengths[i] copies of inner, beginning offsets[i] extents, or
 * offsets_bytes[i] bytes, from the base. (MPI_Type_indexed, MPI_Type_create_hindexed) */
TCA_API int tca_layout_indexed(const struct tca_layout *inner, uint64_t count,
                               const uint64_t *lengths, const int64_t *offsets,
                               struct tca_layout **ret_layout);
TCA_API int tca_layout_hindexed(const struct tca_layout *inner, uint64_t count,
                                const uint64_t *lengths, const int64_t *offsets_bytes,
                                struct tca_layout **ret_layout);

/* The same with blocks of one length. (MPI_Type_create_indexed_block,
 * MPI_Type_create_hindexed_block) */
TCA_API int tca_layout_indexed_block(const struct tca_layout *inner, uint64_t count,
                                     uint64_t length, const int64_t *offsets,
                                     struct tca_layout **ret_layout);
TCA_API int tca_layout_hindexed_block(const struct tca_layout *inner, uint64_t count,
                                      uint64_t length, const int64_t *offsets_bytes,
                                      struct tca_layout **ret_layout);

/* `count` blocks, block i of lengths[i] copies of inners[i], beginning offsets_bytes[i] from the
 * base. (MPI_Type_create_struct) */
TCA_API int tca_layout_struct(uint64_t count, const struct tca_layout *const *inners,
                              const uint64_t *lengths, const int64_t *offsets_bytes,
                              struct tca_layout **ret_layout);

enum tca_order {
    TCA_ORDER_C = 0,       /* the last index runs fastest */
    TCA_ORDER_FORTRAN = 1, /* the first */
};

/* A box of subsizes[] elements, each an inner, that begins at index starts[] (from 0) of an array
 * of sizes[]; the base is that of the array, and so are the bounds. -EINVAL: no dimension, or a box
 * that sticks out. (MPI_Type_create_subarray) */
TCA_API int tca_layout_subarray(const struct tca_layout *inner, uint32_t dimensions,
                                const uint64_t *sizes, const uint64_t *subsizes,
                                const uint64_t *starts, enum tca_order order,
                                struct tca_layout **ret_layout);

/* The same data with other bounds: copies of it are extent_bytes apart (any sign), and a struct
 * that contains it begins at lower_bytes and ends extent_bytes further on, whatever else is in it.
 * (MPI_Type_create_resized) */
TCA_API int tca_layout_resized(const struct tca_layout *inner, int64_t lower_bytes,
                               int64_t extent_bytes, struct tca_layout **ret_layout);

/* The same, its base moved by offset_bytes. */
TCA_API int tca_layout_shift(const struct tca_layout *inner, int64_t offset_bytes,
                             struct tca_layout **ret_layout);

TCA_API int tca_layout_dup(const struct tca_layout *layout, struct tca_layout **ret_layout);

/* NULL is fine. Returns NULL. */
TCA_API struct tca_layout *tca_layout_free(struct tca_layout *layout);

/* Bytes of data (without gaps), and the span they touch relative to the base: lower .. upper. */
TCA_API uint64_t tca_layout_size(const struct tca_layout *layout);
TCA_API void tca_layout_bounds(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                               int64_t *ret_upper_bytes);

/* Lower bound and extent, as copies of it are laid out. (MPI_Type_get_extent; tca_layout_bounds()
 * is the true extent) */
TCA_API void tca_layout_extent(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                               int64_t *ret_extent_bytes);

/* How many separate blocks it comes to. */
TCA_API uint64_t tca_layout_blocks(const struct tca_layout *layout);

/* One line for people: "64 x 256 B every 4096 B (16 KiB): 2048 x double". Cut at text_bytes, always
 * ends with a NUL. */
TCA_API void tca_layout_describe(const struct tca_layout *layout, char *text, size_t text_bytes);

/* Copies the data of a layout at `base` to `buffer`, from byte *position on, in packed order, and
 * moves *position on by its size; and back. Memory of any kind. -ENOSPC: buffer_bytes are too few;
 * nothing was copied. (MPI_Pack, MPI_Unpack; several elements are a tca_layout_array()) */
TCA_API int tca_pack(const struct tca_layout *layout, const void *base, void *buffer,
                     uint64_t buffer_bytes, uint64_t *position);
TCA_API int tca_unpack(const struct tca_layout *layout, void *base, const void *buffer,
                       uint64_t buffer_bytes, uint64_t *position);

/* ----------------------------------------------------------------- plans */

/* When memory may be written again. A start reads its sources and writes its targets; neither is
 * locked, and a put does not wait for its reader.
 *
 * A source: when tca_wait() or tca_test() says that the start is complete. A target: when the
 * process that reads it has given it back, by a notification that it started after it had read.
 * Neither the end of the sender's start nor an earlier notification says so. Where data flows both
 * ways in every step, two buffers that take turns need no other message: the peer's notification of
 * one step gives back the buffer of the next. Where it flows one way, the reader notifies the
 * writer. tca(7) has both patterns. A slot only counts, so give each buffer a slot of its own.
 * Until a process gives a handle away the memory is its own: fill a target before that. */

enum tca_rail {
    TCA_RAIL_ANY = 0, /* the cost model chooses */
    TCA_RAIL_SHM = 1,
    TCA_RAIL_OFI = 2,
    TCA_RAIL_PEACH2 = 4,
};

enum tca_seat {
    TCA_SEAT_ANY = 0,
    TCA_SEAT_CLIENT =
        1, /* this process copies, in tca_start() or, what is long, in the calls that follow */
    TCA_SEAT_DAEMON = 2, /* the daemon does, while this process computes */
};

enum {
    TCA_PLAN_TIMED =
        1 << 0, /* receipts carry times also in the client seat (two clock reads a start) */
    /* A start is complete when all that it put can be seen where it was put, not as soon as the
     * source may be written again: whoever hears of it in any other way (a barrier of MPI's, say)
     * finds the data. Costs a question to each node put to, at the end of the start. And a put of
     * at most 64 bytes without a notification behind it is a mark that somebody may look at: it can
     * be seen after what its chain has put before, wherever that was. Into memory that was attached
     * in the daemon's seat only, and complete once its process has copied it, which it can when it
     * has heard of the plan; -ETIMEDOUT when it has not within a minute. */
    TCA_PLAN_LANDED = 1 << 1,
    /* `rail` is a preference, not a demand: what goes to another node takes it where it leads
     * there, whatever the cost model says; otherwise, and on the own node, the cost model chooses.
     * The plan comes back to it like to any better rail. TCA_RAIL in the environment is a demand
     * all the same. */
    TCA_PLAN_PREFER = 1 << 2,
};

struct tca_plan_args {
    const char *name;   /* for tcactl and receipts; may be NULL */
    enum tca_rail rail; /* a commit fails when it cannot be had; TCA_PLAN_PREFER */
    enum tca_seat seat;
    /* 0 .. 3: in the daemon's seat a start hands its puts and notifications to the rails before
     * the next one on its channel hands over its own, up to its first wait step in each chain that
     * has to wait: that holds up no other start. What follows the wait step has no order with later
     * starts. Order of handing over is order of data only on the way to one node: what needs the
     * data of another start waits for its end, or for its notification. */
    uint32_t channel;
    uint32_t flags;
};

/* A new plan. One to which no step is added can be committed, started and waited for like any other
 * and does nothing: a rank without neighbours needs no code of its own. Likewise tca_plan_chain()
 * has no effect before a step. args may be NULL. Released with its session at the latest. */
TCA_API int tca_plan_new(struct tca *session, const struct tca_plan_args *args,
                         struct tca_plan **ret_plan);

/* Releases it. Waits for a start that still runs (at most the session's time-out). NULL is fine.
 * Returns NULL. */
TCA_API struct tca_plan *tca_plan_free(struct tca_plan *plan);

/* Begins another chain: the steps that follow go there. Chains run side by side, in no order.
 *
 * The steps of a chain run in order, as far as anybody can tell by its data: a put reads what the
 * puts before it in its chain have put, overwrites what they have put, and does not change what they
 * read, on whatever rails and in whatever seats they are. Puts that have no bytes in common may run
 * at the same time. Whether they have is worked out when the plan is committed, from the layouts;
 * blocks between blocks of another layout are told apart, unless both are too irregular for that
 * (indexed layouts of more than 64 blocks, say), or too many such layouts lie within each other: then
 * a put waits without need (tcactl plan explain shows for which step). One that waits, waits for all
 * before it, so what is independent is better off in a chain of its own. Memory that is mapped twice
 * at different addresses counts as different memory.
 *
 * Starts: what a start has put into memory of this session from tcad can be seen, and put on by the
 * next start, when it is complete. What it has put elsewhere can be overwritten by another start once
 * whoever is notified has said so. Starts that run at the same time, of one plan or several, have no
 * order but that of struct tca_plan_args, channel. */
TCA_API int tca_plan_chain(struct tca_plan *plan);

/* One put. Layout NULL: contiguous, as long as the other side's layout, or, when both are NULL,
 * `bytes`. Where there is a layout `bytes` is 0, or what the layout has. */
struct tca_put {
    struct tca_region *source;
    uint64_t source_offset_bytes; /* of the layout's base in the region */
    const struct tca_layout *source_layout;
    struct tca_handle target;
    uint64_t target_offset_bytes; /* of the layout's base in the part that the handle names */
    const struct tca_layout *target_layout;
    uint64_t bytes;
    const void *source_address; /* instead of source: any address in a region of the session, as
                                   from tca_alloc() */
};

/* Appends a put. The layouts are copied. Sizes of both sides must be equal, and so must be the
 * types of their elements. The target is overwritten when the plan is started, whether or not its
 * reader has read it: see above. */
TCA_API int tca_plan_put(struct tca_plan *plan, const struct tca_put *put);

/* Appends a notification to a rank: its counter (my rank, slot) rises by one. Then the data of all
 * puts before it in this chain to memory of that rank's node can be seen there, and the sources of
 * all puts before it, wherever they go, may be written again. Data for other nodes may still be on
 * their way: notify those, or use TCA_PLAN_LANDED. slot: 0 .. 63. */
TCA_API int tca_plan_notify(struct tca_plan *plan, uint32_t rank, uint32_t slot);

/* Appends a wait: the chain goes on when `count` notifications (from that rank, on that slot) are
 * there, and consumes them. As many starts may wait at the same time as a session can have under way
 * (1024). Starts in the daemon's seat that wait for the same notifications get them in the order in
 * which the daemon took them up: on one channel, that of their starts. */
TCA_API int tca_plan_wait(struct tca_plan *plan, uint32_t rank, uint32_t slot, uint64_t count);

/* Compiles the plan: checks every handle, binds every step to a rail and seat, maps what is to be
 * mapped. Afterwards no steps can be added; after a failure it may be tried again. -ESTALE,
 * -EACCES, -EHOSTDOWN, -ENETDOWN, -EDQUOT, -EINVAL (tca_error_text says which step). */
TCA_API int tca_plan_commit(struct tca_plan *plan, int64_t timeout_ns);

/* Starts it. What runs in the client's seat is copied before the call returns, up to the first wait
 * step whose notifications are not there yet: from there on it moves in tca_test(), tca_wait() and
 * the calls for notifications. So does, in pieces, all of a plan that puts more than 4 MiB in this
 * seat: what is started after it need not wait for it, and tca_wait() right after the start copies
 * it in one go. Who wants to compute meanwhile asks for TCA_SEAT_DAEMON. No lock, allocation or
 * system call (but for waking a daemon or peer that sleeps). -EBUSY while the last start runs,
 * -EAGAIN when the ring is full, otherwise errors that make the plan useless: -ESTALE, -EOWNERDEAD,
 * -EHOSTDOWN, -ENETDOWN.
 *
 * When a rail to a node is lost and another one leads there, the plan moves to that one by itself,
 * unless it has asked for the first. A start that runs then ends with -ENETDOWN or the like, for
 * nobody knows what of it has landed; later ones go on, and their receipts say over which rail.
 *
 * A start that is complete here may still be on its way (TCA_PLAN_LANDED waits for that). If the
 * rail is lost first and nobody knows whether it has arrived, every plan of the session that puts to
 * that node over this rail on the same channel breaks: starting, testing or waiting for it gives
 * -ENETDOWN, and the text names node, rail and number of puts. Nothing that is started later
 * overtakes what was lost. A plan that was freed meanwhile cannot tell: the daemon's log does. */
TCA_API int tca_start(struct tca_plan *plan);

/* Whether the last start is complete here (the source may be written again, and see
 * tca_plan_chain(), TCA_PLAN_LANDED): 1 (also before the first), 0 not yet, negative: it failed.
 * What of a start that failed has landed, and which of its notifications have arrived, is not
 * known. */
TCA_API int tca_test(struct tca_plan *plan);

/* Waits until it is: 0, -ETIMEDOUT (it still runs), or why it failed. */
TCA_API int tca_wait(struct tca_plan *plan, int64_t timeout_ns);

/* ---------------------------------------------------------- notifications */

/* Takes one notification of (rank, slot) if there is one: 1, 0 none, -EOWNERDEAD or -EHOSTDOWN:
 * none, and none will come. */
TCA_API int tca_notified(struct tca *session, uint32_t rank, uint32_t slot);

/* Waits for one and takes it: 0, -ETIMEDOUT, -EOWNERDEAD, -EHOSTDOWN. Data put before it is visible
 * then. */
TCA_API int tca_notified_wait(struct tca *session, uint32_t rank, uint32_t slot,
                              int64_t timeout_ns);

/* Waits for one in this slot from whatever rank, takes it and says whose it was; ranks take turns,
 * those that have ended are passed over. For who serves many: 0, -ETIMEDOUT, or why the session is
 * lost. */
TCA_API int tca_notified_wait_any(struct tca *session, uint32_t slot, int64_t timeout_ns,
                                  uint32_t *ret_rank);

/* How many have arrived and were not taken. */
TCA_API uint64_t tca_notified_count(struct tca *session, uint32_t rank, uint32_t slot);

/* When the daemon raised it last (CLOCK_MONOTONIC ns of this node; 0: it came straight from a
 * process). For latency studies. */
TCA_API uint64_t tca_notified_ns(struct tca *session, uint32_t rank, uint32_t slot);

/* For a loop that waits for a mark in memory instead, after each look in vain; round: how many there
 * were before it. Pauses; gives the core to others when it takes long and there are any, and sleeps,
 * a millisecond at most, where they compute. TCA_SPIN. */
TCA_API void tca_pause(uint64_t round);

/* --------------------------------------------------------------- receipts */

/* How a put is copied in the client's seat: by this process, by the one that receives it, by both
 * at the same time, or through a small buffer that both work on. Whoever does not get help does it
 * alone, whatever was planned. TCA_COPY forces one. */
enum tca_way {
    TCA_WAY_NONE = 0, /* not copied by a client */
    TCA_WAY_PUSH = 1,
    TCA_WAY_PULL = 2,
    TCA_WAY_HALF = 3,
    TCA_WAY_RING = 4,
};

/* What the last complete start of a plan did. Times in ns of CLOCK_MONOTONIC, 0 where nobody looked
 * at a clock. With several chains: rail and seat of the first, sums of the rest, times from the
 * first start to the last end. */
struct tca_receipt {
    enum tca_rail rail;
    enum tca_seat seat;
    enum tca_way way; /* of the first put in the client's seat */
    int status;       /* 0 or the negative errno of this start */
    uint32_t descriptors;
    uint32_t retries;
    uint32_t hops; /* most cables between boards that data of it crossed; 0: none on this rail */
    uint64_t bytes;
    uint64_t starts;    /* of this plan so far, this one counted */
    uint64_t start_ns;  /* tca_start() */
    uint64_t taken_ns;  /* the engine took it from the ring (daemon seat) */
    uint64_t posted_ns; /* the last descriptor was handed to the rail */
    uint64_t done_ns;   /* complete */
    uint64_t seen_ns;   /* tca_test() or tca_wait() saw it */
};

/* -ENODATA before the first start is complete. */
TCA_API int tca_plan_receipt(const struct tca_plan *plan, struct tca_receipt *ret_receipt);

/* Names for tables: "shm", "client". Static; "?" for what is none. */
TCA_API const char *tca_rail_name(enum tca_rail rail);
TCA_API const char *tca_seat_name(enum tca_seat seat);
TCA_API const char *tca_way_name(enum tca_way way);

#ifdef __cplusplus
}
#endif

#endif
