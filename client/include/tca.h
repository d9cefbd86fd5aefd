/*
 * tca.h: plan once, start many.
 *
 * A *session* connects this process to the tcad of its node. Sessions that use the same group name
 * form a group, in which each has a rank. A *region* is memory that other processes can put into. A
 * *handle*, 64 bytes of plain data, names a region or a part of one anywhere in the cluster. A
 * *plan* consists of chains of steps: put bytes from a local region to a handle, notify a rank,
 * wait for a notification. Committing a plan selects its routes; a committed plan can be started
 * any number of times. A start is one write to shared memory or, when both ends are on this node,
 * the copy itself.
 *
 * Results: 0 or more on success, a negative errno on failure. Parameters named ret_* are written
 * only on success. errno itself is not used. tca_error_text() describes the error and its remedy.
 * Error codes:
 *
 *   -EINVAL           an argument is invalid
 *   -ETIMEDOUT        the operation did not complete in the time allowed
 *   -EACCES           permission denied: wrong key, or another user's object
 *   -EDQUOT           a quota of tcad.conf is exhausted
 *   -EBUSY            still running or in use, or the node is draining
 *   -EAGAIN           a ring is full: wait for earlier starts first
 *   -ENOMEM           out of memory
 *   -ENOSPC           no address space left, or a tca_pack() buffer is too small
 *   -EMFILE           no descriptors left in this process (ulimit -n) or in tcad (LimitNOFILE=)
 *   -ENFILE           no descriptors left on this machine
 *   -EOVERFLOW        an offset needs more than 63 bits
 *   -E2BIG            a layout has too many parts
 *   -ESTALE           the handle's region no longer exists (freed, or its tcad was restarted)
 *   -EOWNERDEAD       a process that this call needs has ended
 *   -EHOSTDOWN        a node is unreachable, or its tcad has ended
 *   -ENETDOWN         no rail leads to the node, or a rail failed with data in flight
 *   -ECONNREFUSED     no tcad answers at the socket
 *   -ECANCELED        ended early: cancelled, or its plan was freed or failed; or another rank has
 *                     released the group
 *   -ENOENT           nothing is published under this name; the rank is not in the group
 *   -EEXIST           another session has published this name
 *   -EPROTO           ranks, or library and tcad, disagree
 *   -EPROTONOSUPPORT  tcad uses another protocol version
 *   -EOPNOTSUPP       the memory or the seat cannot be used for this
 *   -EFAULT           memory to be attached is not mapped; pages of a region are missing
 *   -ENODATA          no receipt yet: no start has completed
 *   -EMSGSIZE         more bytes than a call or the receiver accepts
 *   -ENAMETOOLONG     a name or the path of a socket is too long
 *   -EPERM            the socket or file belongs to another user
 *   -EFBIG            tcad (LimitFSIZE=) or this process (ulimit -f) may not make files of this
 *                     size
 *   -ENETUNREACH      the rail that was requested never leads to this node
 *   -EADDRINUSE       this process has something else at the address of memory that its group
 *                     shares
 *   -EADDRNOTAVAIL    no address left on the board's bus: free regions, or wait for those just
 *                     freed
 *   -EIO              a board has stopped, and says why
 *   -ECONNRESET, -EPIPE, -ESHUTDOWN   a rail's connection broke with data in flight
 *
 * NULL: calls that free or close an object accept it; so does any other argument whose description
 * says so. A layout made from a layout that is NULL, because a call before has failed, fails with
 * -EINVAL. Any other NULL pointer is a programming error, as in the C library: no call checks for
 * it. This also holds for the headers that build on this one.
 *
 * Threads: a session and all objects created from it may be used by one thread at a time. Different
 * threads may use different sessions without locks.
 *
 * Fork: a child process must not use its parent's sessions. Requests to the daemon fail there
 * (-EINVAL), and tca_close() does not affect the parent; any other call acts on the parent's
 * behalf. A child may open sessions of its own.
 *
 * Time: every timeout is in nanoseconds. 0: do not wait; TCA_FOREVER: no limit; TCA_DEFAULT, in
 * calls that talk to daemons: the session's time-out (TCA_TIMEOUT, 10 s).
 *
 * Environment: tca(7) describes the variables, and tcactl env shows them with their values. An
 * argument overrides the environment, which overrides the default.
 */
#ifndef TCA_H
#define TCA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TCA_VERSION_MAJOR 0
#define TCA_VERSION_MINOR 2

#if defined(__GNUC__)
#define TCA_API __attribute__((visibility("default")))
#else
#define TCA_API
#endif

struct tca;       /* a session */
struct tca_group; /* of some of its ranks: tca-group.h */
struct tca_region;
struct tca_layout;
struct tca_plan;

#define TCA_FOREVER ((int64_t)-1)
#define TCA_DEFAULT ((int64_t)-2)

/* ---------------------------------------------------------------- errors */

/* Returns the message of this thread's last error: object, limit, value and remedy. Never NULL;
 * valid until this thread's next call of this library. */
TCA_API const char *tca_error_text(void);

/* Returns a short description of a negative errno as this library uses it ("stale handle" for
 * -ESTALE). Static. */
TCA_API const char *tca_strerror(int error);

/* Returns the version of the loaded library ("0.2.0"). Static. */
TCA_API const char *tca_version(void);

/* -------------------------------------------------------------- sessions */

/* Any member may be 0 or NULL: the environment then supplies the value, else the default. */
struct tca_open_args {
    /* Path of the tcad's socket. Default: TCA_SOCKET; with TCA_NODE=3, that of tca-cluster's node
     * 3; else the user's own tcad if it is running; else the system's (/run/tcad/tcad.sock). */
    const char *socket;
    /* Name of the group. Processes of one user that give the same name form a group. Default:
     * TCA_GROUP, TCA_RANK and TCA_SIZE; else the variables of mpirun, mpiexec, srun, flux run,
     * jsrun, torchrun and mpirun_rsh (OMPI_*, PMIX_*, PMI_*, SLURM_*, FLUX_*, PALS_*, JSM_*,
     * TORCHELASTIC_*, MV2_*), of the innermost launcher if they are nested; else a group of one.
     * -EINVAL: a launcher has set a rank, but no size or no name of the job.
     * "name@node" makes that node coordinate the group; by default the name determines the node. A
     * name requires rank and size; rank and size without a name take the name from the
     * environment. */
    const char *group;
    uint32_t rank;
    uint32_t size; /* at most 1,048,576; 0: take group, rank and size from the environment */
    /* Shown in status displays. Default: the program's name. */
    const char *name;
    /* Time-out of calls with TCA_DEFAULT, and limit for tca_open() itself, which waits for the
     * whole group. 0: TCA_TIMEOUT, else 10 s. */
    int64_t timeout_ns;
};

