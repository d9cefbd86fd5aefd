/*
 * pieces: a form written out as loops, as a programmer would write them by hand to fill it, to read
 * it, or to pack it. The benchmark needs these loops for every program; the MPI program also packs
 * with them.
 *
 * The packed order is that of MPI: the order in which the form lists its blocks.
 */
#pragma once

#include "tests/bench/ddtbench/form.h"

struct piece {
    int64_t offset_bytes;
    uint64_t outer; /* times the inner loop */
    int64_t outer_bytes;
    uint64_t inner; /* blocks */
    int64_t inner_bytes;
    const int32_t *places; /* not NULL: the inner loop goes over these places, unit_bytes each */
    uint32_t unit_bytes;
    uint64_t block_bytes;
};

#define PIECES_MAX 16

struct pieces {
    uint32_t count;
    uint32_t word_bytes; /* what it is filled with: 8, or 4 where a block may be no multiple of 8 */
    uint64_t bytes;
    struct piece piece[PIECES_MAX];
};

/* Ends the program if a form needs more than PIECES_MAX pieces or is nested deeper, which is an
 * error in the table. The tables of the form must outlive it. */
void pieces_init(struct pieces *pieces, const struct form *form);

/* Word n of the packed data becomes value + n. */
void pieces_write(const struct pieces *pieces, char *base, uint64_t value);
/* Reads all words. */
void pieces_read(const struct pieces *pieces, const char *base);
/* How many words are not value + n. */
uint64_t pieces_wrong(const struct pieces *pieces, const char *base, uint64_t value);
/* Every byte becomes `byte`. */
void pieces_fill(const struct pieces *pieces, char *base, int byte);

void pieces_pack(const struct pieces *pieces, const char *base, char *packed);
void pieces_unpack(const struct pieces *pieces, char *base, const char *packed);

/* Where it begins, if it is one block, so that there is nothing to pack. Else -1. */
int64_t pieces_contiguous(const struct pieces *pieces);
