#include "tests/bench/kernels/patterns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/proto/random.h"

static struct layout *must(int r, struct layout *layout)
{
    if (r < 0) {
        fprintf(stderr, "kernels: layout: %s\n", strerror(-r));
        exit(1);
    }
    return layout;
}

static struct layout *bytes(uint64_t count)
{
    struct layout *layout = NULL;
    int r = layout_contiguous(count, &layout);
    return must(r, layout);
}

static struct layout *repeat(struct layout *inner, uint64_t count, int64_t stride)
{
    struct layout *layout = NULL;
    int r = layout_repeat(inner, count, stride, &layout);
    free(inner);
    return must(r, layout);
}

/* `count` blocks in increasing order, on average every `spacing` blocks of that length, as a
 * neighbour list has them. */
static struct layout *list(uint64_t block, uint32_t count, uint32_t spacing)
{
    struct random random = {block * count};
    struct layout *layout =
        calloc(1, sizeof(*layout) + sizeof(struct layout_op) + count * sizeof(struct layout_pair));
    struct layout_pair *pairs = (struct layout_pair *)&layout->ops[1];
    int64_t place = 0;
    for (uint32_t i = 0; i < count; i++) {
        pairs[i] = (struct layout_pair){place * (int64_t)block, block};
        place += 1 + (int64_t)random_below(&random, 2 * spacing - 1);
    }
    layout->magic = LAYOUT_MAGIC;
    layout->version = PROTO_VERSION;
    layout->op_count = 1;
    layout->pair_count = count;
    layout->ops[0] = (struct layout_op){.kind = LAYOUT_LIST, .count = count};
    layout->size_bytes = block * count;
    layout->block_count = count;
    layout->upper_bytes = pairs[count - 1].offset_bytes + (int64_t)block;
    return layout;
}

enum kind {
    CONTIGUOUS, /* a: bytes */
    PACK,       /* a blocks of b bytes every c, to packed */
    UNPACK,
    SAME,   /* the same on both sides */
    PLANES, /* a times b blocks of c bytes every d, planes every e; on both sides */
    PACK_PLANES,
    LIST, /* a blocks of b bytes, one of c places taken; on both sides */
    PACK_LIST,
    UNPACK_LIST,
    TRANSPOSE, /* a x a elements of b bytes in rows of c bytes */
    OTHER,     /* a blocks of b bytes every c to blocks of d bytes every e */
};

static const struct {
    const char *name;
    enum kind kind;
    uint64_t a, b, c, d, e;
} table[] = {
    {"contiguous", CONTIGUOUS, 64},
    {"contiguous", CONTIGUOUS, 512},
    {"contiguous", CONTIGUOUS, 4 << 10},
    {"contiguous", CONTIGUOUS, 64 << 10},
    {"contiguous", CONTIGUOUS, 1 << 20},
    {"contiguous", CONTIGUOUS, 16 << 20},
    {"4 B / 16 pack", PACK, 1024, 4, 16},
    {"8 B / 16 pack", PACK, 1024, 8, 16},
    {"8 B / 64 pack", PACK, 1024, 8, 64},
    {"8 B / 64 unpack", UNPACK, 1024, 8, 64},
    {"8 B / 64 same", SAME, 1024, 8, 64},
    {"8 B / 512 pack", PACK, 1024, 8, 512},
    {"8 B / 512 same", SAME, 1024, 8, 512},
    {"8 B / 4096 pack", PACK, 1024, 8, 4096},
    {"8 B / 4096 unpack", UNPACK, 1024, 8, 4096},
    {"8 B / 4096 same", SAME, 1024, 8, 4096},
    {"12 B / 64 pack", PACK, 1024, 12, 64},
    {"16 B / 64 pack", PACK, 1024, 16, 64},
    {"24 B / 64 pack", PACK, 1024, 24, 64},
    {"48 B / 128 pack", PACK, 1024, 48, 128},
    {"64 B / 512 pack", PACK, 1024, 64, 512},
    {"64 B / 512 same", SAME, 1024, 64, 512},
    {"96 B / 512 same", SAME, 512, 96, 512},
    {"200 B / 512 same", SAME, 512, 200, 512},
    {"512 B / 4096 same", SAME, 128, 512, 4096},
    {"3000 B / 4096 same", SAME, 64, 3000, 4096},
    {"face j 64", SAME, 64, 512, 32768},
    {"face j 256", SAME, 256, 2048, 524288},
    {"face k 64", SAME, 64 * 64, 8, 512},
    {"face k 128", SAME, 128 * 128, 8, 1024},
    {"face k 128 pack", PACK, 128 * 128, 8, 1024},
    {"face k 256", SAME, 256 * 256, 8, 2048},
    {"face k 256 pack", PACK, 256 * 256, 8, 2048},
    {"face k 256 unpack", UNPACK, 256 * 256, 8, 2048},
    {"WRF_x 102648", PLANES, 28, 611 / 2, 12, 300, 91500},
    {"WRF_x 102648 pack", PACK_PLANES, 28, 611 / 2, 12, 300, 91500},
    {"WRF_y 90804", PLANES, 28, 3, 1080, 1104, 91500},
    {"MILC_su3_zd 98304", SAME, 32, 3072, 24576},
    {"MILC_su3_zd 12288", SAME, 16, 768, 6144},
    {"NAS_LU_y 2560", SAME, 64, 40, 2640},
    {"NAS_LU_y 40800", SAME, 1020, 40, 40960},
    {"NAS_MG_x 32768", SAME, 4096, 8, 528},
    {"NAS_MG_x 524288", PLANES, 256, 256, 8, 2064, 532512},
    {"NAS_MG_y 262144", PLANES, 128, 1, 1024, 1040, 135200},
    {"SPECFEM3D_cm 106248", LIST, 8854, 12, 4},
    {"SPECFEM3D_cm pack", PACK_LIST, 8854, 12, 4},
    {"SPECFEM3D_oc 12900", LIST, 3225, 4, 6},
    {"SPECFEM3D_oc pack", PACK_LIST, 3225, 4, 6},
    {"SPECFEM3D_oc unpack", UNPACK_LIST, 3225, 4, 6},
    {"SPECFEM3D_mt 91200", LIST, 22800, 4, 3},
    {"LAMMPS 8 B", LIST, 6000, 8, 8},
    {"LAMMPS 8 B pack", PACK_LIST, 6000, 8, 8},
    {"LAMMPS 24 B", LIST, 4000, 24, 8},
    {"LAMMPS 24 B pack", PACK_LIST, 4000, 24, 8},
    {"FFT2 524288", TRANSPOSE, 256, 16, 8192},
    {"FFT2 2097152", TRANSPOSE, 512, 16, 16384},
    {"FFT2 8388608", TRANSPOSE, 1024, 16, 32768},
    {"transpose 8 B", TRANSPOSE, 512, 8, 4096},
    {"transpose 4 B", TRANSPOSE, 512, 4, 4096},
    {"8 B/64 to 64 B/512", OTHER, 8192, 8, 64, 64, 512},
    {"24 B/64 to 16 B/64", OTHER, 2048, 24, 64, 16, 64},
};

