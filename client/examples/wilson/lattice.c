#include "lattice.h"

#include <stdlib.h>

/* ---- positions */

static uint32_t lexical(const uint32_t *extent, const uint32_t *coords)
{
    uint32_t place = 0;

    for (uint32_t d = 0; d < DIMENSIONS; d++)
        place = place * extent[d] + coords[d];
    return place;
}

static void coords_of(const uint32_t *extent, uint32_t place, uint32_t *ret_coords)
{
    for (uint32_t d = DIMENSIONS; d-- > 0;) {
        ret_coords[d] = place % extent[d];
        place /= extent[d];
    }
}

static uint32_t parity_of(const uint32_t *coords)
{
    return (coords[0] + coords[1] + coords[2] + coords[3]) % 2;
}

/* Of two neighbours in the last dimension, one is even: half of the lexical place. */
uint32_t lattice_index(const struct lattice *lattice, const uint32_t *coords)
{
    return lexical(lattice->extent, coords) / 2;
}

uint32_t lattice_face(const struct lattice *lattice, uint32_t d)
{
    return lattice->half / lattice->extent[d];
}

/* The place of a site in its face across dimension d, as above. */
static uint32_t face_index(const struct lattice *lattice, const uint32_t *coords, uint32_t d)
{
    uint32_t place = 0;

    for (uint32_t e = 0; e < DIMENSIONS; e++)
        if (e != d)
            place = place * lattice->extent[e] + coords[e];
    return place / 2;
}

/* ---- contents */

static double number(uint64_t seed)
{
    uint64_t z = seed * 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) / 0x1p53 - 0.5;
}

static uint64_t site_in_whole(const struct lattice *lattice, const uint32_t *coords, int d,
                              int step)
{
    uint32_t at[DIMENSIONS];

    for (int e = 0; e < DIMENSIONS; e++)
        at[e] =
            (lattice->origin[e] + coords[e] + (e == d ? lattice->whole[e] + (uint32_t)step : 0)) %
            lattice->whole[e];
    return lexical(lattice->whole, at);
}

/* The link from a site to the next one; the one back takes its adjoint. */
static void fill_link(const struct lattice *lattice, const uint32_t *coords, uint32_t hop,
                      struct link *link)
{
    int d = (int)(hop / 2);
    bool back = hop % 2;
    uint64_t site = site_in_whole(lattice, coords, d, back ? -1 : 0) * DIMENSIONS + (uint64_t)d;

    for (uint64_t i = 0; i < COLOURS; i++)
        for (uint64_t k = 0; k < COLOURS; k++) {
            uint64_t seed = 1 + 2 * (site * COLOURS * COLOURS + i * COLOURS + k);
            struct colour value = {number(seed), number(seed + 1)};
            if (back)
                link->u[k][i] = (struct colour){value.re, -value.im};
            else
                link->u[i][k] = value;
        }
}

void lattice_fill(const struct lattice *lattice, uint32_t parity, struct spinor *field)
{
    uint32_t coords[DIMENSIONS];

    for (uint32_t place = 0; place < 2 * lattice->half; place++) {
        coords_of(lattice->extent, place, coords);
        if (parity_of(coords) != parity)
            continue;
        uint64_t seed = ~(2 * COLOURS * site_in_whole(lattice, coords, 0, 0));
        for (uint32_t c = 0; c < COLOURS; c++)
            field[place / 2].c[c] = (struct colour){number(seed - 2 * c), number(seed - 2 * c - 1)};
    }
}

/* ---- neighbours */

static int32_t find_next(const struct lattice *lattice, const uint32_t *coords, uint32_t hop)
{
    uint32_t at[DIMENSIONS], d = hop / 2, extent = lattice->extent[d];
    bool beyond = hop % 2 ? coords[d] == 0 : coords[d] == extent - 1;

    for (uint32_t e = 0; e < DIMENSIONS; e++)
        at[e] = coords[e];
    at[d] = (at[d] + (hop % 2 ? extent - 1 : 1)) % extent;
    return beyond && lattice->split[d] ? ~(int32_t)face_index(lattice, at, d)
                                       : (int32_t)lattice_index(lattice, at);
}

