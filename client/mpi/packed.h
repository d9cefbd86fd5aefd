/* Elements of a datatype without a layout: packed and unpacked by the MPI. */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

struct packed_elements {
    MPI_Datatype type;
    MPI_Count count;
    uint64_t size_bytes; /* of one */
    int64_t extent_bytes;
    void *address;
};

struct datatype_packed;

/* Keeps the datatype until packed_free(). receives: packed_empty() writes the elements. -EOVERFLOW:
 * one element has 2 GiB or more, which MPI_Pack() cannot do; -EINVAL; -ENOMEM. */
int packed_new(const struct packed_elements *elements, bool receives,
               struct datatype_packed **ret_packed);
void *packed_memory(const struct datatype_packed *packed);
/* From the elements into the memory. -EINVAL: the MPI has refused. */
int packed_fill(struct datatype_packed *packed);
/* Back, if it receives. */
int packed_empty(struct datatype_packed *packed);
/* NULL is a no-op. Returns NULL. */
struct datatype_packed *packed_free(struct datatype_packed *packed);
