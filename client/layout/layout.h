/* Inside libtca: a public layout is a program of proto/layout.h, and what its elements are called.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "client/include/tca.h"
#include "proto/layout.h"

enum { TYPES_TEXT_BYTES = 120 };

/*
 * The types of the elements in packed order, for people: "3 x (1 x int32, 4 x double), 7 x float".
 * What is compared is the program's signature. The last run of one type is kept as a number, so
 * that it may grow.
 */
struct types {
    char text[TYPES_TEXT_BYTES]; /* what comes before the last run */
    enum tca_type type;          /* the last run */
    uint64_t count;              /* 0: there is none */
};

struct copy_program;

struct tca_layout {
    struct layout *program;
    atomic_uint refs; /* the caller's, and one for each plan's step that has it: it never changes */
    struct types types;
    /* Compiled when tca_pack() or tca_unpack() are called again, by whichever thread is first; NULL
     * before. */
    _Atomic(struct copy_program *) packer;
    _Atomic(struct copy_program *) unpacker;
    atomic_bool packed, unpacked;
};

/* Another reference, for tca_layout_free(), in any thread. */
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

struct type_info {
    const char *name;
    uint32_t size_bytes;
    uint32_t alignment;
};
/* NULL: no such type. */
const struct type_info *type_info(enum tca_type type);

/* One run; of 0 elements: nothing. */
struct types types_of(enum tca_type type, uint64_t count);
/* `count` > 0 times `behind` goes behind what is there. */
void types_append(struct types *types, const struct types *behind, uint64_t count);
/* All of it, ending in "..." where it does not fit. */
void types_say(const struct types *types, char *text, size_t text_bytes);
