#include "tests/bench/kernels/patterns.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/layout/layout.h"
#include "tests/bench/ddtbench/pattern.h"
#include "tests/bench/ddtbench/tca_layouts.h"
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
    SAME, /* the same on both sides */
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
    {"list of 4 B", LIST, 16384, 4, 4},
    {"list of 4 B pack", PACK_LIST, 16384, 4, 4},
    {"list of 12 B pack", PACK_LIST, 8192, 12, 4},
    {"list of 12 B unpack", UNPACK_LIST, 8192, 12, 4},
    {"list of 24 B", LIST, 4096, 24, 4},
    {"transpose 16 B", TRANSPOSE, 256, 16, 8192},
    {"transpose 8 B", TRANSPOSE, 512, 8, 4096},
    {"transpose 4 B", TRANSPOSE, 512, 4, 4096},
    {"8 B/64 to 64 B/512", OTHER, 8192, 8, 64, 64, 512},
    {"24 B/64 to 16 B/64", OTHER, 2048, 24, 64, 16, 64},
};

static struct layout *strided(uint64_t count, uint64_t block, uint64_t stride)
{
    return repeat(bytes(block), count, (int64_t)stride);
}

static void make(unsigned i, struct kernel_pattern *pattern)
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

enum { OWN = sizeof(table) / sizeof(*table) };

static struct layout *of_form(const struct form *form, int64_t offset)
{
    struct tca_layout *made;
    struct layout *layout = NULL;
    int r = tca_layout_of(form, &made);
    if (r == 0) {
        r = layout_shift(layout_of(made), offset, &layout);
        tca_layout_free(made);
    }
    return must(r, layout);
}

/* What one rank sends to one: tests/bench/ddtbench. */
static void make_ddt(unsigned number, struct kernel_pattern *made)
{
    struct pattern pattern;
    pattern_init(&pattern, number);
    snprintf(made->name, sizeof(made->name), "%s", pattern.name);
    made->source = of_form(pattern.send, pattern_send_at(&pattern, 0, 0));
    made->target = of_form(pattern.receive, pattern_receive_at(&pattern, 0, 0));
    pattern_deinit(&pattern);
}

bool kernel_pattern_new(unsigned index, struct kernel_pattern *ret_pattern)
{
    if (index >= OWN + pattern_count())
        return false;
    if (index < OWN) {
        snprintf(ret_pattern->name, sizeof(ret_pattern->name), "%s", table[index].name);
        make(index, ret_pattern);
    } else {
        make_ddt(index - OWN, ret_pattern);
    }
    return true;
}

void kernel_pattern_free(struct kernel_pattern *pattern)
{
    free(pattern->target);
    free(pattern->source);
}
