/*
 * tca-api.h: the TCA API, as programs for PEACH2 boards (HA-PACS/TCA) use it. Link with
 * -ltcacomm -ltca (pkg-config tcacomm); -ltca alone will do without tcaCreateHandleList(). One
 * libtcacomm serves Open MPI and MPICH alike: it uses the MPI that the program is linked with.
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
 * A layer over tca.h for programs that exist. They begin with MPI and tcaInit(), get memory and
 * handles, exchange the handles as bytes through MPI, load chains of descriptors into DMA channels,
 * start these again and again, and wait for notifications. Underneath a chain is a plan, a channel
 * the plan that was loaded last. New programs are better off with tca.h.
 *
 * Every call returns TCA_SUCCESS or why not; tcaGetErrorString() then says what was wrong and what
 * to do.
 *
 * Nodes: the original had one process per node, and a node's number stood for its process. Here it
 * is the process that a handle names, and a notification comes from: several processes may share a
 * node, each with notifications of its own. All processes of a job (mpirun, srun, tca-cluster run)
 * call tcaInit(), also those that put nothing.
 *
 * GPU memory: where a process finds a GPU (libcuda.so.1 is loaded when it runs), tcaMemoryGPU is
 * memory of the GPU whose context is current in tcaMalloc(), of the first one when none is; with a
 * CUDA runtime before 12 call cudaFree(0) after cudaSetDevice(). What comes from cudaMalloc() may
 * have handles, too, as tcaMemoryGPU. Elsewhere it is host memory, and everything else is the same;
 * a job may have both. What goes to or from GPU memory is copied in tcaStartDMADesc(), which
 * returns when that is done; kernels run on. Within a node it goes straight into the other
 * process's memory where the driver lets memory be exported (what tcaMalloc() gave, if one GPU
 * reaches the other), else through host memory of both sides, and by a thread that each process
 * with a GPU has for this. Of a chain, what goes to GPU memory goes first. Without such memory
 * nothing of CUDA is touched. TCA_CUDA=off: host memory; on: tcaInit() fails when there is no GPU;
 * auto, the default: tells standard error when there is a driver that cannot be used. A job with
 * GPUs has at most 4096 processes and processes with a GPU together.
 *
 * Rails: between nodes a program of the TCA API takes PEACH2 boards where a cable leads (rail
 * peach2), whatever they cost, and otherwise the cheapest rail; on one node shared memory. It moves
 * to another rail when the boards are lost, and back. TCA_RAIL in the environment asks for one rail
 * alone. tcactl plans shows which one each chain is on.
 *
 * Order: a chain runs from its first descriptor to its last: each reads and overwrites what those
 * before it have put, here and elsewhere; those with no bytes in common may run at the same time. A
 * notification comes after all data before it that go to the notified node, and after all sources
 * before it were read. A descriptor of at most 64 bytes without a notification is a flag that
 * somebody polls, here or elsewhere: it comes after all data before it, wherever they go. A channel that is idle has put everything.
 *
 * Writing again: what a descriptor puts from, when tcaWaitDMAC() returns. What it puts into, when
 * the process that reads it has said that it has: by a notification back, by MPI_Barrier(), or, with
 * two buffers that take turns, by its notification of the next exchange. A chain that is started
 * earlier overwrites what is still being read.
 *
 * What the hardware asked for (sizes a multiple of 4, equal lower address bits) is not asked for
 * here: sizes and offsets are free.
 *
 * Threads: as many as there are; their calls go one by one, and one that waits for a notification
 * lets the others go on. Fork: a child must not use it.
 */

/* What a call returns. */
typedef int tcaresult;
enum {
    TCA_SUCCESS = 0,
    TCA_ERROR_INVALID_VALUE = 1, /* an argument makes no sense, or names what is gone */
    TCA_ERROR_OUT_OF_MEMORY = 2, /* no memory, or a quota of the configuration is full */
    TCA_ERROR_NOT_SUPPORTED = 3,
    TCA_ERROR_NOT_INITIALIZED = 4, /* tcaInit() comes first */
    TCA_ERROR_NOT_READY = 5,       /* tcaTestDMARecvDesc(): not yet */
    TCA_ERROR_PEER_LOST = 6,       /* the other process has ended, or its node cannot be reached */
    TCA_ERROR_SYSTEM = 7           /* no tcad answers, or something else outside of the program */
};

enum tcaMemoryType { tcaMemoryGPU = 0, tcaMemoryCPU = 1 };

/* Of a descriptor, ORed. */
typedef int tcaDMAFlag;
enum {
    tcaDMANotify = 1 << 0,      /* an event where the data goes, once it is there */
    tcaDMANotifySelf = 1 << 1,  /* an event here, once the data is there */
    tcaDMAUseInternal = 1 << 2, /* accepted; where descriptors are kept is the driver's affair */
    tcaDMAUseNotifyInternal = 1 << 3, /* accepted, likewise */
    tcaDMAPipeline = 1 << 4,          /* accepted: a hint */
    tcaDMAContinue = 1 << 5           /* older calls: the chain goes on with the next descriptor */
};

