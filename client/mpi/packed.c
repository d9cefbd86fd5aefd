#include "client/mpi/packed.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "client/mpi/next.h"

struct datatype_packed {
    struct packed_elements elements;
    bool receives;
    uint8_t memory[];
};

/* MPICH 4.0 does not pack from MPI_BOTTOM: a datatype of absolute addresses is moved to a base that
 * is not 0. */
static int keep_type(struct packed_elements *elements, MPI_Datatype type)
{
    const MPI_Aint base = 4096, back = -base;
    if (elements->address)
        return next.Type_dup(type, &elements->type);
    elements->address = (void *)base;
    int r = next.Type_create_hindexed_block(1, 1, &back, type, &elements->type);
    return r == MPI_SUCCESS ? next.Type_commit(&elements->type) : r;
}

int packed_new(const struct packed_elements *elements, bool receives,
               struct datatype_packed **ret_packed)
{
    if (elements->size_bytes > INT_MAX)
        return -EOVERFLOW;
    struct datatype_packed *packed =
        malloc(sizeof(*packed) + (uint64_t)elements->count * elements->size_bytes);
    if (!packed)
        return -ENOMEM;
    packed->elements = *elements;
    packed->receives = receives;
    if (keep_type(&packed->elements, elements->type) != MPI_SUCCESS) {
        free(packed);
        return -EINVAL;
    }
    *ret_packed = packed;
    return 0;
}

void *packed_memory(const struct datatype_packed *packed)
{
    return (void *)packed->memory;
}

/* The MPI counts bytes in an int, so several calls may be necessary. */
static int transfer(struct datatype_packed *packed, bool pack)
{
    const struct packed_elements *all = &packed->elements;
    const MPI_Count most = (MPI_Count)(INT_MAX / all->size_bytes);
    uint8_t *memory = packed->memory;
    for (MPI_Count done = 0; done < all->count;) {
        int count = (int)(all->count - done < most ? all->count - done : most);
        int bytes = count * (int)all->size_bytes, position = 0;
        void *elements = (void *)((uintptr_t)all->address + (uintptr_t)(done * all->extent_bytes));
        int r =
            pack ? next.Pack(elements, count, all->type, memory, bytes, &position, MPI_COMM_SELF)
                 : next.Unpack(memory, bytes, &position, elements, count, all->type, MPI_COMM_SELF);
        if (r != MPI_SUCCESS)
            return -EINVAL;
        memory += bytes;
        done += count;
    }
    return 0;
}

int packed_fill(struct datatype_packed *packed)
{
    return transfer(packed, true);
}

int packed_empty(struct datatype_packed *packed)
{
    return packed->receives ? transfer(packed, false) : 0;
}

struct datatype_packed *packed_free(struct datatype_packed *packed)
{
    if (packed) {
        next.Type_free(&packed->elements.type);
        free(packed);
    }
    return NULL;
}
