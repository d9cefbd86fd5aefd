#include "halo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tca-halo.h"
#include "times.h"

/* How long a neighbour may take for a sweep before this rank gives up. */
#define PATIENCE_NS INT64_C(60000000000)
#define SLOT_ROWS   0

/* Times of one face, [room_for] each. */
struct face {
    uint64_t *took_ns;
    uint64_t *waited_ns;
    uint64_t times;
};

struct halo {
    struct tca *session;
    struct grid *grid;
    struct tca_region *region;
    struct tca_halo *exchange;
    struct tca_handle root; /* of rank 0's region */
    struct tca_plan *rows_plan;
    uint64_t room_for;
    uint64_t starts;
    uint32_t face_count;
    struct face faces[FACES_MAX];
};

static int failed(const struct halo *halo, const char *what, int error)
{
    fprintf(stderr, "himeno: rank %u: %s: %s\n", tca_rank(halo->session), what, tca_error_text());
    return error;
}

/* ---- where things are in a region: p[0], p[1], the part's rows, and at rank 0 the rows of the
 * whole domain */

static uint64_t p_offset(const struct grid *grid, int buffer)
{
    return (uint64_t)buffer * grid_points(grid) * sizeof(float);
}

static uint64_t rows_offset(const struct grid *grid)
{
    return p_offset(grid, 2);
}

static uint64_t all_rows_offset(const struct grid *grid)
{
    return rows_offset(grid) + (uint64_t)grid->il * (uint64_t)grid->jl * sizeof(float);
}

static uint64_t all_rows_bytes(const struct grid *grid)
{
    return (uint64_t)(grid->size->imax - 2) * (uint64_t)(grid->size->jmax - 2) * sizeof(float);
}

/* ---- all that is made once */

/* The first sweep writes p[1]. */
static int exchange_new(struct halo *halo, const char *prefer)
{
    const struct grid *grid = halo->grid;
    const struct tca_halo_array p = {
        .memory = {grid->p[1], grid->p[0]},
        .element_bytes = sizeof(float),
        .extents = {(uint64_t)grid->il, (uint64_t)grid->jl, (uint64_t)grid->size->kmax},
        .low = {1, 1},
        .high = {1, 1},
    };
    const struct tca_halo_args args = {
        .dimensions = 3,
        .grid = {(uint32_t)grid->parts_i, (uint32_t)grid->parts_j, 1},
        .diagonals = 2, /* the stencil reads p[i +- 1][j +- 1] too */
        .arrays = &p,
        .array_count = 1,
        .plan = {.flags = TCA_PLAN_TIMED | (prefer ? TCA_PLAN_PREFER : 0), .rail_name = prefer},
    };
    int r = tca_halo_new(halo->session, &args, &halo->exchange);

    return r < 0 ? failed(halo, "exchange of halos", r) : 0;
}

static int faces_new(struct halo *halo)
{
    halo->face_count = tca_halo_faces(halo->exchange);
    for (uint32_t f = 0; f < halo->face_count; f++) {
        struct face *face = &halo->faces[f];

        face->took_ns = calloc(halo->room_for, sizeof(*face->took_ns));
        face->waited_ns = calloc(halo->room_for, sizeof(*face->waited_ns));
        if (!face->took_ns || !face->waited_ns) {
            fprintf(stderr, "himeno: no memory to keep %llu times\n",
                    (unsigned long long)halo->room_for);
            return -ENOMEM;
        }
    }
    return 0;
}

/* Every rank's rows into their places in rank 0's table of all rows: il blocks of jl sums. */
static int rows_plan_new(struct halo *halo)
{
    const struct grid *grid = halo->grid;
    uint64_t block = (uint64_t)grid->jl * sizeof(float);
    uint64_t stride = (uint64_t)(grid->size->jmax - 2) * sizeof(float);
    struct tca_layout *to = NULL;
    struct grid root;
    int r = grid_place(grid->size, grid->parts_i, grid->parts_j, 0, &root);

    if (r >= 0)
        r = tca_layout_strided((uint64_t)grid->il, block, (int64_t)stride, &to);
    if (r < 0)
        return failed(halo, "rows", r);
    struct tca_put put = {
        .source = halo->region,
        .source_offset_bytes = rows_offset(grid),
        .target = halo->root,
        .target_offset_bytes = all_rows_offset(&root) + (uint64_t)(grid->i0 - 1) * stride +
                               (uint64_t)(grid->j0 - 1) * sizeof(float),
        .target_layout = to,
    };
    r = tca_plan_new(halo->session, &(struct tca_plan_args){.name = "rows"}, &halo->rows_plan);
    if (r >= 0)
        r = tca_plan_put(halo->rows_plan, &put);
    if (r >= 0)
        r = tca_plan_notify(halo->rows_plan, 0, SLOT_ROWS);
    if (r >= 0)
        r = tca_plan_commit(halo->rows_plan, TCA_DEFAULT);
    tca_layout_free(to);
    return r < 0 ? failed(halo, "rows", r) : 0;
}