/* value >> 8 is the size in bytes, the low byte the index. */
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

/* Connects this process to the tcad of its node (TCA_SOCKET, TCA_NODE, see tca(7)) and meets the
 * other processes of the job. After MPI_Init(). Again: does nothing. There is no end: what a
 * process leaves behind goes with it; at exit() chains that still run are let finish. Where the
 * others have not come within half a second it returns, and they meet while the program goes on
 * (others may be waiting for that); the next call waits until they have, at most a minute, or
 * TCA_TIMEOUT, and says if they have not. */
TCA_API tcaresult tcaInit(void);

/* What a result means; of the last call of this thread that failed, with what was wrong. Valid
 * until the next call that fails. */
TCA_API const char *tcaGetErrorString(tcaresult result);

/* Memory that others may put into, of type tcaMemoryGPU or tcaMemoryCPU; page aligned. A size of 0
 * is as good as any other. Zeroed, unless it is a GPU's. */
TCA_API tcaresult tcaMalloc(void **ret_memory, size_t size, int type);

/* Gives it back: handles to it become stale; channels that were loaded with chains from it finish,
 * and are empty. Returns why such a start failed, if one did: the memory is freed all the same.
 * NULL is fine.
 *
 * A process may free memory that others put into as soon as it has the notification of the last put
 * that it expects there: their starts succeed. */
TCA_API tcaresult tcaFree(void *memory, int type);

/* Names memory anywhere in the job: plain data, to be copied as bytes. Best of what tcaMalloc() gave,
 * or a part of it; or of a GPU's from cudaMalloc(); or any host memory of the process (malloc(),
 * stack, globals), which a thread of the library then copies from and to, for others have no part
 * in it: that costs a copy on each side, and as many bytes of the user's quota in tcad. Such memory
 * is known by its address: what was freed may not be put into any more, and when there is other
 * memory there, old handles name that. */
typedef struct tcaHandle {
    uint64_t opaque[16];
} tcaHandle;
TCA_API tcaresult tcaCreateHandle(tcaHandle *ret_handle, void *memory, size_t size, int type);
/* Only forgets it; need not be called. Host memory that is not from tcaMalloc() may be let go of when
 * none of the handles that were made of it is left: others may not use copies then. */
TCA_API tcaresult tcaDestroyHandle(tcaHandle *handle);

/* A chain of descriptors, empty at first. NULL when there is no memory. */
typedef struct tcaDesc tcaDesc;
TCA_API tcaDesc *tcaDescNew(void);
/* Channels that it was loaded into keep what they have. NULL is fine. */
TCA_API tcaresult tcaDescFree(tcaDesc *desc);

/* Appends: size bytes from src + src_off of this process to dst + dst_off, wherever that is. With
 * tcaDMANotify the process of dst is notified: (this process, slot, tag) there; with
 * tcaDMANotifySelf this one: (this process, slot, tag) here. slot: 0 or more; tag: any. The handles
 * are copied. Size 0: the notifications alone. */
TCA_API tcaresult tcaDescSetMemcpy(tcaDesc *desc, const tcaHandle *dst, off_t dst_off,
                                   const tcaHandle *src, off_t src_off, size_t size, int flags,
                                   int slot, int tag);

/* Appends: height rows of width bytes, dst_pitch and src_pitch bytes apart (at least width). One
 * notification for all. */
TCA_API tcaresult tcaDescSetMemcpy2D(tcaDesc *desc, const tcaHandle *dst, off_t dst_off,
                                     size_t dst_pitch, const tcaHandle *src, off_t src_off,
                                     size_t src_pitch, size_t width, size_t height, int flags,
                                     int slot, int tag);

/* Loads the chain, as it is now, into a DMA channel (0 to 3), in place of what was there. A chain
 * that still runs there finishes. At most 32768 descriptors with their notifications.
 * TCA_ERROR_NOT_SUPPORTED: a descriptor takes into GPU memory what one before it puts into this
 * process's host memory. */
TCA_API tcaresult tcaDescSet(tcaDesc *desc, int channel);

/* Starts what is loaded; on a channel that is busy, when that has finished. The channels run side
 * by side; but chains that notify the same process with the same slot and tag run one after the
 * other, for it could not tell one notification from the other. Where the start before has failed and tcaWaitDMAC() has not said so, this does, and
 * starts nothing. */
TCA_API tcaresult tcaStartDMADesc(int channel);