/* Opens a session and joins the group; returns when all ranks have joined. args may be NULL. On
 * failure nothing remains open. */
TCA_API int tca_open(const struct tca_open_args *args, struct tca **ret_session);

/* Closes the session: releases its plans, frees its regions (their handles become stale) and
 * informs the group.
 *
 * First waits for all starts in flight, at most the session's time-out (tca_open_args.timeout_ns,
 * TCA_TIMEOUT, 10 s). A start that is blocked at a wait step ends at once. tcad informs the group
 * when the data in flight has arrived, at most control.request_timeout later. A process may
 * therefore close as soon as it has received the last notification that it needs and has waited for
 * its own starts: starts of its peers whose data has arrived succeed, also with TCA_PLAN_LANDED.
 * NULL is a no-op. Returns NULL. */
TCA_API struct tca *tca_close(struct tca *session);

/* Returns a descriptor that is readable while daemon events are pending, for callers that also poll
 * other descriptors: poll() it, then call tca_dispatch(). Do not read from it. Owned by the
 * session. */
TCA_API int tca_event_fd(const struct tca *session);

/* Processes pending daemon events and advances running starts, without waiting; every waiting call
 * does the same. Returns 0, or the reason why the session was lost. */
TCA_API int tca_dispatch(struct tca *session);

TCA_API uint32_t tca_rank(const struct tca *session);
TCA_API uint32_t tca_size(const struct tca *session);
/* Number of this process's node, and of the node of a rank of the group. -EINVAL: rank out of
 * range. */
TCA_API uint32_t tca_node(const struct tca *session);
TCA_API int tca_node_of(const struct tca *session, uint32_t rank);
/* Number of the sub-cluster of a rank's node: the same for all ranks whose nodes are in one
 * sub-cluster. -EINVAL: rank out of range. */
TCA_API int tca_subcluster_of(const struct tca *session, uint32_t rank);
/* Name of this process's node. Owned by the session. */
TCA_API const char *tca_node_name(const struct tca *session);

/* Gathers blob_bytes bytes (at most 4096, the same number at every rank) of every rank in ret_all,
 * in rank order (size * blob_bytes bytes: 80 MiB at most, else -EMSGSIZE). Collective: all ranks
 * make the same calls in the same order. A call that fails, as after one rank's time-out, fails at
 * all ranks that have made it, and may be repeated by all; after a rank has ended, all calls fail.
 * Takes milliseconds: meant for set-up. */
TCA_API int tca_allgather(struct tca *session, const void *blob, size_t blob_bytes, void *ret_all,
                          int64_t timeout_ns);

/* Returns when all ranks have called it. Collective. Runs through the daemons and takes
 * milliseconds; tca_coll_barrier() (tca-coll.h) is fast. */
TCA_API int tca_barrier(struct tca *session, int64_t timeout_ns);

/* --------------------------------------------------------------- regions */

/* Allocates memory from the daemon: zeroed, page-aligned, at the same address in every process of
 * the group on this node: pointers into it mean the same there, unless tca_reach() returns another
 * address because that process has something else there. The daemon takes the addresses from a
 * range that tcad.conf reserves (memory.base). -EADDRINUSE: this process has something else at the
 * next ones. Counts against the user's quota. bytes > 0, rounded up to whole pages. */
TCA_API int tca_region_alloc(struct tca *session, uint64_t bytes, struct tca_region **ret_region);

/* Makes a region of memory that this process has already: heap, stack, static data, mappings. The
 * whole pages that contain it become shared memory, in place: they keep their addresses and
 * contents, and everything that is next to it in them keeps working. From then on it is a region
 * like any other, in every seat, on every rail, and for tca_reach(). It counts against the user's
 * quota.
 *
 * All of it must be mapped (-EFAULT), and remain so until the region is freed: free the region
 * before the memory, and before realloc(). Ranges may overlap. The memory is copied once, here and
 * by tca_region_free() (some GB/s), and pages not touched before are allocated: attach once, not
 * for each transfer. It is in huge pages where it can be.
 *
 * -EOPNOTSUPP, with the reason: memory that cannot be shared in place. That is other
 * threads' stacks, mappings that are shared already (files, other processes, another region), code,
 * reserved huge pages, memory of devices (see tca_region_import()). Put such data from memory of
 * tca_alloc().
 *
 * Threads that store to these pages meanwhile wait for microseconds and lose nothing, except where
 * the pages contain initialized data of the program or a library: no other thread may store there
 * during this call and tca_region_free(). -EBUSY: there are other threads, and the kernel does not
 * permit userfaultfd(2), which holds them (a seccomp profile of a container). Only for processes
 * with CAP_SYS_PTRACE (or vm.unprivileged_userfaultfd) does it also hold system calls: one of
 * another thread that stores to these pages at that moment, such as read(), fails with EFAULT
 * otherwise.
 *
 * A child of fork() gets a private copy, for which fork() waits: posix_spawn(), system() and
 * popen() cost nothing. Without memory for the copy, the child exits with 127 and says why on
 * standard error; where the calling thread's own stack was attached, it is killed by a signal. The
 * parent is not affected. A child of _Fork(), vfork() or clone() shares the memory. Nothing may be
 * registered with a device (by MPI, for example) and in use while it becomes shared.
 *
 * -EFBIG: RLIMIT_FSIZE is not unlimited. -EDQUOT, -ENOMEM, -EMFILE. */
TCA_API int tca_region_attach(struct tca *session, void *address, uint64_t bytes,
                              struct tca_region **ret_region);

