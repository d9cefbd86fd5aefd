/*
 * Datatypes of the MPI as layouts.
 *
 * A datatype is converted when it is used for the first time, by its envelope and contents. What it
 * describes is a *value*: equal datatypes have one value, so that a program that makes and frees
 * the same types again and again gets the layout of the first. A value is kept as long as a handle
 * or a use refers to it, and a bounded number of others is kept for later.
 *
 * A datatype without a layout (more irregular blocks or nested loops than tca.h allows, or of a
 * combiner that is not known) is packed by the MPI into memory of its own, from which, or into
 * which, the message goes.
 *
 * Threads: one at a time, whichever functions they call. With MPI_THREAD_MULTIPLE, the caller holds
 * the lock of the library in all of them.
 */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "client/include/tca-msg.h"

enum datatype_direction {
    DATATYPE_SEND,
    DATATYPE_RECEIVE,
};

struct value;
struct datatype_packed;

/* The memory of a message: `count` elements of a datatype at an address. It stays valid when the
 * program frees the datatype. */
struct datatype_use {
    struct tca_msg_buffer buffer;   /* what the message takes; owns nothing */
    uint64_t bytes;                 /* of the message */
    struct value *value;            /* NULL: contiguous */
    struct datatype_packed *packed; /* NULL: has a layout, or is contiguous */
};

/* Fills in *ret_use, which datatype_use_deinit() releases. address may be MPI_BOTTOM. Returns 0;
 * -EINVAL: no datatype (the MPI has called its error handler unless the handle is
 * MPI_DATATYPE_NULL); -EOVERFLOW: more bytes than 63 bits count, or one element without a layout of
 * 2 GiB or more; -ENOMEM. count is not negative. */
int datatype_use_init(struct datatype_use *ret_use, const void *address, MPI_Count count,
                      MPI_Datatype type, enum datatype_direction direction);
/* Before each start of the message: fills memory of its own. The receiver's is filled, too, so that
 * a message shorter than the memory leaves the rest of it as it was. */
int datatype_use_start_packed(struct datatype_use *use);
static inline int datatype_use_start(struct datatype_use *use)
{
    return use->packed ? datatype_use_start_packed(use) : 0;
}
/* After each completion of the message. */
int datatype_use_finish_packed(struct datatype_use *use);
static inline int datatype_use_finish(struct datatype_use *use)
{
    return use->packed ? datatype_use_finish_packed(use) : 0;
}
void datatype_use_release(struct datatype_use *use);
static inline void datatype_use_deinit(struct datatype_use *use)
{
    if (use->value || use->packed)
        datatype_use_release(use);
}

/* Bytes of data in one element. Errors: as datatype_use_init(). */
int datatype_bytes(MPI_Datatype type, uint64_t *ret_bytes);

/* Call this before the program's MPI_Type_free(): the MPI may use the handle again. */
void datatype_freed(MPI_Datatype type);

/* Forgets all datatypes; uses remain valid. At MPI_Finalize(). */
void datatype_deinit(void);

/* How often a datatype had to be converted, and was found again by its contents. */
struct datatype_counts {
    uint64_t converted, found;
};
struct datatype_counts datatype_counts(void);
