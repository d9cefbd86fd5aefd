/*
 * tca-api.h: the TCA API of programs for PEACH2 boards (HA-PACS/TCA), in a library of its own on
 * top of libtca. Link with -ltca-compat -ltca (pkg-config tca-compat), whatever the MPI. Makefiles
 * that say -ltca, or -ltcacomm -ltca, as those of HA-PACS do, get the same library.
 */
#ifndef TCA_API_H
#define TCA_API_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#ifndef TCA_API
#if defined(__GNUC__)
#define TCA_API __attribute__((visibility("default")))
#else
#define TCA_API
#endif
#endif

#define TCA_LIB_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* -------------------------------------------------------------- compatible */
/*
 * A compatibility layer over tca.h for existing programs. Such a program calls MPI_Init() and
 * tcaInit(), allocates memory, creates handles, exchanges them as bytes through MPI, loads chains
 * of descriptors into DMA channels, starts the channels repeatedly, and waits for notifications. A
 * chain is implemented as a plan, a channel as the plan loaded last. New programs should use tca.h.
 *
 * Every call returns TCA_SUCCESS or an error, for which tcaGetErrorString() returns the cause and
 * the remedy.
 *
 * Nodes: the original API had one process per node, identified by the node number. Here handles and
 * notifications identify processes: several processes can share a node, each with notifications of
 * its own. All processes of a job (mpirun, srun, tca-cluster run) call tcaInit(), including those
 * that put nothing.
 *
 * GPU memory: if the process finds a GPU (libcuda.so.1 is loaded at run time), tcaMemoryGPU is
 * memory of the GPU whose context is current in tcaMalloc(), or of the first GPU if there is no
 * current context. With a CUDA runtime before 12, call cudaFree(0) after cudaSetDevice(). Memory
 * from cudaMalloc() can have handles too, as tcaMemoryGPU. Without a GPU, tcaMemoryGPU is host
 * memory with the same semantics; processes of both kinds can belong to one job.
 *
 * Data to or from GPU memory is copied in tcaStartDMADesc(), which returns when the copy is
 * complete; running kernels are not affected. Within a node the data goes directly to the other
 * process's memory if the driver can export it (memory from tcaMalloc(), if one GPU can access the
 * other); otherwise through host memory on both sides, copied by a thread that each process with a
 * GPU has. Within a chain, transfers to GPU memory go first. In a job with GPUs, the number of
 * processes plus the number of processes with a GPU is at most 4096.
 *
 * Programs without GPU memory make no CUDA calls. TCA_CUDA=off selects host memory; with on,
 * tcaInit() fails if there is no GPU; auto, the default, reports an unusable driver on standard
 * error.
 *
 * Rails: between nodes, programs of the TCA API use PEACH2 boards where a cable leads (rail
 * peach2), regardless of predicted cost, and otherwise the rail with the lowest predicted cost;
 * within a node, shared memory. They move to another rail when the boards fail, and back. TCA_RAIL
 * in the environment restricts them to one rail. tcactl plans shows the rail of each chain.
 *
 * Order: the descriptors of a chain run in order: each reads and overwrites what earlier ones have
 * put, on any node; descriptors that have no bytes in common may run concurrently. A notification
 * follows all earlier data to the notified node, and the reading of all earlier sources. A
 * descriptor of at most 64 bytes without a notification counts as a flag that a receiver polls: it
 * becomes visible after all earlier data, on any node. When a channel is idle, all its data is
 * visible.
 *
 * When memory may be written again: the source of a descriptor when tcaWaitDMAC() returns. The
 * target when the process that reads it has confirmed the read by a notification, by MPI_Barrier(),
 * or, with two alternating buffers, by its notification of the next exchange. A chain started
 * earlier overwrites data that is still being read.
 *
 * The restrictions of the hardware (sizes that are multiples of 4, equal low address bits) do not
 * apply: sizes and offsets are arbitrary.
 *
 * Threads: any thread may call any function. Calls are serialized, but a call that waits for a
 * notification does not block others. Fork: a child process must not use the API.
 */

/* Result of a call. */
typedef int tcaresult;
enum {
    TCA_SUCCESS = 0,
    TCA_ERROR_INVALID_VALUE = 1, /* invalid argument, or a handle of memory that was freed */
    TCA_ERROR_OUT_OF_MEMORY = 2, /* no memory, or a quota of tcad.conf is exhausted */
    TCA_ERROR_NOT_SUPPORTED = 3,
    TCA_ERROR_NOT_INITIALIZED = 4, /* tcaInit() was not called */
    TCA_ERROR_NOT_READY = 5,       /* tcaTestDMARecvDesc(): no notification yet */
    TCA_ERROR_PEER_LOST = 6,       /* the other process has ended, or its node is unreachable */
    TCA_ERROR_SYSTEM = 7           /* no tcad answers, or another error outside the program */
};