/* True: one of its neighbours is in a ghost. */
static bool fill_site(struct lattice *lattice, uint32_t place)
{
    uint32_t coords[DIMENSIONS], site = place / 2;
    bool rim = false;

    coords_of(lattice->extent, place, coords);
    uint32_t parity = parity_of(coords);
    for (uint32_t hop = 0; hop < HOPS; hop++) {
        int32_t next = find_next(lattice, coords, hop);
        lattice->next[parity][site * HOPS + hop] = next;
        fill_link(lattice, coords, hop, &lattice->links[parity][site * HOPS + hop]);
        rim |= next < 0;
    }
    return rim;
}

static void fill_sites(struct lattice *lattice)
{
    uint32_t coords[DIMENSIONS], last[2] = {lattice->half, lattice->half};

    for (uint32_t place = 0; place < 2 * lattice->half; place++) {
        bool rim = fill_site(lattice, place);
        coords_of(lattice->extent, place, coords);
        uint32_t parity = parity_of(coords);
        uint32_t *order = lattice->order[parity];
        order[rim ? --last[parity] : lattice->interior[parity]++] = place / 2;
    }
}

int lattice_init(struct lattice *lattice)
{
    bool complete = true;

    lattice->half =
        lattice->extent[0] * lattice->extent[1] * lattice->extent[2] * lattice->extent[3] / 2;
    for (uint32_t parity = 0; parity < 2; parity++) {
        size_t hops = (size_t)lattice->half * HOPS;
        lattice->links[parity] = malloc(hops * sizeof(struct link));
        lattice->next[parity] = malloc(hops * sizeof(int32_t));
        lattice->order[parity] = malloc(lattice->half * sizeof(uint32_t));
        complete &= lattice->links[parity] && lattice->next[parity] && lattice->order[parity];
        lattice->interior[parity] = 0;
    }
    if (complete)
        fill_sites(lattice);
    else
        lattice_deinit(lattice);
    return complete ? 0 : -1;
}

void lattice_deinit(struct lattice *lattice)
{
    for (uint32_t parity = 0; parity < 2; parity++) {
        free(lattice->links[parity]);
        free(lattice->next[parity]);
        free(lattice->order[parity]);
    }
}

/* ---- arithmetic */

static void add_product(const struct link *link, const struct spinor *in, struct spinor *sum)
{
    for (int i = 0; i < COLOURS; i++)
        for (int k = 0; k < COLOURS; k++) {
            struct colour u = link->u[i][k], v = in->c[k];
            sum->c[i].re += u.re * v.re - u.im * v.im;
            sum->c[i].im += u.re * v.im + u.im * v.re;
        }
}

void lattice_hop(const struct lattice *lattice, uint32_t parity, uint32_t first, uint32_t last,
                 const struct spinor *in, struct spinor *const *ghosts, struct spinor *out)
{
    for (uint32_t i = first; i < last; i++) {
        uint32_t site = lattice->order[parity][i];
        const struct link *links = &lattice->links[parity][(size_t)site * HOPS];
        const int32_t *next = &lattice->next[parity][(size_t)site * HOPS];
        struct spinor sum = {0};
        for (uint32_t hop = 0; hop < HOPS; hop++)
            add_product(&links[hop], next[hop] < 0 ? &ghosts[hop][~next[hop]] : &in[next[hop]],
                        &sum);
        out[site] = sum;
    }
}

double lattice_norm(const struct lattice *lattice, const struct spinor *even, const uint32_t *first,
                    const uint32_t *extent)
{
    uint32_t coords[DIMENSIONS], places = extent[0] * extent[1] * extent[2] * extent[3];
    double norm = 0;

    for (uint32_t place = 0; place < places; place++) {
        coords_of(extent, place, coords);
        for (uint32_t d = 0; d < DIMENSIONS; d++)
            coords[d] += first[d];
        const struct spinor *spinor = &even[lattice_index(lattice, coords)];
        for (uint32_t c = 0; c < COLOURS && parity_of(coords) == 0; c++)
            norm += spinor->c[c].re * spinor->c[c].re + spinor->c[c].im * spinor->c[c].im;
    }
    return norm;
}

void lattice_scale(const struct lattice *lattice, struct spinor *field, double factor)
{
    for (uint32_t site = 0; site < lattice->half; site++)
        for (uint32_t c = 0; c < COLOURS; c++) {
            field[site].c[c].re *= factor;
            field[site].c[c].im *= factor;
        }
}
