/*
 * form: the positions of the bytes of one side of a pattern, built like MPI's datatypes and tcad's
 * layouts. Both programs make theirs from the same forms, so that both do the same work.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum form_kind {
    FORM_RUN,      /* count elements in a row */
    FORM_VECTOR,   /* count times the inner form, stride_bytes apart */
    FORM_INDEXED,  /* count blocks of `block` elements, at places[] (in elements) */
    FORM_STRUCT,   /* count different forms, at offsets_bytes[] */
    FORM_SUBARRAY, /* part[] of an array of sizes[] elements, from first[]; the first dimension is
                      the one without gaps (Fortran's order); count dimensions, 2 or 3 */
};

#define FORM_DIMENSIONS 3

struct form {
    enum form_kind kind;
    uint32_t element_bytes; /* 4: float, 8: double, 16: complex double */
    uint64_t count;
    uint64_t block;
    int64_t stride_bytes;
    const int32_t *places;
    const int64_t *offsets_bytes;
    const struct form *const *inner; /* VECTOR: one; STRUCT: count */
    int32_t sizes[FORM_DIMENSIONS], part[FORM_DIMENSIONS], first[FORM_DIMENSIONS];
};

/* Forms and their tables live as long as their shelf. */
struct shelf;
struct shelf *shelf_new(void);
void shelf_free(struct shelf *shelf);
/* Zeroed; ends the program without memory. */
void *shelf_get(struct shelf *shelf, size_t bytes);

const struct form *form_run(struct shelf *shelf, uint32_t element_bytes, uint64_t count);
const struct form *form_vector(struct shelf *shelf, uint64_t count, int64_t stride_bytes,
                               const struct form *inner);
/* Blocks of `block` elements at distinct random multiples of `block` among the first `among`
 * blocks, in random order; the same for the same seed. */
const struct form *form_random(struct shelf *shelf, uint32_t element_bytes, uint64_t count,
                               uint64_t block, uint64_t among, uint64_t seed);
/* Takes over neither table. */
const struct form *form_struct(struct shelf *shelf, uint64_t count, const int64_t *offsets_bytes,
                               const struct form *const *inner);
const struct form *form_subarray(struct shelf *shelf, uint32_t element_bytes, int dimensions,
                                 const int32_t *sizes, const int32_t *part, const int32_t *first);

/* Bytes of data in it. */
uint64_t form_bytes(const struct form *form);