enum tcaMemoryType { tcaMemoryGPU = 0, tcaMemoryCPU = 1 };

/* Flags of a descriptor, ORed. */
typedef int tcaDMAFlag;
enum {
    tcaDMANotify = 1 << 0,            /* notifies the target's process when the data is visible */
    tcaDMANotifySelf = 1 << 1,        /* notifies this process when the data is visible there */
    tcaDMAUseInternal = 1 << 2,       /* accepted and ignored: the driver places descriptors */
    tcaDMAUseNotifyInternal = 1 << 3, /* accepted and ignored */
    tcaDMAPipeline = 1 << 4,          /* accepted and ignored: a hint */
    tcaDMAContinue = 1 << 5           /* older calls: the next descriptor belongs to the chain */
};

/* value >> 8 is the size in bytes; the low byte is the index. */
typedef enum tcaDataType {
    TCA_CHAR = sizeof(char) << 8 | 0,
    TCA_SIGNED_CHAR = sizeof(signed char) << 8 | 1,
    TCA_UNSIGNED_CHAR = sizeof(unsigned char) << 8 | 2,
    TCA_BYTE = sizeof(char) << 8 | 3,
    TCA_SHORT = sizeof(short) << 8 | 4,
    TCA_UNSIGNED_SHORT = sizeof(unsigned short) << 8 | 5,
    TCA_INT = sizeof(int) << 8 | 6,
    TCA_UNSIGNED = sizeof(unsigned) << 8 | 7,
    TCA_LONG = sizeof(long) << 8 | 8,
    TCA_UNSIGNED_LONG = sizeof(unsigned long) << 8 | 9,
    TCA_LONG_LONG = sizeof(int64_t) << 8 | 10,
    TCA_UNSIGNED_LONG_LONG = sizeof(uint64_t) << 8 | 11,
    TCA_FLOAT = sizeof(float) << 8 | 12,
    TCA_DOUBLE = sizeof(double) << 8 | 13,
    TCA_LONG_DOUBLE = sizeof(long double) << 8 | 14
} tcaDataType;

typedef enum tcaOp {
    TCA_OP_SUM,
    TCA_OP_PROD,
    TCA_OP_MAX,
    TCA_OP_MIN,
    TCA_OP_LAND,
    TCA_OP_BAND,
    TCA_OP_LOR,
    TCA_OP_BOR,
    TCA_OP_LXOR,
    TCA_OP_BXOR,
    TCA_OP_NOOP
} tcaOp;

/* Connects this process to the tcad of its node (TCA_SOCKET, TCA_NODE, see tca(7)) and joins the
 * other processes of the job. Call it after MPI_Init(). Further calls have no effect. There is no
 * counterpart: tcad releases everything when the process ends, and exit() lets running chains
 * finish. If the other processes have not joined within half a second, it returns and joining
 * continues while the program runs, because they may be waiting for this process; the next call
 * that needs them waits at most one minute, or TCA_TIMEOUT, and fails if they have not joined. */
TCA_API tcaresult tcaInit(void);

/* Returns the meaning of a result; for the last call of this thread that failed, also the cause.
 * Valid until the next call that fails. */
TCA_API const char *tcaGetErrorString(tcaresult result);

/* Allocates memory that other processes can put into, of type tcaMemoryGPU or tcaMemoryCPU.
 * Page-aligned; host memory is zeroed. A size of 0 is allowed. */
TCA_API tcaresult tcaMalloc(void **ret_memory, size_t size, int type);

/* Frees the memory. Its handles become stale. Channels with chains that use it finish and are
 * emptied; if such a start failed, its error is returned, and the memory is freed all the same.
 * NULL is a no-op.
 *
 * A process may free memory that others put into as soon as it has received the notification of the
 * last put that it expects there: the starts of the others succeed. Later starts fail
 * (TCA_ERROR_INVALID_VALUE). On another node, they do so when its tcad has been told, a moment
 * later; data of a start before that is discarded. */
TCA_API tcaresult tcaFree(void *memory, int type);

/* Names memory anywhere in the job: plain data, to be exchanged as bytes. The memory is from
 * tcaMalloc() or part of it, GPU memory from cudaMalloc(), or other host memory of the process
 * (malloc(), stack, globals), which becomes shared memory in place: tca_region_attach() in tca.h
 * says what that means, and what is refused. Such memory is identified by its address: do not put
 * into it after it was freed. Whatever the program allocates there next needs a new handle, and
 * then the old ones name that. */