/* Makes a region of a part of a dmabuf: memory of a GPU or another device whose driver exports it,
 * or of udmabuf and dma-heaps. The caller may close the descriptor afterwards; the region keeps the
 * memory. It is used like memory of tca_region_alloc(), in every seat and over every rail that
 * takes it. The rail hca registers the dmabuf itself: adapter and device then exchange data
 * directly. With ROCm:
 *
 *     hsa_amd_portable_export_dmabuf(address, bytes, &fd, &offset);
 *     tca_region_import(session, fd, offset, bytes, &region);
 *
 * Offset and length are in bytes; the whole pages that contain the part must lie within the dmabuf.
 * All of the dmabuf up to their end is mapped, and counts against the user's quota.
 *
 * The exporter must let processes map the dmabuf for reading and writing (-EOPNOTSUPP otherwise),
 * because short and scattered data, puts within the node and most rails need processors to copy.
 * NVIDIA's driver does not (cuMemGetHandleForAddressRange() of CUDA).
 *
 * The mapping is accessed without DMA_BUF_IOCTL_SYNC: the exporter must keep processors and device
 * coherent, as PCI Express does on x86-64 and on Arm servers. Otherwise the program itself makes
 * that call before a start (of a source) and after a notification (of a target). Fences are not
 * awaited: what the device has to do with the data must be complete before the start. A program
 * that loads from a mapping which its driver has made write-combined does so after a fence
 * (atomic_thread_fence()).
 *
 * A rail whose device cannot register the memory carries no puts from or into it: the log of tcad
 * and `tcactl plan explain` show why. -EINVAL: not a dmabuf, or the part is outside it. -EDQUOT,
 * -ENOSPC, -ENOMEM. */
TCA_API int tca_region_import(struct tca *session, int dmabuf, uint64_t offset_bytes,
                              uint64_t bytes, struct tca_region **ret_region);

/* Frees the region; attached memory remains the caller's, an imported dmabuf its exporter's. Its
 * handles become stale everywhere. -EBUSY, in every seat and on every rail, while this session has
 * a plan with a put from it or into it: free the plan first. NULL is a no-op (0).
 *
 * The owner may free a target as soon as it has received the notification of the last put that it
 * expects there from other processes. Their plans that put into it can no longer be started
 * (-ESTALE): those of this node when this call has returned, those of another node a moment later,
 * when its tcad has been told. A running start fails only if it has yet to put into it; otherwise
 * it completes as usual. Data in flight to it is discarded.
 *
 * Memory that was attached is private again when this call has returned 0: nobody else stores to
 * it, or sees what the program stores. */
TCA_API int tca_region_free(struct tca_region *region);

TCA_API void *tca_region_address(const struct tca_region *region);
TCA_API uint64_t tca_region_bytes(const struct tca_region *region);

/* Plain data: may be copied by any means, also to other nodes. */
struct tca_handle {
    uint8_t bytes[64];
};

/* Makes a handle for length_bytes bytes from offset_bytes on (0, TCA_ALL: the whole region). The
 * handle grants access to these bytes only; its key covers the range, so that a holder cannot widen
 * it. */
#define TCA_ALL UINT64_MAX
TCA_API int tca_region_handle(const struct tca_region *region, uint64_t offset_bytes,
                              uint64_t length_bytes, struct tca_handle *ret_handle);

/* Owner's node and length in bytes, as encoded in the handle, also if the handle is stale. -EINVAL:
 * invalid handle. */
TCA_API int tca_handle_node(const struct tca_handle *handle);
TCA_API int64_t tca_handle_bytes(const struct tca_handle *handle);

/* Allocates memory inside regions, like malloc(), for many small objects. Not zeroed; aligned to 16
 * bytes or, when bytes is a power of two, to bytes (at most 4096). The library allocates regions
 * from the daemon as needed, 256 KiB first, and divides them; most calls touch only a few words. A
 * pointer is valid in all processes of the group on this node that have mapped the region, and can
 * be the source of a put (struct tca_put, source_address); tca_handle_of() makes a handle for it.
 * bytes > 0. -EDQUOT, -ENOMEM. */
TCA_API int tca_alloc(struct tca *session, uint64_t bytes, void **ret_memory);

/* Frees memory from tca_alloc(); tca_close() frees all of it. Unlike those of a region, its handles
 * do not become stale: make sure that no process puts into it any more. -EINVAL: not from
 * tca_alloc() of this session, or already freed. -EBUSY: larger than 8 MiB and used by a plan of
 * this session. NULL is a no-op (0). */
TCA_API int tca_free(struct tca *session, void *memory);

/* Finds the region of this session that contains an address, and the address's offset in it.
 * -EINVAL: no region contains it. A region of tca_alloc() cannot be freed by tca_region_free(). */
TCA_API int tca_region_of(struct tca *session, const void *address, struct tca_region **ret_region,
                          uint64_t *ret_offset_bytes);

/* Makes a handle for `bytes` bytes from an address in any region of this session: tca_region_of()
 * and tca_region_handle() in one call. */
TCA_API int tca_handle_of(struct tca *session, const void *address, uint64_t bytes,
                          struct tca_handle *ret_handle);

/* Returns the address of the handle's memory in this process, for programs that read, or write, a
 * neighbour's memory in place instead of copying it (shmem_ptr). The memory must belong to a
 * process of the same user on this node. The address is the same as in the owner, but another one
 * if this process has something else there, or the owner had the memory before
 * (tca_region_attach()). Asks the daemon and maps the memory: call it once for each handle, before
 * the work begins.
 *
 * The address remains valid until tca_close() of this session, also if the owner frees the region
 * or ends: then the memory keeps its last contents (or zeros, if it was attached), and stays
 * allocated until no process maps it. An address of this process's own region is valid until
 * tca_region_free(). Do not access more than the handle's bytes.
 *
 * As with puts, only notifications order accesses: the owner notifies when its data is ready, and
 * writes it again only after a notification back. tca(7) shows the pattern,
 * client/examples/in-place.c is a complete program.
 *
 * NULL, with the reason in tca_error_text(): the memory is on another node (use a put;
 * tca_handle_node() tells where it is), the handle is stale or invalid, permission is
 * denied, no memory or addresses are left, or the session is lost. */
TCA_API void *tca_reach(struct tca *session, const struct tca_handle *handle);

/* Publishes a handle in the group under a name (at most 63 bytes). Publishing a name again replaces
 * its handle (-EEXIST if another session published it); NULL withdraws it. All names of a session
 * are withdrawn when it ends. */
TCA_API int tca_publish(struct tca *session, const char *name, const struct tca_handle *handle);

/* Waits until a session of the group has published the name. */
TCA_API int tca_lookup(struct tca *session, const char *name, int64_t timeout_ns,
                       struct tca_handle *ret_handle);

/* --------------------------------------------------------------- layouts */

