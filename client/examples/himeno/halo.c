#include "halo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "times.h"

/* How long a neighbour may take for a sweep before this rank gives up. */
#define PATIENCE_NS INT64_C(60000000000)
#define DIRECTIONS  9                /* the middle is none */
#define SLOT_ROWS   (2 * DIRECTIONS) /* those below: slot_of() */

struct face {
    char name[8];
    int di, dj; /* direction, -1 .. 1 each */
    uint32_t peer;
    uint64_t bytes;
    bool strided;
    struct tca_plan *plan[2]; /* by the buffer it writes */
    uint64_t *took_ns;        /* [room_for] */
    uint64_t *waited_ns;
    uint64_t times;
};

struct halo {
    struct tca *session;
    struct grid *grid;
    struct tca_region *region;
    struct tca_handle *handles; /* of every rank's region */
    struct tca_plan *rows_plan;
    uint64_t room_for;
    int face_count;
    struct face faces[FACES_MAX];
};

static int failed(const struct halo *halo, const char *what, int error)
{
    fprintf(stderr, "himeno: rank %u: %s: %s (%s)\n", tca_rank(halo->session), what,
            tca_error_text(), tca_strerror(error));
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

/* ---- plans */

/* The rows of a face in a part: from the given row on, count_i x count_j of them (one of the two is
 * 1, or both). */
static int face_layout(const struct grid *grid, int count_i, int count_j,
                       struct tca_layout **ret_layout)
{
    uint64_t run = (uint64_t)grid->size->kmax * sizeof(float);

    if (count_i == 1)
        return tca_layout_contiguous((uint64_t)count_j * run, ret_layout);
    return tca_layout_strided((uint64_t)count_i, run, (int64_t)((uint64_t)(grid->jl + 2) * run),
                              ret_layout);
}

static int put_and_notify(struct halo *halo, const char *name, const struct tca_put *put,
                          uint32_t peer, uint32_t slot, struct tca_plan **ret_plan)
{
    struct tca_plan_args args = {.name = name, .flags = TCA_PLAN_TIMED};
    struct tca_plan *plan = NULL;
    int r = tca_plan_new(halo->session, &args, &plan);

    if (r >= 0)
        r = tca_plan_put(plan, put);
    if (r >= 0)
        r = tca_plan_notify(plan, peer, slot);
    if (r >= 0)
        r = tca_plan_commit(plan, TCA_DEFAULT);
    if (r < 0) {
        failed(halo, name, r);
        tca_plan_free(plan);
        return r;
    }
    *ret_plan = plan;
    return 0;
}

/* The first row that is sent in direction d of `rows` inside, and the one where the neighbour keeps
 * it. */
static int row_sent(int d, int rows)
{
    return d > 0 ? rows : 1;
}

static int row_kept(int d, int rows)
{
    return d > 0 ? 0 : d < 0 ? rows + 1 : 1;
}

/* Of what goes in a direction, the same number at every rank. A neighbour may be a sweep ahead:
 * each buffer has slots of its own, for notifications in one slot cannot be told apart. */
static uint32_t slot_of(int di, int dj, int buffer)
{
    return (uint32_t)(buffer * DIRECTIONS + (di + 1) * 3 + (dj + 1));
}

static int face_plan(struct halo *halo, struct face *face, int buffer, const struct grid *theirs)
{
    const struct grid *grid = halo->grid;
    int count_i = face->di ? 1 : grid->il;
    int count_j = face->dj ? 1 : grid->jl;
    struct tca_layout *from = NULL;
    struct tca_layout *to = NULL;
    int r = face_layout(grid, count_i, count_j, &from);

    if (r >= 0)
        r = face_layout(theirs, count_i, count_j, &to);
    if (r >= 0) {
        size_t sent = grid_row(grid, row_sent(face->di, grid->il), row_sent(face->dj, grid->jl));
        size_t kept =
            grid_row(theirs, row_kept(face->di, theirs->il), row_kept(face->dj, theirs->jl));
        struct tca_put put = {
            .source = halo->region,
            .source_offset_bytes = p_offset(grid, buffer) + sent * sizeof(float),
            .source_layout = from,
            .target = halo->handles[face->peer],
            .target_offset_bytes = p_offset(theirs, buffer) + kept * sizeof(float),
            .target_layout = to,
        };

        face->bytes = tca_layout_size(from);
        r = put_and_notify(halo, face->name, &put, face->peer, slot_of(face->di, face->dj, buffer),
                           &face->plan[buffer]);
    } else {
        failed(halo, face->name, r);
    }
    tca_layout_free(from);
    tca_layout_free(to);
    return r;
}

static int face_new(struct halo *halo, int di, int dj)
{
    static const char sign[] = "-?+";
    const struct grid *grid = halo->grid;
    struct face *face = &halo->faces[halo->face_count++];
    struct grid theirs;
    char *name = face->name;

    face->di = di;
    face->dj = dj;
    face->peer = (uint32_t)((grid->at_i + di) * grid->parts_j + grid->at_j + dj);
    face->strided = di == 0;
    if (di) {
        *name++ = 'i';
        *name++ = sign[di + 1];
    }
    if (dj) {
        *name++ = 'j';
        *name++ = sign[dj + 1];
    }
    face->took_ns = calloc(halo->room_for, sizeof(*face->took_ns));
    face->waited_ns = calloc(halo->room_for, sizeof(*face->waited_ns));
    if (!face->took_ns || !face->waited_ns) {
        fprintf(stderr, "himeno: no memory to keep %llu times\n",
                (unsigned long long)halo->room_for);
        return -ENOMEM;
    }
    int r = grid_place(grid->size, grid->parts_i, grid->parts_j, (int)face->peer, &theirs);
    for (int buffer = 0; r >= 0 && buffer < 2; buffer++)
        r = face_plan(halo, face, buffer, &theirs);
    return r;
}

static int faces_new(struct halo *halo)
{
    const struct grid *grid = halo->grid;

    for (int di = -1; di <= 1; di++)
        for (int dj = -1; dj <= 1; dj++) {
            int i = grid->at_i + di;
            int j = grid->at_j + dj;

            if ((!di && !dj) || i < 0 || i >= grid->parts_i || j < 0 || j >= grid->parts_j)
                continue;
            int r = face_new(halo, di, dj);
            if (r < 0)
                return r;
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
        .target = halo->handles[0],
        .target_offset_bytes = all_rows_offset(&root) + (uint64_t)(grid->i0 - 1) * stride +
                               (uint64_t)(grid->j0 - 1) * sizeof(float),
        .target_layout = to,
    };
    r = put_and_notify(halo, "rows", &put, 0, SLOT_ROWS, &halo->rows_plan);
    tca_layout_free(to);
    return r;
}

static int region_new(struct halo *halo)
{
    struct grid *grid = halo->grid;
    uint64_t bytes =
        all_rows_offset(grid) + (tca_rank(halo->session) == 0 ? all_rows_bytes(grid) : 0);
    struct tca_handle handle;
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
    r = tca_allgather(halo->session, &handle, sizeof(handle), halo->handles, TCA_DEFAULT);
    return r < 0 ? failed(halo, "exchange of handles", r) : 0;
}

int halo_new(struct tca *session, struct grid *grid, uint64_t room_for, struct halo **ret_halo)
{
    struct halo *halo = calloc(1, sizeof(*halo));
    int r = -ENOMEM;

    if (!halo)
        return r;
    halo->session = session;
    halo->grid = grid;
    halo->room_for = room_for;
    halo->handles = calloc(tca_size(session), sizeof(*halo->handles));
    if (halo->handles)
        r = region_new(halo);
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
    for (int f = 0; f < halo->face_count; f++) {
        tca_plan_free(halo->faces[f].plan[0]);
        tca_plan_free(halo->faces[f].plan[1]);
        free(halo->faces[f].took_ns);
        free(halo->faces[f].waited_ns);
    }
    tca_plan_free(halo->rows_plan);
    tca_region_free(halo->region);
    free(halo->handles);
    free(halo);
    return NULL;
}

/* ---- every sweep */

void halo_reset_times(struct halo *halo)
{
    for (int f = 0; f < halo->face_count; f++)
        halo->faces[f].times = 0;
}

int halo_start(struct halo *halo, int to)
{
    for (int f = 0; f < halo->face_count; f++) {
        int r = tca_start(halo->faces[f].plan[to]);

        if (r < 0)
            return failed(halo, halo->faces[f].name, r);
    }
    return 0;
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

int halo_wait(struct halo *halo, int to)
{
    for (int f = 0; f < halo->face_count; f++) {
        struct face *face = &halo->faces[f];
        struct tca_receipt receipt;
        int r = tca_wait(face->plan[to], PATIENCE_NS);

        if (r >= 0)
            r = tca_plan_receipt(face->plan[to], &receipt);
        if (r < 0)
            return failed(halo, face->name, r);
        uint64_t before_ns = now_ns();
        r = tca_notified_wait(halo->session, face->peer, slot_of(-face->di, -face->dj, to),
                              PATIENCE_NS);
        if (r < 0)
            return failed(halo, face->name, r);
        keep_times(halo, face, &receipt, now_ns() - before_ns);
    }
    return 0;
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

int halo_faces(const struct halo *halo)
{
    return halo->face_count;
}

void halo_report(struct halo *halo, int index, struct face_report *ret_report)
{
    struct face *face = &halo->faces[index];
    struct face_report report = {
        .strided = face->strided,
        .peer = face->peer,
        .node = tca_node_of(halo->session, face->peer),
        .bytes = face->bytes,
    };

    memcpy(report.name, face->name, sizeof(report.name));
    for (int buffer = 0; buffer < 2; buffer++) {
        struct tca_receipt receipt;

        if (tca_plan_receipt(face->plan[buffer], &receipt) < 0)
            continue; /* of one sweep only the first buffer's plan was started */
        report.rail = receipt.rail;
        report.seat = receipt.seat;
        report.starts += receipt.starts;
    }
    median_and_p99(face->took_ns, face->times, &report.median_ns, &report.p99_ns);
    median_and_p99(face->waited_ns, face->times, &report.wait_median_ns, &report.wait_p99_ns);
    *ret_report = report;
}
