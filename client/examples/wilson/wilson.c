/*
 * wilson T Z Y X [STEPS]: a nearest-neighbour stencil as in Wilson's fermion operator, on a lattice
 * in even-odd order that is divided among all ranks. Each step takes the even sites to the odd ones
 * and back, and divides by the norm. Every rank then computes everything by itself and compares the
 * results bit by bit. Extents must be divisible by twice the ranks in their dimension.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faces.h"
#include "lattice.h"

static int complain(const char *what)
{
    fprintf(stderr, "wilson: %s: %s\n", what, tca_error_text());
    return -1;
}

/* ---- distribution */

/* Gives the prime factors of `ranks`, the largest first, to the dimensions with the most sites. */
static int divide(const uint32_t *whole, uint32_t ranks, uint32_t *grid)
{
    for (uint32_t d = 0; d < DIMENSIONS; d++)
        grid[d] = 1;
    for (uint32_t factor = ranks; ranks > 1; factor--) {
        int prime = factor > 1;
        for (uint32_t i = 2; i * i <= factor; i++)
            prime = prime && factor % i;
        while (prime && ranks % factor == 0) {
            int best = -1;
            for (int d = 0; d < DIMENSIONS; d++)
                if (whole[d] % (2 * grid[d] * factor) == 0 &&
                    (best < 0 || whole[d] / grid[d] > whole[best] / grid[best]))
                    best = d;
            if (best < 0)
                return -1;
            grid[best] *= factor;
            ranks /= factor;
        }
    }
    return 0;
}

static void cut(struct lattice *lattice, const uint32_t *whole, const struct tca_qmp *qmp)
{
    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        lattice->whole[d] = whole[d];
        lattice->extent[d] = whole[d] / tca_qmp_extent(qmp, d);
        lattice->origin[d] = lattice->extent[d] * tca_qmp_coord(qmp, d);
        lattice->split[d] = tca_qmp_extent(qmp, d) > 1;
    }
}

/* ---- on all ranks */

static int hop(struct faces *faces, const struct lattice *lattice, uint32_t parity,
               struct spinor *const *fields)
{
    uint32_t interior = lattice->interior[parity];
    const struct spinor *in = fields[1 - parity];
    int r = faces_start(faces, lattice, 1 - parity);

    if (r < 0)
        return r;
    lattice_hop(lattice, parity, 0, interior, in, faces->ghosts, fields[parity]);
    if ((r = faces_wait(faces, 1 - parity)) < 0)
        return r;
    lattice_hop(lattice, parity, interior, lattice->half, in, faces->ghosts, fields[parity]);
    return 0;
}

static int run_on_all(struct tca_qmp *qmp, struct tca *session, const struct lattice *lattice,
                      struct spinor *const *fields, int steps)
{
    const uint32_t nowhere[DIMENSIONS] = {0};
    struct faces faces;
    int r = faces_init(&faces, qmp, session, lattice, fields);

    lattice_fill(lattice, 0, fields[0]);
    for (int step = 0; r >= 0 && step < steps; step++) {
        double norm = 0;
        r = hop(&faces, lattice, 1, fields);
        if (r >= 0)
            r = hop(&faces, lattice, 0, fields);
        if (r >= 0) {
            norm = lattice_norm(lattice, fields[0], nowhere, lattice->extent);
            r = tca_qmp_sum(qmp, &norm, 1);
        }
        lattice_scale(lattice, fields[0], 1 / sqrt(norm));
    }
    faces_deinit(&faces);
    return r;
}

/* ---- on one */

/* Adds up what each rank adds up, in the order of ranks. */
static double norm_of_all(const struct tca_qmp *qmp, uint32_t ranks, const struct lattice *whole,
                          const struct lattice *block, const struct spinor *even)
{
    uint32_t first[DIMENSIONS];
    double norm = 0;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        tca_qmp_coords_of(qmp, rank, first);
        for (uint32_t d = 0; d < DIMENSIONS; d++)
            first[d] *= block->extent[d];
        double part = lattice_norm(whole, even, first, block->extent);
        norm = rank == 0 ? part : norm + part;
    }
    return norm;
}

static void run_on_one(const struct tca_qmp *qmp, uint32_t ranks, const struct lattice *whole,
                       const struct lattice *block, struct spinor *const *fields, int steps)
{
    lattice_fill(whole, 0, fields[0]);
    for (int step = 0; step < steps; step++) {
        lattice_hop(whole, 1, 0, whole->half, fields[0], NULL, fields[1]);
        lattice_hop(whole, 0, 0, whole->half, fields[1], NULL, fields[0]);
        lattice_scale(whole, fields[0], 1 / sqrt(norm_of_all(qmp, ranks, whole, block, fields[0])));
    }
}

