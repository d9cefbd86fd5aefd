#include "tests/bench/ddtbench/pieces.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void out_of_depth(void)
{
    fputs("ddt: a form has too many parts, or is nested too deep\n", stderr);
    exit(1);
}

static void add(struct pieces *pieces, struct piece piece)
{
    if (!piece.places && piece.inner > 1 && piece.inner_bytes == (int64_t)piece.block_bytes) {
        piece.block_bytes *= piece.inner;
        piece.inner = 1;
    }
    if (!piece.places && piece.inner == 1 && piece.outer > 1) {
        piece.inner = piece.outer;
        piece.inner_bytes = piece.outer_bytes;
        piece.outer = 1;
    }
    if (pieces->count == PIECES_MAX)
        out_of_depth();
    if (piece.block_bytes % 8)
        pieces->word_bytes = 4;
    pieces->piece[pieces->count++] = piece;
}

/* At most a vector of vectors of runs. */
static void add_vector(struct pieces *pieces, int64_t offset_bytes, const struct form *form)
{
    const struct form *inner = form->inner[0];
    struct piece piece = {.offset_bytes = offset_bytes,
                          .outer = 1,
                          .inner = form->count,
                          .inner_bytes = form->stride_bytes};

    if (inner->kind == FORM_VECTOR) {
        piece.outer = form->count;
        piece.outer_bytes = form->stride_bytes;
        piece.inner = inner->count;
        piece.inner_bytes = inner->stride_bytes;
        inner = inner->inner[0];
    }
    if (inner->kind != FORM_RUN)
        out_of_depth();
    piece.block_bytes = form_bytes(inner);
    add(pieces, piece);
}

static void add_subarray(struct pieces *pieces, int64_t offset_bytes, const struct form *form)
{
    int64_t row = (int64_t)form->sizes[0] * form->element_bytes;
    int64_t plane = row * form->sizes[1];
    struct piece piece = {
        .offset_bytes = offset_bytes + form->first[0] * (int64_t)form->element_bytes +
                        form->first[1] * row + form->first[2] * plane,
        .outer = (uint64_t)form->part[2],
        .outer_bytes = plane,
        .inner = (uint64_t)form->part[1],
        .inner_bytes = row,
        .block_bytes = (uint64_t)form->part[0] * form->element_bytes,
    };

    add(pieces, piece);
}

static void add_form(struct pieces *pieces, int64_t offset_bytes, const struct form *form)
{
    switch (form->kind) {
    case FORM_RUN:
        add(pieces, (struct piece){.offset_bytes = offset_bytes,
                                   .outer = 1,
                                   .inner = 1,
                                   .block_bytes = form_bytes(form)});
        break;
    case FORM_VECTOR:
        add_vector(pieces, offset_bytes, form);
        break;
    case FORM_INDEXED:
        add(pieces, (struct piece){.offset_bytes = offset_bytes,
                                   .outer = 1,
                                   .inner = form->count,
                                   .places = form->places,
                                   .unit_bytes = form->element_bytes,
                                   .block_bytes = form->block * form->element_bytes});
        break;
    case FORM_SUBARRAY:
        add_subarray(pieces, offset_bytes, form);
        break;
    case FORM_STRUCT:
        for (uint64_t i = 0; i < form->count; i++)
            add_form(pieces, offset_bytes + form->offsets_bytes[i], form->inner[i]);
    }
}

void pieces_init(struct pieces *pieces, const struct form *form)
{
    *pieces = (struct pieces){.word_bytes = 8, .bytes = form_bytes(form)};
    add_form(pieces, 0, form);
}

int64_t pieces_contiguous(const struct pieces *pieces)
{
    const struct piece *only = &pieces->piece[0];

    if (pieces->count != 1 || only->outer != 1 || only->inner != 1 || only->places)
        return -1;
    return only->offset_bytes;
}

/* ---- the loops. The operation on a block is a parameter that the compiler knows, and so is the
 * block's length if it is a usual short one: each case becomes a loop of its own. */

enum what { WRITE_8, WRITE_4, READ_8, READ_4, PACK, UNPACK };

/* The loop's state from block to block. */
struct at {
    uint64_t value; /* the next word, or the sum of those read */
    char *packed;
};