typedef struct tcaHandle {
    uint64_t opaque[16];
} tcaHandle;
TCA_API tcaresult tcaCreateHandle(tcaHandle *ret_handle, void *memory, size_t size, int type);
/* Invalidates this handle; optional. Host memory that is not from tcaMalloc() is released when all
 * handles created from it were destroyed; copies of them must not be used any more. */
TCA_API tcaresult tcaDestroyHandle(tcaHandle *handle);

/* Creates an empty chain of descriptors. NULL: out of memory. */
typedef struct tcaDesc tcaDesc;
TCA_API tcaDesc *tcaDescNew(void);
/* Frees the chain. Channels into which it was loaded are not affected. NULL is a no-op. */
TCA_API tcaresult tcaDescFree(tcaDesc *desc);

/* Appends a copy of size bytes from src + src_off, in this process, to dst + dst_off, on any node.
 * tcaDMANotify notifies the process of dst, tcaDMANotifySelf this process, both of (this process,
 * slot, tag). slot: 0 or more; tag: any. The handles are copied. size 0: only the notifications. */
TCA_API tcaresult tcaDescSetMemcpy(tcaDesc *desc, const tcaHandle *dst, off_t dst_off,
                                   const tcaHandle *src, off_t src_off, size_t size, int flags,
                                   int slot, int tag);

/* Appends a copy of height rows of width bytes that are dst_pitch and src_pitch bytes apart (at
 * least width), with one notification for all rows. */
TCA_API tcaresult tcaDescSetMemcpy2D(tcaDesc *desc, const tcaHandle *dst, off_t dst_off,
                                     size_t dst_pitch, const tcaHandle *src, off_t src_off,
                                     size_t src_pitch, size_t width, size_t height, int flags,
                                     int slot, int tag);

/* Loads the current contents of the chain into a DMA channel (0 to 3) and replaces the previous
 * chain, which finishes if it is running. At most 32768 descriptors with their notifications.
 * TCA_ERROR_NOT_SUPPORTED: a descriptor copies to GPU memory what an earlier one puts into host
 * memory of this process. */
TCA_API tcaresult tcaDescSet(tcaDesc *desc, int channel);

/* Starts the chain loaded into the channel; if the channel is busy, as soon as it is idle. Channels
 * run concurrently, except that chains that notify the same process with the same slot and tag run
 * one after the other, because their notifications cannot be distinguished. If the previous start
 * failed and tcaWaitDMAC() has not reported it, returns that error and starts nothing. */
TCA_API tcaresult tcaStartDMADesc(int channel);

/* Waits until the channel is idle: all its data is visible at the targets, and its sources may be
 * written again. A channel that was never started is idle. Does not tell whether data of other
 * processes has arrived. Returns the error of the last start, if it failed.
 *
 * TCA_ERROR_PEER_LOST can mean that a rail failed during the start. It is then unknown which data
 * has arrived, and nothing is repeated automatically. Start the same chain again: it uses the next
 * rail, if there is one, and the notified process receives one notification for both starts. If
 * another chain is started instead, notifications that have arrived remain, and the others are
 * lost. If a start fails that the program does not wait for, the error is returned by the next call
 * for its channel, by tcaFree() or tcaReset(), or printed to standard error when the program
 * exits. */
TCA_API tcaresult tcaWaitDMAC(int channel);

/* Waits for a notification of (process, slot, tag) and takes it; the process is that of the handle,
 * whichever of its memory the handle names. Notifications are counted: one that is not waited for
 * remains for a later wait. Waiting for this process itself (tcaDMANotifySelf) when no start in
 * flight would notify it: TCA_ERROR_INVALID_VALUE. */
TCA_API tcaresult tcaWaitDMARecvDesc(const tcaHandle *handle, int slot, int tag);
/* Takes a notification if one has arrived, else TCA_ERROR_NOT_READY. */
TCA_API tcaresult tcaTestDMARecvDesc(const tcaHandle *handle, int slot, int tag);

/* A part of remote memory for stores by the processor (PIO): plain data. TCA_ERROR_NOT_SUPPORTED:
 * GPU memory. */
typedef struct tcaPIOHandle {
    uint64_t opaque[20];
} tcaPIOHandle;
TCA_API tcaresult tcaSetPIORegion(tcaPIOHandle *ret_pio, const tcaHandle *remote, off_t off,
                                  size_t size);

