#include "transpose.h"

#include <stdio.h>
#include <stdlib.h>

#include "spectrum.h"

#define PATIENCE_NS INT64_C(60000000000)
#define POINT       sizeof(double complex)

/* Slots of notifications. */
enum { THERE, BACK, COLLECT, SLOTS };

struct transpose {
    struct tca *session;
    uint64_t n;
    uint32_t me, ranks;
    struct tca_region *region;
    struct tca_handle *handles;    /* of every rank's region */
    struct tca_plan *plans[SLOTS]; /* a chain for each rank */
};

/* ---- offsets in a region: the field, its transpose, and at rank 0 the whole field */

static uint64_t rows_of(const struct transpose *transpose, uint32_t rank)
{
    return spectrum_rows(transpose->n, transpose->ranks, rank);
}

static uint64_t matrix_bytes(const struct transpose *transpose, uint32_t rank)
{
    return rows_of(transpose, rank) * transpose->n * POINT;
}

static uint64_t matrix_at(const struct transpose *transpose, uint32_t rank, int slot)
{
    return slot == THERE ? 0 : matrix_bytes(transpose, rank);
}

static uint64_t whole_at(const struct transpose *transpose)
{
    return 2 * matrix_bytes(transpose, 0);
}

static uint64_t region_bytes(const struct transpose *transpose)
{
    uint64_t whole = transpose->me == 0 ? transpose->n * transpose->n * POINT : 0;

    return 2 * matrix_bytes(transpose, transpose->me) + whole;
}

/* ---- plans */

/*
 * The block of `rows` rows and `columns` columns at the sender, row by row; and where these points
 * lie, in that order, at the receiver, where a row has become a column.
 */
static int block_layouts(const struct transpose *transpose, uint64_t rows, uint64_t columns,
                         struct tca_layout **ret_from, struct tca_layout **ret_to)
{
    int64_t row_bytes = (int64_t)(transpose->n * POINT);
    struct tca_layout *point = NULL;
    struct tca_layout *turned_row = NULL;
    int r = tca_layout_element(TCA_TYPE_COMPLEX_DOUBLE, &point);

    if (r >= 0)
        r = tca_layout_hvector(point, rows, columns, row_bytes, ret_from);
    if (r >= 0)
        r = tca_layout_repeat(point, columns, row_bytes, &turned_row);
    if (r >= 0)
        r = tca_layout_repeat(turned_row, rows, (int64_t)POINT, ret_to);
    tca_layout_free(point);
    tca_layout_free(turned_row);
    return r;
}

static int add_block(struct transpose *transpose, int slot, uint32_t to)
{
    uint32_t me = transpose->me;
    struct tca_plan *plan = transpose->plans[slot];
    struct tca_layout *from_layout = NULL;
    struct tca_layout *to_layout = NULL;
    int r = block_layouts(transpose, rows_of(transpose, me), rows_of(transpose, to), &from_layout,
                          &to_layout);

    if (r >= 0) {
        struct tca_put put = {
            .source = transpose->region,
            .source_offset_bytes = matrix_at(transpose, me, slot) +
                                   spectrum_first(transpose->n, transpose->ranks, to) * POINT,
            .source_layout = from_layout,
            .target = transpose->handles[to],
            .target_offset_bytes = matrix_at(transpose, to, slot == THERE ? BACK : THERE) +
                                   spectrum_first(transpose->n, transpose->ranks, me) * POINT,
            .target_layout = to_layout,
        };

        r = tca_plan_put(plan, &put);
    }
    if (r >= 0)
        r = tca_plan_notify(plan, to, (uint32_t)slot);
    tca_layout_free(from_layout);
    tca_layout_free(to_layout);
    return r;
}

/* The rank after this one first, this one last: nobody is everybody's first. */
static int add_blocks(struct transpose *transpose, int slot)
{
    int r = 0;

    for (uint32_t step = 1; step <= transpose->ranks && r >= 0; step++) {
        if (step > 1)
            r = tca_plan_chain(transpose->plans[slot]);
        if (r >= 0)
            r = add_block(transpose, slot, (transpose->me + step) % transpose->ranks);
    }
    return r;
}

static int add_collection(struct transpose *transpose)
{
    uint64_t row = transpose->n * POINT;
    struct tca_put put = {
        .source = transpose->region,
        .target = transpose->handles[0],
        .target_offset_bytes = whole_at(transpose) +
                               spectrum_first(transpose->n, transpose->ranks, transpose->me) * row,
        .bytes = matrix_bytes(transpose, transpose->me),
    };
    int r = tca_plan_put(transpose->plans[COLLECT], &put);

    return r < 0 ? r : tca_plan_notify(transpose->plans[COLLECT], 0, COLLECT);
}

