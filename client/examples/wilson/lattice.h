/* A four-dimensional periodic lattice, or a block of one, in even-odd order: each parity's sites
 * are an array of their own, in which the last coordinate varies fastest. All extents are even. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { DIMENSIONS = 4, HOPS = 2 * DIMENSIONS, COLOURS = 3 };

struct colour {
    double re, im;
};

struct spinor {
    struct colour c[COLOURS];
};

struct link {
    struct colour u[COLOURS][COLOURS];
};

/* Hop 2 * d leads to the next site in dimension d, hop 2 * d + 1 to the one before. */
struct lattice {
    uint32_t whole[DIMENSIONS];  /* extents of the whole lattice */
    uint32_t extent[DIMENSIONS]; /* of this block */
    uint32_t origin[DIMENSIONS]; /* of this block, even */
    bool split[DIMENSIONS];      /* other blocks follow in this dimension: there are ghosts */
    uint32_t half;               /* sites of one parity */
    struct link *links[2];       /* [parity][half][HOPS] */
    int32_t *next[2];            /* [parity][half][HOPS]: a site, or ~(place in a ghost) */
    uint32_t *order[2];          /* [parity][half]: sites that need no ghost first */
    uint32_t interior[2];        /* how many these are */
};

/* 0, or -1: out of memory. */
int lattice_init(struct lattice *lattice);
void lattice_deinit(struct lattice *lattice);

/* The place of a site in the array of its parity. */
uint32_t lattice_index(const struct lattice *lattice, const uint32_t *coords);
/* Sites of one parity in a face across dimension d. */
uint32_t lattice_face(const struct lattice *lattice, uint32_t d);
/* Fills a field of a parity with what depends on the position in the whole lattice only. */
void lattice_fill(const struct lattice *lattice, uint32_t parity, struct spinor *field);

/* out = sum over all hops of link * in, at the sites order[parity][first] to [last - 1]. in: of the
 * other parity; ghosts: by hop, its sites beyond this block. */
void lattice_hop(const struct lattice *lattice, uint32_t parity, uint32_t first, uint32_t last,
                 const struct spinor *in, struct spinor *const *ghosts, struct spinor *out);

/* The squared norm of the even sites of a block of this one, added up in its own order. */
double lattice_norm(const struct lattice *lattice, const struct spinor *even, const uint32_t *first,
                    const uint32_t *extent);
void lattice_scale(const struct lattice *lattice, struct spinor *field, double factor);