static inline __attribute__((always_inline)) void one_block(enum what what, char *block,
                                                            uint64_t bytes, struct at *at)
{
    uint64_t *words = (uint64_t *)(void *)block;
    uint32_t *halves = (uint32_t *)(void *)block;

    switch (what) {
    case WRITE_8:
        for (uint64_t i = 0; i < bytes / 8; i++)
            words[i] = at->value + i;
        at->value += bytes / 8;
        break;
    case WRITE_4:
        for (uint64_t i = 0; i < bytes / 4; i++)
            halves[i] = (uint32_t)(at->value + i);
        at->value += bytes / 4;
        break;
    case READ_8:
        for (uint64_t i = 0; i < bytes / 8; i++)
            at->value += words[i];
        break;
    case READ_4:
        for (uint64_t i = 0; i < bytes / 4; i++)
            at->value += halves[i];
        break;
    case PACK:
        memcpy(at->packed, block, bytes);
        at->packed += bytes;
        break;
    case UNPACK:
        memcpy(block, at->packed, bytes);
        at->packed += bytes;
        break;
    }
}

static inline __attribute__((always_inline)) void loops(enum what what, const struct piece *piece,
                                                        char *base, uint64_t bytes, struct at *at)
{
    struct at now = *at; /* in registers */

    for (uint64_t o = 0; o < piece->outer; o++) {
        char *start = base + piece->offset_bytes + (int64_t)o * piece->outer_bytes;

        if (piece->places)
            for (uint64_t i = 0; i < piece->inner; i++)
                one_block(what, start + (int64_t)piece->places[i] * piece->unit_bytes, bytes, &now);
        else
            for (uint64_t i = 0; i < piece->inner; i++)
                one_block(what, start + (int64_t)i * piece->inner_bytes, bytes, &now);
    }
    *at = now;
}

static inline __attribute__((always_inline)) void all(enum what what, const struct pieces *pieces,
                                                      char *base, struct at *at)
{
    for (uint32_t p = 0; p < pieces->count; p++) {
        const struct piece *piece = &pieces->piece[p];

        switch (piece->block_bytes) {
        case 4:
            loops(what, piece, base, 4, at);
            break;
        case 8:
            loops(what, piece, base, 8, at);
            break;
        case 12:
            loops(what, piece, base, 12, at);
            break;
        case 16:
            loops(what, piece, base, 16, at);
            break;
        case 24:
            loops(what, piece, base, 24, at);
            break;
        case 40:
            loops(what, piece, base, 40, at);
            break;
        default:
            loops(what, piece, base, piece->block_bytes, at);
        }
    }
}

void pieces_write(const struct pieces *pieces, char *base, uint64_t value)
{
    struct at at = {.value = value};

    if (pieces->word_bytes == 8)
        all(WRITE_8, pieces, base, &at);
    else
        all(WRITE_4, pieces, base, &at);
}

void pieces_read(const struct pieces *pieces, const char *base)
{
    struct at at = {0};

    if (pieces->word_bytes == 8)
        all(READ_8, pieces, (char *)(uintptr_t)base, &at);
    else
        all(READ_4, pieces, (char *)(uintptr_t)base, &at);
    __asm__ volatile("" : : "r"(at.value)); /* somebody might have used it */
}

void pieces_pack(const struct pieces *pieces, const char *base, char *packed)
{
    struct at at = {.packed = packed};

    all(PACK, pieces, (char *)(uintptr_t)base, &at);
}

void pieces_unpack(const struct pieces *pieces, char *base, const char *packed)
{
    struct at at = {.packed = (char *)(uintptr_t)packed};

    all(UNPACK, pieces, base, &at);
}

/* ---- for the check, one word after the other */

uint64_t pieces_wrong(const struct pieces *pieces, const char *base, uint64_t value)
{
    char *packed = malloc(pieces->bytes);
    uint64_t wrong = 0;

    if (!packed)
        return pieces->bytes;
    pieces_pack(pieces, base, packed);
    for (uint64_t n = 0; n < pieces->bytes / pieces->word_bytes; n++) {
        uint64_t word = 0;
        uint64_t wanted = pieces->word_bytes == 8 ? value + n : (uint32_t)(value + n);

        memcpy(&word, packed + n * pieces->word_bytes, pieces->word_bytes);
        wrong += word != wanted;
    }
    free(packed);
    return wrong;
}

void pieces_fill(const struct pieces *pieces, char *base, int byte)
{
    for (uint32_t p = 0; p < pieces->count; p++) {
        const struct piece *piece = &pieces->piece[p];

        for (uint64_t o = 0; o < piece->outer; o++)
            for (uint64_t i = 0; i < piece->inner; i++) {
                int64_t offset = piece->places ? (int64_t)piece->places[i] * piece->unit_bytes
                                               : (int64_t)i * piece->inner_bytes;

                memset(base + piece->offset_bytes + (int64_t)o * piece->outer_bytes + offset, byte,
                       piece->block_bytes);
            }
    }
}