static int make_plans(struct transpose *transpose)
{
    static const char *const names[] = {"transpose", "transpose back", "collect"};
    int r = 0;

    for (int slot = 0; slot < SLOTS && r >= 0; slot++) {
        struct tca_plan_args args = {.name = names[slot]};

        r = tca_plan_new(transpose->session, &args, &transpose->plans[slot]);
        if (r >= 0)
            r = slot == COLLECT ? add_collection(transpose) : add_blocks(transpose, slot);
        if (r >= 0)
            r = tca_plan_commit(transpose->plans[slot], TCA_DEFAULT);
    }
    return r;
}

static int open_region(struct transpose *transpose)
{
    struct tca_handle own;
    int r = tca_region_alloc(transpose->session, region_bytes(transpose), &transpose->region);

    if (r >= 0)
        r = tca_region_handle(transpose->region, 0, TCA_ALL, &own);
    if (r >= 0)
        r = tca_allgather(transpose->session, &own, sizeof(own), transpose->handles, PATIENCE_NS);
    return r;
}

int transpose_new(struct tca *session, uint64_t n, struct transpose **ret_transpose)
{
    struct transpose *transpose = calloc(1, sizeof(*transpose));
    struct tca_handle *handles = calloc(tca_size(session), sizeof(*handles));
    int r;

    if (!transpose || !handles) {
        fputs("fft2d: no memory\n", stderr);
        free(transpose);
        free(handles);
        return -1;
    }
    *transpose = (struct transpose){.session = session,
                                    .n = n,
                                    .me = tca_rank(session),
                                    .ranks = tca_size(session),
                                    .handles = handles};
    r = open_region(transpose);
    if (r >= 0)
        r = make_plans(transpose);
    if (r < 0) {
        fprintf(stderr, "fft2d: rank %u: %s (%s)\n", transpose->me, tca_error_text(),
                tca_strerror(r));
        transpose_free(transpose);
        return r;
    }
    *ret_transpose = transpose;
    return 0;
}

void transpose_free(struct transpose *transpose)
{
    if (!transpose)
        return;
    for (int slot = 0; slot < SLOTS; slot++)
        tca_plan_free(transpose->plans[slot]);
    tca_region_free(transpose->region);
    free(transpose->handles);
    free(transpose);
}

double complex *transpose_field(struct transpose *transpose)
{
    return tca_region_address(transpose->region);
}

double complex *transpose_turned(struct transpose *transpose)
{
    return transpose_field(transpose) + rows_of(transpose, transpose->me) * transpose->n;
}

double complex *transpose_whole(struct transpose *transpose)
{
    return transpose_field(transpose) + whole_at(transpose) / POINT;
}

/* ---- running them */

static int failed(const struct transpose *transpose, const char *what, int r)
{
    if (r < 0)
        fprintf(stderr, "fft2d: rank %u: %s: %s (%s)\n", transpose->me, what, tca_error_text(),
                tca_strerror(r));
    return r;
}

/*
 * All parts have come, the own one, too: that the start is complete says only that its source may
 * be written again. What is then put into a matrix here overwrites only what its sender has already
 * got.
 */
static int turn(struct transpose *transpose, int slot)
{
    int r = tca_start(transpose->plans[slot]);

    for (uint32_t rank = 0; rank < transpose->ranks && r >= 0; rank++)
        r = tca_notified_wait(transpose->session, rank, (uint32_t)slot, PATIENCE_NS);
    if (r >= 0)
        r = tca_wait(transpose->plans[slot], PATIENCE_NS);
    return failed(transpose, "transposing", r);
}

int transpose_there(struct transpose *transpose)
{
    return turn(transpose, THERE);
}

int transpose_back(struct transpose *transpose)
{
    return turn(transpose, BACK);
}

int transpose_collect(struct transpose *transpose)
{
    int r = tca_start(transpose->plans[COLLECT]);

    for (uint32_t rank = 0; rank < transpose->ranks && transpose->me == 0 && r >= 0; rank++)
        r = tca_notified_wait(transpose->session, rank, COLLECT, PATIENCE_NS);
    if (r >= 0)
        r = tca_wait(transpose->plans[COLLECT], PATIENCE_NS);
    return failed(transpose, "collecting", r);
}

int transpose_receipt(const struct transpose *transpose, struct tca_receipt *ret_receipt)
{
    return tca_plan_receipt(transpose->plans[BACK], ret_receipt);
}
