#include "tests/bench/ddtbench/form.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each piece of memory begins with a pointer to the one before. */
struct piece_of_shelf {
    struct piece_of_shelf *before;
    _Alignas(16) char memory[];
};

struct shelf {
    struct piece_of_shelf *last;
};

static void *zeroed(size_t bytes)
{
    void *memory = calloc(1, bytes);

    if (!memory) {
        fputs("ddt: no memory\n", stderr);
        exit(1);
    }
    return memory;
}

struct shelf *shelf_new(void)
{
    return zeroed(sizeof(struct shelf));
}

void shelf_free(struct shelf *shelf)
{
    while (shelf && shelf->last) {
        struct piece_of_shelf *last = shelf->last;

        shelf->last = last->before;
        free(last);
    }
    free(shelf);
}

void *shelf_get(struct shelf *shelf, size_t bytes)
{
    struct piece_of_shelf *piece = zeroed(sizeof(*piece) + bytes);

    piece->before = shelf->last;
    shelf->last = piece;
    return piece->memory;
}

static struct form *form_new(struct shelf *shelf, enum form_kind kind, uint32_t element_bytes,
                             uint64_t count)
{
    struct form *form = shelf_get(shelf, sizeof(*form));

    *form = (struct form){.kind = kind, .element_bytes = element_bytes, .count = count};
    return form;
}

const struct form *form_run(struct shelf *shelf, uint32_t element_bytes, uint64_t count)
{
    return form_new(shelf, FORM_RUN, element_bytes, count);
}

const struct form *form_vector(struct shelf *shelf, uint64_t count, int64_t stride_bytes,
                               const struct form *inner)
{
    struct form *form = form_new(shelf, FORM_VECTOR, inner->element_bytes, count);
    const struct form **one = shelf_get(shelf, sizeof(*one));

    *one = inner;
    form->stride_bytes = stride_bytes;
    form->inner = one;
    return form;
}

/* A linear congruential generator: good enough to shuffle with, the same everywhere. */
static uint64_t next(uint64_t *state, uint64_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (*state >> 33) % below;
}

const struct form *form_random(struct shelf *shelf, uint32_t element_bytes, uint64_t count,
                               uint64_t block, uint64_t among, uint64_t seed)
{
    struct form *form = form_new(shelf, FORM_INDEXED, element_bytes, count);
    int32_t *places = shelf_get(shelf, among * sizeof(*places));

    for (uint64_t i = 0; i < among; i++)
        places[i] = (int32_t)(i * block);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t other = i + next(&seed, among - i);
        int32_t place = places[other];

        places[other] = places[i];
        places[i] = place;
    }
    form->block = block;
    form->places = places;
    return form;
}

const struct form *form_struct(struct shelf *shelf, uint64_t count, const int64_t *offsets_bytes,
                               const struct form *const *inner)
{
    struct form *form = form_new(shelf, FORM_STRUCT, inner[0]->element_bytes, count);
    int64_t *offsets = shelf_get(shelf, count * sizeof(*offsets));
    const struct form **forms = shelf_get(shelf, count * sizeof(*forms));

    memcpy(offsets, offsets_bytes, count * sizeof(*offsets));
    memcpy(forms, inner, count * sizeof(*forms));
    form->offsets_bytes = offsets;
    form->inner = forms;
    return form;
}

const struct form *form_subarray(struct shelf *shelf, uint32_t element_bytes, int dimensions,
                                 const int32_t *sizes, const int32_t *part, const int32_t *first)
{
    struct form *form = form_new(shelf, FORM_SUBARRAY, element_bytes, (uint64_t)dimensions);

    for (int i = 0; i < FORM_DIMENSIONS; i++) {
        form->sizes[i] = i < dimensions ? sizes[i] : 1;
        form->part[i] = i < dimensions ? part[i] : 1;
        form->first[i] = i < dimensions ? first[i] : 0;
    }
    return form;
}

uint64_t form_bytes(const struct form *form)
{
    uint64_t bytes = 0;

    switch (form->kind) {
    case FORM_RUN:
        return form->count * form->element_bytes;
    case FORM_VECTOR:
        return form->count * form_bytes(form->inner[0]);
    case FORM_INDEXED:
        return form->count * form->block * form->element_bytes;
    case FORM_SUBARRAY:
        return (uint64_t)form->part[0] * (uint64_t)form->part[1] * (uint64_t)form->part[2] *
               form->element_bytes;
    case FORM_STRUCT:
        for (uint64_t i = 0; i < form->count; i++)
            bytes += form_bytes(form->inner[i]);
    }
    return bytes;
}
