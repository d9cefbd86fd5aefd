/* A public layout: a program of proto/layout.h and the names of its element types. */
#pragma once

#include <stdatomic.h>

#include "client/include/tca.h"
#include "proto/element.h"
#include "proto/layout.h"

enum { TYPES_TEXT_BYTES = 120 };

/*
 * The element types in packed order, for messages: "3 x (1 x int32, 4 x double), 7 x float".
 * Comparisons use the program's signature instead. The last run of one type is stored as a count,
 * so that it can grow.
 */
struct types {
    char text[TYPES_TEXT_BYTES]; /* before the last run */
    enum tca_type type;          /* of the last run */
    uint64_t count;              /* of the last run; 0: none */
};

struct copy_program;

struct tca_layout {
    struct layout *program;
    atomic_uint refs; /* held by the caller and by steps of plans; the layout is immutable */
    struct types types;
    /* Compiled at the second call of tca_pack() or tca_unpack(), by any thread; NULL before. */
    _Atomic(struct copy_program *) packer;
    _Atomic(struct copy_program *) unpacker;
    atomic_bool packed, unpacked;
};

/* Adds a reference, which tca_layout_free() drops. Any thread. */
static inline struct tca_layout *layout_ref(const struct tca_layout *layout)
{
    struct tca_layout *counted = (struct tca_layout *)layout;
    atomic_fetch_add_explicit(&counted->refs, 1, memory_order_relaxed);
    return counted;
}

static inline const struct layout *layout_of(const struct tca_layout *layout)
{
    return layout ? layout->program : NULL;
}

/* ---- layout_text.c ---- */

/* A single run; count 0: empty. */
struct types types_of(enum tca_type type, uint64_t count);
/* Appends `count` > 0 copies of `behind`. */
void types_append(struct types *types, const struct types *behind, uint64_t count);
/* Formats the types; ends in "..." if truncated. */
void types_describe(const struct types *types, char *text, size_t text_bytes);
