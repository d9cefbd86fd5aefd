/* Random nested layouts for tests: their parts, their type map, entry by entry, as the MPI standard
 * defines it, and their construction by libtca. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "client/include/tca.h"
#include "tests/unit/proto/random.h"

enum shape_kind {
    SHAPE_ELEMENT,
    SHAPE_ARRAY,
    SHAPE_VECTOR,
    SHAPE_HVECTOR,
    SHAPE_INDEXED,
    SHAPE_HINDEXED,
    SHAPE_INDEXED_BLOCK,
    SHAPE_HINDEXED_BLOCK,
    SHAPE_STRUCT,
    SHAPE_SUBARRAY,
    SHAPE_RESIZED,
    SHAPE_DUP,
    SHAPE_KINDS,
};

enum {
    SHAPE_BLOCKS_MAX = 40,
    SHAPE_DIMENSIONS_MAX = 4,
    SHAPE_ENTRIES_MAX = 6000, /* of a map: larger shapes are not made */
};

struct shape {
    enum shape_kind kind;
    enum tca_type type; /* ELEMENT */
    struct shape *inner;
    struct shape *inners[SHAPE_BLOCKS_MAX]; /* STRUCT */
    uint64_t count, length;
    int64_t stride;
    uint64_t lengths[SHAPE_BLOCKS_MAX];
    int64_t offsets[SHAPE_BLOCKS_MAX];
    uint32_t dimensions;
    uint64_t sizes[SHAPE_DIMENSIONS_MAX], subsizes[SHAPE_DIMENSIONS_MAX],
        starts[SHAPE_DIMENSIONS_MAX];
    enum tca_order order;
    int64_t lower, extent; /* RESIZED */
};

enum { MARK_LOWER = 100, MARK_UPPER = 101 }; /* beyond every enum tca_type */

struct map_entry {
    int64_t place;
    int type; /* enum tca_type, or a mark */
};

struct map {
    size_t count;
    struct map_entry *entries;
};

/*
 * Which shapes. Open MPI differs from the standard in the bounds of empty shapes, and of shapes
 * that must be padded but do not begin at an aligned offset. So shapes for it are never empty as a
 * whole, and have either elements of one alignment at multiples of it, or begin at 0. Types are
 * those that MPI has.
 */
struct shape_choice {
    bool mpi;
    uint32_t alignment; /* with mpi: of all elements; 0: any, and everything lies at multiples of 16
                           behind the base */
};
struct shape *shape_random(struct random *random, unsigned depth, struct shape_choice choice);
struct shape *shape_free(struct shape *shape);

/* shapes_map.c: by the definition, and slowly. False: too large. */
bool shape_map(const struct shape *shape, struct map *ret_map);
void map_free(struct map *map);
uint64_t map_size(const struct map *map);
/* The standard's lb and extent. */
void map_extent(const struct map *map, int64_t *ret_lower, int64_t *ret_extent);
/* First and last byte touched + 1; 0 and 0 when there is none. */
void map_bounds(const struct map *map, int64_t *ret_lower, int64_t *ret_upper);
bool map_overlaps(const struct map *map);

uint32_t shape_type_bytes(enum tca_type type);
uint32_t shape_type_alignment(enum tca_type type);

/* By libtca: 0 or its error. */
int shape_layout(const struct shape *shape, struct tca_layout **ret_layout);

/* C-like, for messages. */
void shape_print(const struct shape *shape, char *text, size_t text_bytes);
