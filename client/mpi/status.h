/* Statuses, as the MPI would fill them in: its functions read them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/mpi/next.h"

/* Of a message of `bytes` bytes. Leaves MPI_ERROR, which only calls for several requests set.
 * status: may be MPI_STATUS_IGNORE. */
static inline void status_set(MPI_Status *status, int source, int tag, uint64_t bytes,
                              bool cancelled)
{
    if (status == MPI_STATUS_IGNORE)
        return;
    status->MPI_SOURCE = source;
    status->MPI_TAG = tag;
#ifdef OPEN_MPI
    status->_cancelled = cancelled;
    status->_ucount = bytes;
#else
    status->count_lo = (int)(uint32_t)bytes;
    status->count_hi_and_cancelled = (int)((uint32_t)(bytes >> 32) << 1 | cancelled);
#endif
}

/* Of no message: of a send, or of what is inactive. */
static inline void status_empty(MPI_Status *status)
{
    status_set(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0, false);
}