/* Stores size bytes from any memory at offset off of the part; off may lie beyond the part, within
 * the memory that its handle names. Stores from one process to another become visible in order. The
 * last 8 bytes of a store (if aligned to 8) become visible at once, after the rest: a receiver can
 * poll a flag there. src may be written again when the call returns.
 *
 * When the rail fails (a dead board, or cables unplugged, for three seconds), it is unknown whether
 * the last store has arrived. It is sent again on the next rail, before the stores that follow it,
 * even while the program only polls: no store is lost, but the same bytes may be written twice.
 * This can undo what the receiver or a third process has written to the same location meanwhile.
 * Therefore let only one process write to each location, and give flags distinct values (1, 2, 3,
 * ... rather than 1, cleared, 1). While the first rail does not lead there, each call returns when
 * its data is visible.
 *
 * TCA_ERROR_PEER_LOST: no rail leads there. This store, and possibly the previous one, was not made
 * and can be repeated once a rail does. On rail ofi, which cannot tell which of the stores before
 * the last have arrived, the error is reported once, and this store was not made. */
TCA_API tcaresult tcaSendPIO(const tcaPIOHandle *pio, off_t off, const void *src, size_t size);

/* Returns when all stores have been handed to the rail. Stores also arrive without this call.
 * Returns the errors of tcaSendPIO() for the last store to any process. */
TCA_API tcaresult tcaSendPIOCommit(void);

/* Extension: for loops that poll a flag, in place of _mm_pause(). It pauses the processor; called
 * many times without another call of this API, it yields the core to other runnable threads, among
 * which, with more processes than cores, is the one that the loop waits for. Define TCA_POLL_PAUSE
 * before including this header (cc -DTCA_POLL_PAUSE) to make every _mm_pause() of a file this call;
 * x86 only. */
TCA_API void tcaPollPause(void);
#if defined(__SSE__) && defined(TCA_POLL_PAUSE)
#define _mm_pause() tcaPollPause()
#endif

/* Older calls. They set descriptors by number in a table (the board's own, with 1,024 descriptors,
 * or one from tcaCreateDMADesc()) and return the next free number. A chain is a descriptor and, as
 * long as tcaDMAContinue is set, the next one. */
TCA_API tcaresult tcaDMADescInt_Init(void);
TCA_API tcaresult tcaSetDMADescInt_Memcpy(int number, int *ret_next, const tcaHandle *dst,
                                          off_t dst_off, const tcaHandle *src, off_t src_off,
                                          size_t size, int flags, int slot, int tag);
TCA_API tcaresult tcaSetDMADescInt_Memcpy2D(int number, int *ret_next, const tcaHandle *dst,
                                            off_t dst_off, size_t dst_pitch, const tcaHandle *src,
                                            off_t src_off, size_t src_pitch, size_t width,
                                            size_t height, int flags, int slot, int tag);
TCA_API tcaresult tcaSetDMAChainInt(int channel, int first);

TCA_API tcaresult tcaCreateDMADesc(int *ret_table, int count);
TCA_API tcaresult tcaSetDMADesc_Memcpy(int table, int number, int *ret_next, const tcaHandle *dst,
                                       off_t dst_off, const tcaHandle *src, off_t src_off,
                                       size_t size, int flags, int slot, int tag);
TCA_API tcaresult tcaSetDMADesc_Memcpy2D(int table, int number, int *ret_next, const tcaHandle *dst,
                                         off_t dst_off, size_t dst_pitch, const tcaHandle *src,
                                         off_t src_off, size_t src_pitch, size_t width,
                                         size_t height, int flags, int slot, int tag);
/* Loads the chain that starts at descriptor 0. */
TCA_API tcaresult tcaSetDMAChain(int channel, int table);
TCA_API tcaresult tcaDestroyDMADesc(int table);

/* Extension: returns the underlying session of tca.h (a struct tca *; this header does not declare
 * the name tca), for programs that migrate step by step. NULL before tcaInit(). The API itself uses
 * the notification slots 0 to 2. */
TCA_API void *tcaGetSession(void);

/* Waits for all channels and empties them. Notifications that have arrived remain until they are
 * taken, including those to this process (tcaDMANotifySelf). Returns the error of a start that
 * failed and was not reported. Before tcaInit(): no effect. */
TCA_API tcaresult tcaReset(void);

/* Creates a GPU handle for bytes bytes at buf and gathers the handles of the first n
 * processes of the job in the order of their ranks in MPI_COMM_WORLD. Collective: all processes
 * call it. The caller frees the list with free(); entries after the last process's handle are zero.
 * Errors are printed to standard error and end the process. */
TCA_API void tcaCreateHandleList(tcaHandle **ret_list, int n, double *buf, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