/* Sites of this block that differ from those of the whole lattice. */
static uint64_t count_wrong(const struct lattice *whole, const struct lattice *block,
                            struct spinor *const *all, struct spinor *const *own)
{
    uint32_t at[DIMENSIONS], in_whole[DIMENSIONS];
    uint64_t wrong = 0;

    for (uint32_t place = 0; place < 2 * block->half; place++) {
        uint32_t rest = place, parity = 0;
        for (uint32_t d = DIMENSIONS; d-- > 0; rest /= block->extent[d]) {
            at[d] = rest % block->extent[d];
            in_whole[d] = block->origin[d] + at[d];
            parity ^= at[d] & 1;
        }
        wrong += memcmp(&own[parity][lattice_index(block, at)],
                        &all[parity][lattice_index(whole, in_whole)], sizeof(struct spinor)) != 0;
    }
    return wrong;
}

static int compare(const struct tca_qmp *qmp, uint32_t ranks, const struct lattice *block,
                   struct spinor *const *own, int steps)
{
    struct lattice whole = *block;

    for (uint32_t d = 0; d < DIMENSIONS; d++) {
        whole.extent[d] = block->whole[d];
        whole.origin[d] = 0;
        whole.split[d] = false;
    }
    if (lattice_init(&whole) < 0)
        return -ENOMEM;
    struct spinor *all[2] = {malloc(whole.half * sizeof(*all[0])),
                             malloc(whole.half * sizeof(*all[0]))};
    int r = all[0] && all[1] ? 0 : -ENOMEM;
    if (r == 0) {
        run_on_one(qmp, ranks, &whole, block, all, steps);
        uint64_t wrong = count_wrong(&whole, block, all, own);
        if (wrong > 0)
            fprintf(stderr, "wilson: %llu sites are wrong\n", (unsigned long long)wrong);
        r = wrong > 0 ? -EIO : 0;
    }
    free(all[0]);
    free(all[1]);
    lattice_deinit(&whole);
    return r;
}

/* ---- all of it */

static int calculate(struct tca *session, struct tca_qmp *qmp, const uint32_t *whole, int steps)
{
    struct spinor *fields[2] = {NULL, NULL};
    struct lattice block;

    cut(&block, whole, qmp);
    if (lattice_init(&block) < 0)
        return -ENOMEM;
    int r = tca_alloc(session, block.half * sizeof(*fields[0]), (void **)&fields[0]);
    if (r >= 0)
        r = tca_alloc(session, block.half * sizeof(*fields[1]), (void **)&fields[1]);
    if (r >= 0)
        r = run_on_all(qmp, session, &block, fields, steps);
    if (r < 0)
        complain("messages");
    if (r >= 0)
        r = compare(qmp, tca_size(session), &block, fields, steps);
    if (r >= 0)
        r = tca_qmp_barrier(qmp); /* all are right */
    if (r >= 0 && tca_rank(session) == 0)
        printf("%u x %u x %u x %u sites on %u x %u x %u x %u ranks, %d steps: the same bits as on "
               "one\n",
               whole[0], whole[1], whole[2], whole[3], tca_qmp_extent(qmp, 0),
               tca_qmp_extent(qmp, 1), tca_qmp_extent(qmp, 2), tca_qmp_extent(qmp, 3), steps);
    lattice_deinit(&block);
    return r;
}

int main(int argc, char **argv)
{
    uint32_t whole[DIMENSIONS] = {0}, grid[DIMENSIONS];
    int steps = argc > 5 ? atoi(argv[5]) : 10;
    struct tca_qmp *qmp = NULL;
    struct tca *session = NULL;

    for (int d = 0; d < DIMENSIONS && argc > 4; d++)
        whole[d] = (uint32_t)strtoul(argv[1 + d], NULL, 0);
    for (int d = 0; d < DIMENSIONS; d++)
        if (whole[d] < 2 || whole[d] > 1024 || whole[d] % 2) {
            fprintf(stderr, "Usage: wilson T Z Y X [STEPS]; extents are even, 2 to 1024\n");
            return 2;
        }
    if (tca_open(NULL, &session) < 0)
        return complain("tca_open()") < 0;
    if (divide(whole, tca_size(session), grid) < 0) {
        fprintf(stderr, "wilson: %u ranks cannot divide these extents into even parts\n",
                tca_size(session));
        tca_close(session);
        return 1;
    }
    int r = tca_qmp_new(session, NULL, DIMENSIONS, grid, NULL, NULL, &qmp);
    if (r < 0)
        complain("tca_qmp_new()");
    else
        r = calculate(session, qmp, whole, steps);
    tca_qmp_free(qmp);
    tca_close(session);
    return r < 0;
}
