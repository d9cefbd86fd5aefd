/* The buffer of buffered sends. Ours are copied elsewhere; that of the program, which is the MPI's,
 * too, says how much may be under way. */
#include <errno.h>

#include "client/mpi/request.h"

static struct {
    uint64_t bytes, used;
} buffer;

int buffer_take(uint64_t bytes)
{
    const uint64_t room = bytes + MPI_BSEND_OVERHEAD;

    if (buffer.used + room > buffer.bytes && buffer.bytes > 0)
        requests_reap();
    if (buffer.used + room > buffer.bytes)
        return -ENOBUFS;
    buffer.used += room;
    return 0;
}

void buffer_give(uint64_t bytes)
{
    buffer.used -= bytes + MPI_BSEND_OVERHEAD;
}

/* Until all buffered messages have been sent. */
static void drain(void)
{
    uint64_t round = 0;

    shim_lock();
    while (requests_reap() && buffer.used > 0) {
        tca_msg_progress(shim.msg);
        shim_unlock();
        progress_pause(&round);
        shim_lock();
    }
    buffer.bytes = 0;
    shim_unlock();
}

static void attached(uint64_t bytes)
{
    shim_lock();
    buffer.bytes = bytes;
    shim_unlock();
}

#define ATTACH(suffix, number)                                                                     \
    int MPI_Buffer_attach##suffix(void *memory, number bytes)                                      \
    {                                                                                              \
        int r = next.Buffer_attach##suffix(memory, bytes);                                         \
                                                                                                   \
        if (r == MPI_SUCCESS && shim.active)                                                       \
            attached(bytes);                                                                       \
        return r;                                                                                  \
    }                                                                                              \
    int MPI_Buffer_detach##suffix(void *ret_memory, number *ret_bytes)                             \
    {                                                                                              \
        if (shim.active)                                                                           \
            drain();                                                                               \
        return next.Buffer_detach##suffix(ret_memory, ret_bytes);                                  \
    }

ATTACH(, int)
#ifndef OPEN_MPI
ATTACH(_c, MPI_Count)
#endif