/* A layout describes the location of a transfer's bytes relative to a base address, and their
 * order. Layouts are composed like MPI datatypes, from elements outwards, with the same meaning:
 * *size* is the number of data bytes without gaps; copies of a layout are *extent* bytes apart, the
 * distance from its lower to its upper bound, both of which tca_layout_resized() changes; the
 * *bounds* of the bytes touched (MPI's true extent) are independent of these. Counts may be 0 and
 * blocks empty; offsets and strides may have any sign. Blocks of a source may overlap; where blocks
 * of a target overlap, the data of one of them remains. Layouts are normalized: adjacent blocks are
 * merged, regular ones become a loop.
 *
 * A layout belongs to no session or thread: any of them can use it (hand it over between threads
 * like other memory). It can be freed as soon as the layout or step that uses it has been made.
 * Constructors copy their arguments.
 *
 * Errors: -EOVERFLOW (an offset needs more than 63 bits), -E2BIG (more than 16 nested loops, or
 * more than 1048576 irregular blocks), -EINVAL, -ENOMEM. */

/* Type of an element. The values are stable. */
enum tca_type {
    TCA_TYPE_BYTE = 0, /* untyped, see below */
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

/* One element. Both sides of a put must have the same types, element by element in packed order
 * (-EINVAL, the message names both), unless one side consists of bytes only, which match any types
 * of the same size. Types are not converted. The strictest alignment rounds up the extent of a
 * containing layout, as in a C struct. */
TCA_API int tca_layout_element(enum tca_type type, struct tca_layout **ret_layout);

/* `bytes` contiguous bytes. */
TCA_API int tca_layout_contiguous(uint64_t bytes, struct tca_layout **ret_layout);

/* Block-stride: `count` blocks of block_bytes bytes whose starts are stride_bytes apart (any
 * sign). */
TCA_API int tca_layout_strided(uint64_t count, uint64_t block_bytes, int64_t stride_bytes,
                               struct tca_layout **ret_layout);

/* `count` copies of inner, one extent apart. (MPI_Type_contiguous) */
TCA_API int tca_layout_array(const struct tca_layout *inner, uint64_t count,
                             struct tca_layout **ret_layout);

/* `count` copies of inner whose starts are stride_bytes apart. At most 16 nested loops remain after
 * merging. */
TCA_API int tca_layout_repeat(const struct tca_layout *inner, uint64_t count, int64_t stride_bytes,
                              struct tca_layout **ret_layout);

/* `count` blocks of `length` copies of inner each, whose starts are `stride` extents of inner, or
 * stride_bytes bytes, apart. (MPI_Type_vector, MPI_Type_create_hvector) */
TCA_API int tca_layout_vector(const struct tca_layout *inner, uint64_t count, uint64_t length,
                              int64_t stride, struct tca_layout **ret_layout);
TCA_API int tca_layout_hvector(const struct tca_layout *inner, uint64_t count, uint64_t length,
                               int64_t stride_bytes, struct tca_layout **ret_layout);

/* `count` blocks; block i has lengths[i] copies of inner and starts offsets[i] extents of inner, or
 * offsets_bytes[i] bytes, from the base. (MPI_Type_indexed, MPI_Type_create_hindexed) */
TCA_API int tca_layout_indexed(const struct tca_layout *inner, uint64_t count,
                               const uint64_t *lengths, const int64_t *offsets,
                               struct tca_layout **ret_layout);
TCA_API int tca_layout_hindexed(const struct tca_layout *inner, uint64_t count,
                                const uint64_t *lengths, const int64_t *offsets_bytes,
                                struct tca_layout **ret_layout);

/* The same with blocks of equal length. (MPI_Type_create_indexed_block,
 * MPI_Type_create_hindexed_block) */
TCA_API int tca_layout_indexed_block(const struct tca_layout *inner, uint64_t count,
                                     uint64_t length, const int64_t *offsets,
                                     struct tca_layout **ret_layout);
TCA_API int tca_layout_hindexed_block(const struct tca_layout *inner, uint64_t count,
                                      uint64_t length, const int64_t *offsets_bytes,
                                      struct tca_layout **ret_layout);

/* `count` blocks; block i has lengths[i] copies of inners[i] and starts offsets_bytes[i] bytes from
 * the base. (MPI_Type_create_struct) */
TCA_API int tca_layout_struct(uint64_t count, const struct tca_layout *const *inners,
                              const uint64_t *lengths, const int64_t *offsets_bytes,
                              struct tca_layout **ret_layout);

enum tca_order {
    TCA_ORDER_C = 0,       /* the last index varies fastest */
    TCA_ORDER_FORTRAN = 1, /* the first index varies fastest */
};

/* A box of subsizes[] elements of layout inner, starting at index starts[] (from 0) of an array of
 * sizes[] elements. Base and extent are those of the whole array. -EINVAL: no dimensions, or the
 * box exceeds the array. (MPI_Type_create_subarray) */
TCA_API int tca_layout_subarray(const struct tca_layout *inner, uint32_t dimensions,
                                const uint64_t *sizes, const uint64_t *subsizes,
                                const uint64_t *starts, enum tca_order order,
                                struct tca_layout **ret_layout);

/* The same data with an explicit lower bound and extent (any sign). Copies of it are extent_bytes
 * apart; a struct that contains it starts at lower_bytes and ends extent_bytes later, whatever else
 * it contains. (MPI_Type_create_resized) */
TCA_API int tca_layout_resized(const struct tca_layout *inner, int64_t lower_bytes,
                               int64_t extent_bytes, struct tca_layout **ret_layout);

/* The same layout, displaced by offset_bytes. */
TCA_API int tca_layout_shift(const struct tca_layout *inner, int64_t offset_bytes,
                             struct tca_layout **ret_layout);

TCA_API int tca_layout_dup(const struct tca_layout *layout, struct tca_layout **ret_layout);

/* NULL is a no-op. Returns NULL. */
TCA_API struct tca_layout *tca_layout_free(struct tca_layout *layout);

/* Bytes of data, without gaps; and the range of bytes touched, relative to the base: from lower up
 * to, but not including, upper. */
TCA_API uint64_t tca_layout_size(const struct tca_layout *layout);
TCA_API void tca_layout_bounds(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                               int64_t *ret_upper_bytes);

/* Lower bound and extent, which place the copies of a layout. (MPI_Type_get_extent;
 * tca_layout_bounds() returns the true extent) */
TCA_API void tca_layout_extent(const struct tca_layout *layout, int64_t *ret_lower_bytes,
                               int64_t *ret_extent_bytes);

/* Number of contiguous blocks in packed order: a block ends where the next byte of data is not the
 * next in memory. */
TCA_API uint64_t tca_layout_blocks(const struct tca_layout *layout);

/* Formats a one-line description: "64 x 256 B every 4096 B (16 KiB): 2048 x double". Truncated to
 * text_bytes, always NUL-terminated. */
TCA_API void tca_layout_describe(const struct tca_layout *layout, char *text, size_t text_bytes);

/* tca_pack() copies the data of a layout at `base` to `buffer`, starting at byte *position, in
 * packed order, and advances *position by the layout's size; tca_unpack() copies in the other
 * direction. Any memory will do, not only regions. -ENOSPC: the buffer is too small; nothing was
 * copied. (MPI_Pack, MPI_Unpack; for several elements use tca_layout_array()) */
TCA_API int tca_pack(const struct tca_layout *layout, const void *base, void *buffer,
                     uint64_t buffer_bytes, uint64_t *position);
TCA_API int tca_unpack(const struct tca_layout *layout, void *base, const void *buffer,
                       uint64_t buffer_bytes, uint64_t *position);

/* ----------------------------------------------------------------- plans */

/* When memory may be written again. A start reads its sources and writes its targets. Neither is
 * locked, and a put does not wait for the reader of its target.
 *
 * A *source* may be written when tca_wait() or tca_test() reports that the start is complete. A
 * *target* may be put into again when its reader has released it by a notification started after
 * the read; completion of the sender's start, or an earlier notification, does not release it.
 * Where data flows both ways in every step, alternate between two buffers: the peer's notification
 * of one step releases the buffer of the next, without an extra message. Where data flows one way,
 * the reader notifies the writer. tca(7) shows both patterns. A slot only counts notifications: use
 * one slot for each buffer. Memory is private until its process hands out a handle: initialize a
 * target before that. */

/* A node can have several rails of one driver, each with a name such as "ofi:tcp:lo"; tcactl status
 * shows them. Each of these values stands for any rail of a driver. */
enum tca_rail {
    /* Selected by predicted cost. To another node, if several rails lead there: found by trial
     * during the plan's first starts, unless the plan requests a seat; see tca(7). */
    TCA_RAIL_ANY = 0,
    TCA_RAIL_SHM = 1,
    TCA_RAIL_OFI = 2,
    TCA_RAIL_HCA = 3,
    TCA_RAIL_PEACH2 = 4,
    TCA_RAIL_TCP = 5,
};

enum tca_seat {
    /* Each chain gets the seat that suits it. Within a node, predicted cost decides. To another
     * node: the client's seat for a chain that leads to one process and has no waits, flushes,
     * ordered puts or reductions, if one rail leads there, and that is of the
     * driver tcp, or of hca and both processes have access to the RDMA device; if its data is long,
     * the plan tries during its first starts whether the daemon's is faster (tca(7)); otherwise,
     * and when no more connections can be made (tcad.conf(5), pairs_per_session), the daemon's. */
    TCA_SEAT_ANY = 0,
    /* This process copies: in tca_start() and, if the data is long, also in later calls.
     *
     * To another node, only over rails of the drivers tcp and hca: the processes at both ends have
     * a connection of their own, and no tcad takes part in a start, so the latency is lower. Over
     * hca, both processes need access to the RDMA device (-ENODEV; -EOPNOTSUPP if the receiver has
     * none); where rails of both drivers lead, request this one. The program reads and writes the
     * connection in each call that tests, waits or makes a request. A start writes, too; short
     * starts that follow it without such a call in between may be left to the next one, which
     * writes them together. While a program makes no such calls for a millisecond or two, a thread
     * of the library does this for it, so that data keeps moving while it computes. The thread
     * blocks all signals, and sleeps when there is nothing to do. It does not run chains: what
     * follows a wait, a flush or an ordered put in a chain starts in the program's next call.
     *
     * To another node, each chain puts to and notifies one process; reductions need tcad
     * (-EOPNOTSUPP). */
    TCA_SEAT_CLIENT = 1,
    TCA_SEAT_DAEMON = 2, /* the daemon transfers the data while this process computes */
};

enum {
    /* Record times in receipts in the client's seat, too (two clock reads per start). */
    TCA_PLAN_TIMED = 1 << 0,
    /* Remote completion: a start completes when all its data is visible at the targets, rather than
     * when its sources may be written again, so that a process that learns of the completion by
     * other means (an MPI barrier, for example) finds the data. The same as tca_plan_flush() at the
     * end of each chain. */
    TCA_PLAN_LANDED = 1 << 1,
    /* `rail` is a preference rather than a requirement: puts to another node use it if it leads
     * there, regardless of predicted cost; otherwise, and within a node, predicted cost decides.
     * After a failure the plan returns to the rail as to any better one. TCA_RAIL in the
     * environment remains a requirement. */
    TCA_PLAN_PREFER = 1 << 2,
    /* One start runs round after round, until tca_plan_stop(). Each chain begins with a wait step.
     * A round ends when all chains have run to their ends; then all begin again. A round needs no
     * call: in the daemon's seat, the default for such plans, rounds go on while this process
     * computes or is stopped. In the client's seat, they advance in the calls that advance any
     * start that waits. All chains run in the same seat. The first round is posted in the order of
     * its channel; later ones are not ordered with other starts.
     *
     * The start is in flight, and tca_test() returns 0, until it is stopped or a round fails. A
     * rail that is lost or returns between two rounds does not end the start; a rail that is lost
     * during a round does, as in any start. When a round fails, chains that are still at their
     * first wait step end at once, and tca_wait() returns the error. tca_plan_free() stops the
     * plan; tca_close() lets running chains reach their next wait step at most. */
    TCA_PLAN_REPEAT = 1 << 3,
};

struct tca_plan_args {
    const char *name;   /* for tcactl and receipts; may be NULL */
    enum tca_rail rail; /* a commit fails if it is not available, unless TCA_PLAN_PREFER */
    enum tca_seat seat;
    /* 0 to 3. Starts on one channel are posted in order: a start hands its puts and notifications
     * to the rails before the next start does. A chain with wait steps is posted in this order up
     * to the first of them: a start that waits delays no other, and its steps after the wait are
     * not ordered with later starts. Posting order is data order among puts to one node, and holds
     * for the plans of each seat by themselves. A plan that may use any seat counts as one of the
     * seat that enum tca_seat names, and keeps its place when it moves to the other. A start in
     * another seat or over other rails than earlier ones begins when the data of these has arrived:
     * plans that need no order take different channels. In the client's seat, plans that request
     * connections over different rails have no order; nor have, over different rails, plans with
     * `together`. A start that needs the data of another start must wait for its completion or its
     * notification. */
    uint32_t channel;
    uint32_t flags;
    const char *rail_name; /* instead of `rail`: a rail or a driver of this node; NULL: not used */
    /* Not 0: this process starts the plans with this number together, as those of a halo exchange.
     * Where several rails lead to other nodes, the cost model then has all of them end as early as
     * possible: a commit chooses the rail over which the plan's data would arrive first, behind
     * what the plans committed before put there. Commit those with the most data first. Numbers
     * from 2^31 are the library's. */
    uint32_t together;
    /* Ranks are those of this group (tca-group.h). NULL: all ranks of the session. */
    struct tca_group *group;
};

/* Creates a plan. A plan without steps can be committed, started and waited for, and does nothing,
 * so that a rank without neighbours needs no special case. args may be NULL. The session releases
 * its plans when it is closed.
 *
 * A program may leave the results of the calls that add steps unchecked: if one of them is refused,
 * tca_plan_commit() fails with its error, and the text names the step and the reason. */
TCA_API int tca_plan_new(struct tca *session, const struct tca_plan_args *args,
                         struct tca_plan **ret_plan);

/* Releases the plan, after waiting for a running start (at most the session's time-out). tcad lets
 * the plan's data arrive and releases the rest later; a call that needs what the plan still has,
 * the region of a source or its place in a quota, waits for that. NULL is a no-op. Returns NULL. */
TCA_API struct tca_plan *tca_plan_free(struct tca_plan *plan);

/* Begins another chain, to which the following steps belong. Has no effect before the first step.
 * Chains run concurrently, in no particular order.
 *
 * The effect is as if the steps of a chain ran in order: a put reads and overwrites what earlier
 * puts of its chain have written, and does not change what they read, whichever rails and seats
 * they use. Puts that have no bytes in common may run concurrently. The commit determines this from
 * the layouts. Interleaved blocks of two layouts count as distinct unless both layouts are very
 * irregular (more than 64 indexed blocks, for example), or too many such layouts are interleaved; a
 * put may then wait unnecessarily (tcactl plan explain shows for which step). A put that has to
 * wait waits for all earlier steps of its chain: move independent puts to another chain. Memory
 * that is mapped twice, at different addresses, counts as different memory.
 *
 * Between starts: when a start is complete, the data that it has put into memory of this session,
 * allocated or attached, is there and can be the source of the next start. Data put elsewhere can
 * be overwritten by another start once the notified process has confirmed it. Concurrent starts, of
 * one plan or of several, have no order except by channel (struct tca_plan_args). */
TCA_API int tca_plan_chain(struct tca_plan *plan);

/* How a put combines elements. Integers have all operators; TCA_TYPE_BYTE has the bitwise ones,
 * TCA_TYPE_BOOL the logical ones, complex numbers sum and product, other real numbers sum, product,
 * minimum and maximum; TCA_TYPE_CHAR has none. Results of logical operators are 0 or 1. The values
 * are stable. */
enum tca_combine {
    TCA_COMBINE_REPLACE = 0, /* an ordinary put */
    TCA_COMBINE_SUM = 1,
    TCA_COMBINE_PRODUCT = 2,
    TCA_COMBINE_MIN = 3,
    TCA_COMBINE_MAX = 4,
    TCA_COMBINE_LOGICAL_AND = 5,
    TCA_COMBINE_LOGICAL_OR = 6,
    TCA_COMBINE_LOGICAL_XOR = 7,
    TCA_COMBINE_BIT_AND = 8,
    TCA_COMBINE_BIT_OR = 9,
    TCA_COMBINE_BIT_XOR = 10,
    /* The elements are pairs, struct { T value; int32_t index; } in C, where T is the type (MPI's
     * MINLOC and MAXLOC): the pair with the least or greatest value and, of equal values, the one
     * with the least index. For integers and other real numbers. */
    TCA_COMBINE_MIN_LOC = 11,
    TCA_COMBINE_MAX_LOC = 12,
};

/* Length of the elements that an operator combines: of the type, or of a pair. -EINVAL: the
 * operator does not combine elements of this type. */
TCA_API int tca_combine_bytes(enum tca_combine combine, enum tca_type type);

/* One put. A side whose layout is NULL is contiguous and as long as the other side's layout or,
 * when both are NULL, `bytes` bytes. With a layout, `bytes` is 0 or the layout's size. Without one,
 * `bytes` is more than 0, except for a reduction: -EINVAL, because the layout may be missing only
 * because the call that was to make it has failed. */
struct tca_put {
    struct tca_region *source;
    uint64_t source_offset_bytes; /* of the layout's base, in the region */
    const struct tca_layout *source_layout;
    struct tca_handle target;
    uint64_t target_offset_bytes; /* of the layout's base, in the handle's range */
    const struct tca_layout *target_layout;
    uint64_t bytes;
    const void *source_address; /* instead of source: any address in a region of this session, for
                                   example from tca_alloc() */
    /* Not 0: a reduction. Combines each element of the target (left operand) with that of the
     * source (right operand): target = target `combine` source. Both sides are contiguous (`bytes`,
     * no layouts) and consist of elements of this type, at any offset. The target is
     * daemon-allocated memory of a process of this node, which may be this one: to reduce data of
     * other nodes, have them put it into other memory here, wait for it, and reduce it. The step
     * runs on the rail shm, in the seat of its chain; the other steps of the chain use any rail.
     * Like any put, it is ordered with the others of its chain; two starts, or two processes, that
     * reduce into the same memory at the same time must be ordered by notifications. In the same
     * order, results are the same bits in every seat and on every run. Integers wrap around; a
     * minimum or maximum of a NaN and a number is either. */
    enum tca_combine combine;
    enum tca_type type;
    /* Not 0: becomes visible only after all earlier puts of its chain, to any node. For flags that
     * a reader polls. Where the rail does not keep the order, this costs a request to each of the
     * target nodes. */
    uint32_t ordered;
    /* Not 0: each start says which part of this put it moves (tca_start_parts()): other offsets or
     * another length within what is committed here, without a new commit. The layouts then describe
     * all that a start may read and write; the checks and the order of steps apply to all of it. If
     * one side is contiguous, the sizes may differ, and element types are not compared. Not for
     * reductions. All plans of a session have at most 1024 such puts. */
    uint32_t parts;
};

/* Appends a put. Keeps references of its own to the layouts. Both sides must have the same size and
 * element types. A put whose layout has 0 bytes moves nothing, and its memory is not looked at:
 * source and target may be 0. It is not counted among the steps that messages and tcactl plan
 * explain number; notifications that follow it are raised in the order of the chain. A start
 * overwrites the target whether or not its reader has read it: see the beginning of this
 * section. */
TCA_API int tca_plan_put(struct tca_plan *plan, const struct tca_put *put);

/* Appends a notification: increments the counter (this rank, slot) of the given rank. By then the
 * data of all earlier puts of this chain to that rank's node is visible there, and the sources of
 * all earlier puts of this chain may be written again. Data for other nodes may still be in flight:
 * notify those nodes too, or flush (tca_plan_flush()). Counters in memory, for several senders:
 * tca-signal.h. slot: 0 to 2^31 - 1; the numbers from 2^31 on are those of the library's own
 * modules, such as tca-halo.h. Each (rank, slot) that is used takes 256 bytes at the receiver until
 * its session ends, charged to its user when the first plan that uses it is committed; a session
 * has at most 2^20. */
TCA_API int tca_plan_notify(struct tca_plan *plan, uint32_t rank, uint32_t slot);

/* Appends a flush: the chain continues when the data of all its puts so far is visible at the
 * targets. Costs a request to each target node; nothing where no step precedes it.
 *
 * In a chain with flushes or ordered puts, receivers do not help to copy (client's seat). */
TCA_API int tca_plan_flush(struct tca_plan *plan);

/* Appends a wait: the chain continues when `count` notifications of (rank, slot) have arrived, and
 * consumes them. All starts that a session can have in flight (1024) may wait at the same time.
 * Starts in the daemon's seat that wait for the same notifications receive them in the order in
 * which the daemon accepted the starts; within a channel, that is the order of tca_start(). */
TCA_API int tca_plan_wait(struct tca_plan *plan, uint32_t rank, uint32_t slot, uint64_t count);

/* Compiles the plan: checks every handle, binds every step to a rail and a seat, and maps the
 * memory. No steps can be added afterwards; after a failure the commit may be repeated, unless a
 * step was refused: then it fails with the error of the first such step, and the plan can only be
 * freed. -ESTALE, -EACCES, -EHOSTDOWN, -ENETDOWN, -EDQUOT, -EINVAL (tca_error_text() names the
 * step).
 *
 * TCA_DEFAULT: the session's time-out and a millisecond for each step.
 *
 * Asks the daemon of each node that the plan puts to or notifies, unless the session has just freed
 * a plan with the same steps, in the daemon's seat: then the new plan takes over what that one had
 * prepared there. A program that makes a plan for each message commits it soon after it has freed
 * the last one. */
TCA_API int tca_plan_commit(struct tca_plan *plan, int64_t timeout_ns);

/* Starts the plan. Chains in the client's seat are copied before the call returns, up to the first
 * wait step whose notifications have not arrived; they then advance in tca_test(), tca_notified(),
 * tca_dispatch() and all calls that wait, for whatever (tca_wait(), tca_barrier(), a commit). A
 * plan that puts more than 4 MiB in this seat is copied piecewise in these calls, so that later
 * starts need not wait for it; tca_wait() right after the start copies it without interruption. To
 * overlap computation within a node, request TCA_SEAT_DAEMON. Allocates nothing; takes no lock and
 * makes no system call, except to wake a sleeping daemon or peer, and to write to a connection to
 * another node. -EBUSY while the last start is running, -EAGAIN when the ring is full, or data of
 * earlier starts of its channel does not arrive; the other errors are permanent for this plan:
 * -ESTALE, -EOWNERDEAD, -EHOSTDOWN, -ENETDOWN.
 *
 * When a rail fails and another leads to the node, the plan moves to that rail, unless it requires
 * the failed one: then, as where no other rail is left, it fails for good, also after the rail is
 * back, and has to be made and committed anew. A start that is running at that moment fails with
 * -ENETDOWN or a similar error, because it is unknown how much of its data has arrived; later
 * starts use the new rail, which their receipts name.
 *
 * When a start is complete, its data may still be in flight (TCA_PLAN_LANDED waits for it). If the
 * rail then fails and it is unknown whether this data has arrived, every plan of the session that
 * puts to that node over this rail on the same channel fails: starting, testing or waiting for it
 * returns -ENETDOWN, and the message gives the node, the rail and the number of puts. No later
 * start overtakes the lost data. If the plan was freed meanwhile, tcad only logs the loss. */
TCA_API int tca_start(struct tca_plan *plan);

/* What a start moves of a put with `parts`. Positions count the bytes of a side in the order of its
 * layout, without gaps: in contiguous memory, they are offsets; in a layout of blocks of 64 bytes,
 * 128 is the beginning of the third block. If neither side is contiguous, both positions are
 * equal. */
struct tca_part {
    uint64_t source_at_bytes;
    uint64_t target_at_bytes;
    uint64_t bytes; /* 0: nothing is moved, but notifications are raised */
};

/* Starts the plan with these parts, one for each put with `parts`, in the order of tca_plan_put().
 * tca_start() repeats the last parts; before the first call, it moves from position 0 on as many
 * bytes as both sides have. Errors as for tca_start(), and -EINVAL: the number of parts is wrong,
 * or a part is outside its put; nothing is started, and tca_test() and tca_wait() return the error,
 * and its text, too, until the next start. A start that fails with -EAGAIN has kept its parts. */
TCA_API int tca_start_parts(struct tca_plan *plan, const struct tca_part *parts, uint32_t count);

/* Tests whether the last start is complete, that is, its sources may be written again (see also
 * tca_plan_chain() and TCA_PLAN_LANDED). 1: complete, or never started; 0: running; negative: it
 * failed. After a failure it is unknown which data and notifications have arrived. */
TCA_API int tca_test(struct tca_plan *plan);

/* Waits until the last start is complete: 0, -ETIMEDOUT (it is still running), or the error with
 * which it failed or, if the plan can no longer be started, was refused. When a process or node has
 * ended (-EOWNERDEAD, -EHOSTDOWN), chains with a remaining step that needs it end at once; the
 * others run to their ends first, unless the start was still waiting for earlier ones of its
 * channel. */
TCA_API int tca_wait(struct tca_plan *plan, int64_t timeout_ns);

/* Waits until a condition of the program is true: `ready` returns > 0, or < 0 to end the wait with
 * an error. It may test plans and notifications (tca_test(), tca_notified(), tca_notified_count())
 * and start plans. For example, to wait for a notification and notice meanwhile that a start fails:
 *
 *     static int arrived(void *context)
 *     {
 *         struct halo *h = context;
 *         int sent = tca_test(h->plan);
 *         if (sent < 0)
 *             return sent;
 *         return tca_notified(h->session, h->left, 0);
 *     }
 *
 * Spins and then sleeps, like other waits. Calls `ready` after each notification that arrives for
 * this session, after each start that completes, and at other times. Returns the result of `ready`,
 * -ETIMEDOUT, or the reason why the session was lost. */
TCA_API int tca_wait_until(struct tca *session, int (*ready)(void *context), void *context,
                           int64_t timeout_ns);

/* Cancels the running start, for example one that waits for a notification that will not come: its
 * chains run no further step; what they have posted completes. tca_wait() then returns -ECANCELED,
 * or the result of a start that was complete before, and the plan can be started again.
 * Notifications that were not consumed remain; those that a chain has consumed in a completed wait
 * step are lost. In the daemon's seat, a chain at a wait step ends at once, and a chain at a put
 * that its rail has not accepted yet ends when the rail accepts the put or fails. No effect if no
 * start is running. -EAGAIN: the submission ring is full, try again. */
TCA_API int tca_plan_cancel(struct tca_plan *plan);

/* Ends the running start of a repeating plan (TCA_PLAN_REPEAT): chains that are still at their
 * first wait step end at once, the others at their ends; notifications that no chain has consumed
 * remain. tca_wait() then returns 0, and the plan can be started again. No effect if no start is
 * running. -EINVAL: not a repeating plan; -EAGAIN: the submission ring is full, try again. */
TCA_API int tca_plan_stop(struct tca_plan *plan);

/* Number of complete rounds of a repeating plan, over all its starts. The data that a complete
 * round has put into memory of this process is visible. 0 for other plans. */
TCA_API uint64_t tca_plan_rounds(struct tca_plan *plan);

/* ---------------------------------------------------------- notifications */

/* Takes one notification of (rank, slot) if one has arrived: 1 taken, 0 none; -EOWNERDEAD,
 * -EHOSTDOWN: none, and none can arrive any more. Data put before the notification is visible. */
TCA_API int tca_notified(struct tca *session, uint32_t rank, uint32_t slot);

/* Waits for a notification of (rank, slot) and takes it: 0, -ETIMEDOUT, -EOWNERDEAD, -EHOSTDOWN.
 * Data put before the notification is then visible. */
TCA_API int tca_notified_wait(struct tca *session, uint32_t rank, uint32_t slot,
                              int64_t timeout_ns);

/* Waits for a notification in this slot from any rank, takes it and returns the rank. Ranks are
 * served in turn; ranks that have ended are skipped. For servers with many clients: a call costs as
 * much as notifications have arrived, however many ranks there are; only the first one for a slot
 * looks at all of them. 0, -ETIMEDOUT, -ENOMEM, or the reason why the session was lost. */
TCA_API int tca_notified_wait_any(struct tca *session, uint32_t slot, int64_t timeout_ns,
                                  uint32_t *ret_rank);

/* Number of notifications of (rank, slot) that have arrived and have not been taken. 0 also for an
 * invalid rank. */
TCA_API uint64_t tca_notified_count(struct tca *session, uint32_t rank, uint32_t slot);

/* Time at which the daemon last incremented the counter (CLOCK_MONOTONIC of this node, ns); 0 if a
 * process incremented it directly. For latency studies. */
TCA_API uint64_t tca_notified_ns(struct tca *session, uint32_t rank, uint32_t slot);

/* For loops that poll a flag in memory: call it after each unsuccessful test. round is the number
 * of such calls before this one in the same wait. Pauses the processor. In a long wait (TCA_SPIN)
 * it yields the core to other runnable threads and, if these keep the core busy, sleeps for at most
 * 1 ms. */
TCA_API void tca_pause(uint64_t round);

/* --------------------------------------------------------------- receipts */

/* Copy mode of a put in the client's seat, found by trial during a plan's first starts; see tca(7).
 * If the receiver does not help in time, the sender copies the rest alone, whichever mode was
 * selected. TCA_COPY forces a mode. */
enum tca_copy_method {
    TCA_COPY_NONE = 0, /* not copied by a client */
    TCA_COPY_PUSH = 1, /* the sender copies */
    TCA_COPY_PULL = 2, /* the receiver copies */
    TCA_COPY_HALF = 3, /* both copy, a part each */
    TCA_COPY_RING = 4, /* the sender packs into a small shared ring, the receiver unpacks */
};

/* How data and notifications of a start are protected on their way to other nodes. The rail tcp
 * encrypts, unless rails.tcp_security of the node that is put to is plain; the others do not. */
enum tca_encryption {
    TCA_ENCRYPTION_LOCAL = 0, /* they stay on this node */
    TCA_ENCRYPTION_TLS = 1,
    TCA_ENCRYPTION_NONE = 2, /* some are in clear */
};

enum { TCA_RAIL_NAME_BYTES = 32 }; /* with NUL */

/* What the last completed start of a plan did. Times are CLOCK_MONOTONIC in ns, 0 if not recorded.
 * For several chains: rail and seat are those of the first one, numbers are sums over all of them,
 * and times are from the first start to the last end. */
struct tca_receipt {
    enum tca_rail rail; /* the driver */
    enum tca_seat seat;
    enum tca_copy_method copy_method; /* of the first put in the client's seat */
    enum tca_encryption encryption;   /* the weakest of all puts and notifications of the plan */
    uint32_t trying; /* 1: the plan still tries modes, rails or seats: TCA_TUNE in tca(7) */
    int status;      /* 0, or the negative errno with which this start failed */
    uint32_t descriptors;
    uint32_t retries;
    uint32_t hops; /* largest number of cables between boards that data crossed; 0: no boards */
    uint64_t bytes;
    uint64_t starts;    /* of this plan so far, including this one */
    uint64_t start_ns;  /* tca_start() was called */
    uint64_t taken_ns;  /* the engine took the start from the ring (daemon's seat) */
    uint64_t posted_ns; /* the last descriptor was handed to the rail */
    uint64_t done_ns;   /* the start completed */
    uint64_t seen_ns;   /* tca_test() or tca_wait() observed the completion */
    char rail_name[TCA_RAIL_NAME_BYTES]; /* "ofi:tcp:lo"; "" if the plan has no chains */
};

/* -ENODATA before the first start has completed. */
TCA_API int tca_plan_receipt(const struct tca_plan *plan, struct tca_receipt *ret_receipt);

/* Names for tables: "shm", "client", "push", "tls". Static; "?" for an invalid value. */
TCA_API const char *tca_rail_name(enum tca_rail rail);
TCA_API const char *tca_seat_name(enum tca_seat seat);
TCA_API const char *tca_copy_method_name(enum tca_copy_method method);
TCA_API const char *tca_encryption_name(enum tca_encryption encryption);

#ifdef __cplusplus
}
#endif

#endif