static struct layout *strided(uint64_t count, uint64_t block, uint64_t stride)
{
    return repeat(bytes(block), count, (int64_t)stride);
}

static struct layout *planes(unsigned i)
{
    return repeat(strided(table[i].b, table[i].c, table[i].d), table[i].a, (int64_t)table[i].e);
}

static void make(unsigned i, struct pattern *pattern)
{
    const uint64_t a = table[i].a, b = table[i].b, c = table[i].c;
    switch (table[i].kind) {
    case CONTIGUOUS:
        pattern->target = bytes(a);
        pattern->source = bytes(a);
        break;
    case PACK:
        pattern->target = bytes(a * b);
        pattern->source = strided(a, b, c);
        break;
    case UNPACK:
        pattern->target = strided(a, b, c);
        pattern->source = bytes(a * b);
        break;
    case SAME:
        pattern->target = strided(a, b, c);
        pattern->source = strided(a, b, c);
        break;
    case PLANES:
        pattern->target = planes(i);
        pattern->source = planes(i);
        break;
    case PACK_PLANES:
        pattern->source = planes(i);
        pattern->target = bytes(pattern->source->size_bytes);
        break;
    case LIST:
        pattern->target = list(b, (uint32_t)a, (uint32_t)c);
        pattern->source = list(b, (uint32_t)a, (uint32_t)c);
        break;
    case PACK_LIST:
        pattern->target = bytes(a * b);
        pattern->source = list(b, (uint32_t)a, (uint32_t)c);
        break;
    case UNPACK_LIST:
        pattern->target = list(b, (uint32_t)a, (uint32_t)c);
        pattern->source = bytes(a * b);
        break;
    case TRANSPOSE:
        pattern->target = repeat(strided(a, b, c), a, (int64_t)b);
        pattern->source = strided(a, a * b, c);
        break;
    case OTHER:
        pattern->source = strided(a, b, c);
        pattern->target = strided(a * b / table[i].d, table[i].d, table[i].e);
        break;
    }
}

bool pattern_new(unsigned index, struct pattern *ret_pattern)
{
    if (index >= sizeof(table) / sizeof(*table))
        return false;
    snprintf(ret_pattern->name, sizeof(ret_pattern->name), "%s", table[index].name);
    make(index, ret_pattern);
    return true;
}

void pattern_free(struct pattern *pattern)
{
    free(pattern->target);
    free(pattern->source);
}