static int region_new(struct halo *halo)
{
    struct grid *grid = halo->grid;
    uint64_t bytes =
        all_rows_offset(grid) + (tca_rank(halo->session) == 0 ? all_rows_bytes(grid) : 0);
    struct tca_handle handle, *all;
    int r = tca_region_alloc(halo->session, bytes, &halo->region);

    if (r < 0)
        return failed(halo, "region", r);
    char *base = tca_region_address(halo->region);
    grid->p[0] = (float *)(void *)(base + p_offset(grid, 0));
    grid->p[1] = (float *)(void *)(base + p_offset(grid, 1));
    grid->rows = (float *)(void *)(base + rows_offset(grid));
    grid_reset(grid); /* before anybody can have the handle */
    r = tca_region_handle(halo->region, 0, TCA_ALL, &handle);
    if (r < 0)
        return failed(halo, "handle", r);
    if (!(all = calloc(tca_size(halo->session), sizeof(*all))))
        return -ENOMEM;
    r = tca_allgather(halo->session, &handle, sizeof(handle), all, TCA_DEFAULT);
    halo->root = all[0];
    free(all);
    return r < 0 ? failed(halo, "exchange of handles", r) : 0;
}

int halo_new(struct tca *session, struct grid *grid, const char *prefer, uint64_t room_for,
             struct halo **ret_halo)
{
    struct halo *halo = calloc(1, sizeof(*halo));

    if (!halo)
        return -ENOMEM;
    halo->session = session;
    halo->grid = grid;
    halo->room_for = room_for;
    int r = region_new(halo);
    if (r >= 0)
        r = exchange_new(halo, prefer);
    if (r >= 0)
        r = faces_new(halo);
    if (r >= 0)
        r = rows_plan_new(halo);
    if (r < 0) {
        halo_free(halo);
        return r;
    }
    *ret_halo = halo;
    return 0;
}

struct halo *halo_free(struct halo *halo)
{
    if (!halo)
        return NULL;
    for (uint32_t f = 0; f < halo->face_count; f++) {
        free(halo->faces[f].took_ns);
        free(halo->faces[f].waited_ns);
    }
    tca_halo_free(halo->exchange);
    tca_plan_free(halo->rows_plan);
    tca_region_free(halo->region);
    free(halo);
    return NULL;
}

/* ---- every sweep */

void halo_reset_times(struct halo *halo)
{
    halo->starts = 0;
    for (uint32_t f = 0; f < halo->face_count; f++)
        halo->faces[f].times = 0;
}

int halo_start(struct halo *halo)
{
    int r = tca_halo_start(halo->exchange);

    halo->starts++;
    return r < 0 ? failed(halo, "start", r) : 0;
}

static void keep_times(struct halo *halo, struct face *face, const struct tca_receipt *receipt,
                       uint64_t waited_ns)
{
    if (face->times == halo->room_for)
        return;
    face->took_ns[face->times] = receipt->done_ns - receipt->start_ns;
    face->waited_ns[face->times] = waited_ns;
    face->times++;
}

int halo_wait(struct halo *halo)
{
    uint64_t waited_ns[FACES_MAX];
    struct tca_receipt receipt;
    int r = 0;

    for (uint32_t f = 0; r >= 0 && f < halo->face_count; f++) {
        uint64_t before_ns = now_ns();

        r = tca_halo_wait_face(halo->exchange, f, PATIENCE_NS);
        waited_ns[f] = now_ns() - before_ns;
    }
    if (r >= 0)
        r = tca_halo_wait(halo->exchange, PATIENCE_NS);
    for (uint32_t f = 0; r >= 0 && f < halo->face_count; f++) {
        r = tca_halo_receipt(halo->exchange, f, &receipt);
        if (r >= 0)
            keep_times(halo, &halo->faces[f], &receipt, waited_ns[f]);
    }
    return r < 0 ? failed(halo, "wait", r) : 0;
}

/* ---- at the end */

int halo_gather_rows(struct halo *halo, float *ret_all_rows)
{
    int r = tca_start(halo->rows_plan);

    if (r >= 0)
        r = tca_wait(halo->rows_plan, PATIENCE_NS);
    if (ret_all_rows) {
        for (uint32_t rank = 0; r >= 0 && rank < tca_size(halo->session); rank++)
            r = tca_notified_wait(halo->session, rank, SLOT_ROWS, PATIENCE_NS);
        if (r >= 0)
            memcpy(ret_all_rows,
                   (char *)tca_region_address(halo->region) + all_rows_offset(halo->grid),
                   all_rows_bytes(halo->grid));
    }
    return r < 0 ? failed(halo, "gathering the rows", r) : 0;
}

uint32_t halo_faces(const struct halo *halo)
{
    return halo->face_count;
}

static void name_face(const struct tca_halo_face *face, char *ret_name)
{
    for (int d = 0; d < 2; d++)
        if (face->direction[d]) {
            *ret_name++ = "ij"[d];
            *ret_name++ = face->direction[d] < 0 ? '-' : '+';
        }
    *ret_name = 0;
}

void halo_report(struct halo *halo, uint32_t index, struct face_report *ret_report)
{
    struct face *times = &halo->faces[index];
    struct face_report report = {.starts = halo->starts};
    struct tca_halo_face face;
    struct tca_receipt receipt;

    if (tca_halo_face(halo->exchange, index, &face) < 0 ||
        tca_halo_receipt(halo->exchange, index, &receipt) < 0)
        return;
    name_face(&face, report.name);
    report.kind = face.kind;
    report.peer = face.rank;
    report.node = tca_node_of(halo->session, face.rank);
    report.bytes = face.sent_bytes;
    report.rail = receipt.rail;
    report.seat = receipt.seat;
    median_and_p99(times->took_ns, times->times, &report.median_ns, &report.p99_ns);
    median_and_p99(times->waited_ns, times->times, &report.wait_median_ns, &report.wait_p99_ns);
    *ret_report = report;
}