/* Waits until the channel is idle, which it is when it was never started: everything it has put can
 * be seen where it was put, and what it has put from may change. That others have sent theirs does
 * not say so. Returns why the last start failed, if it did. TCA_ERROR_PEER_LOST may mean that a
 * rail was given up in the middle of it: what of it has arrived nobody knows, and it is not sent
 * again by itself: start the same chain again, then it goes by the next rail, if there is one, and
 * who is notified hears once of both. Whoever starts another chain instead takes nothing back: a
 * notification that has arrived counts, and one that has not does not. A start that fails after the
 * program has stopped asking is told by the next call for its channel, by tcaFree(), tcaReset(), or
 * on stderr when the program exits. */
TCA_API tcaresult tcaWaitDMAC(int channel);

/* Waits for one notification of the process that a handle names (which memory of it does not
 * matter), and takes it. They are counters: one that is not waited for is there for a later wait.
 * Waiting for oneself (tcaDMANotifySelf) when no start that would notify is under way:
 * TCA_ERROR_INVALID_VALUE. */
TCA_API tcaresult tcaWaitDMARecvDesc(const tcaHandle *handle, int slot, int tag);
/* Takes one if it is there, else TCA_ERROR_NOT_READY. */
TCA_API tcaresult tcaTestDMARecvDesc(const tcaHandle *handle, int slot, int tag);

/* A part of remote memory to store into by the CPU: plain data. TCA_ERROR_NOT_SUPPORTED: it is a
 * GPU's. */
typedef struct tcaPIOHandle {
    uint64_t opaque[20];
} tcaPIOHandle;
TCA_API tcaresult tcaSetPIORegion(tcaPIOHandle *ret_pio, const tcaHandle *remote, off_t off,
                                  size_t size);

/* Stores size bytes of any memory, off bytes from the part's beginning: within the memory that its
 * handle names, also behind the part. What one process stores at another appears there in order,
 * and the last 8 bytes of a store (from an address divisible by 8 on) at once and after the rest: a
 * receiver may poll a mark there. src may be written again when it returns.
 *
 * When the rail that carries a store is given up (a board that has died, cables that are out, for
 * three seconds), nobody knows whether that store has arrived. It is sent again by the next rail,
 * before those behind it, also while the program does nothing but poll: nothing is lost, but the
 * same bytes may come twice. A place that the receiver writes to itself, or that another process
 * stores to, may so get back what was there before: let each place have one who writes to it, and
 * marks values that differ (1, 2, 3, ... rather than 1, cleared, 1). While the first rail does not
 * lead there each call returns when its store has landed.
 *
 * TCA_ERROR_PEER_LOST: no rail leads there; this store, and perhaps the one before it, was not
 * made, and can be once one does. Or the rail was libfabric's, which cannot say what of the stores
 * before the last has landed: told once, and this store was not made. */
TCA_API tcaresult tcaSendPIO(const tcaPIOHandle *pio, off_t off, const void *src, size_t size);

/* Returns when what was stored is on its way. Not needed for it to arrive. Errors are those of
 * tcaSendPIO(), of the last store to any process. */
TCA_API tcaresult tcaSendPIOCommit(void);

/* Not of the original: what _mm_pause() is, where this header was included (on x86), in loops that
 * poll a mark. It pauses, as ever; called many times without another call of this API it gives the
 * core to others, if there are any: with more processes than cores they are those that the loop
 * waits for. The plain one: (_mm_pause)(), or #undef _mm_pause, or TCA_PLAIN_PAUSE defined before
 * this header. */
TCA_API void tcaPollPause(void);
#if defined(__SSE__) && !defined(TCA_PLAIN_PAUSE)
#define _mm_pause() tcaPollPause()
#endif

/* The older names. A table of descriptors (1,024 of the board's own, or made by
 * tcaCreateDMADesc()), each set by number; the next free number is returned. A chain is a
 * descriptor and, while it has tcaDMAContinue, the one after it. */
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
/* From descriptor 0 on. */
TCA_API tcaresult tcaSetDMAChain(int channel, int table);
TCA_API tcaresult tcaDestroyDMADesc(int table);

/* Not of the original: the session of tca.h underneath (a struct tca; this header leaves the name
 * tca to programs), for programs that move there step by step; NULL before tcaInit(). It has the
 * notification slots 0 to 2 for its own use. */
TCA_API void *tcaGetSession(void);

/* Lets the channels finish and empties them. Notifications that have come stay,
 * also those to oneself (tcaDMANotifySelf), until they are waited for. Returns why a start
 * failed, if one did that the program was not told of. Before tcaInit(): does nothing. */
TCA_API tcaresult tcaReset(void);

/* In libtcacomm. Makes a GPU handle of bytes bytes at buf and gathers those of the first n
 * processes of the job, in the order of their ranks in MPI_COMM_WORLD; every process calls it. The
 * list is the caller's to free(); behind the last process's handle there are zeroes. What goes
 * wrong is said on standard error, and ends the process. */
TCA_API void tcaCreateHandleList(tcaHandle **ret_list, int n, double *buf, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
