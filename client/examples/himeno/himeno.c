/*
 * The Himeno benchmark with the halo exchange of tca-halo.h. One process (split 1x1x1, the default)
 * needs no tcad and is the reference for the others. Split over ranks, it runs under tca-cluster
 * run, mpirun or srun:
 *
 *     himeno --size S --iterations 100
 *     tca-cluster run -n 4 -- himeno --size S --split 2x2x1 --iterations 100
 *
 * grid.c computes, halo.c communicates, options.c reads the command line; this file is the loop.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grid.h"
#include "halo.h"
#include "options.h"
#include "report.h"
#include "tca.h"
#include "times.h"

#define REHEARSAL      3          /* sweeps, as published */
#define PROGRESS_EVERY 500000000u /* ns */

struct run {
    const struct options *options;
    struct tca *session; /* NULL: alone */
    struct halo *halo;   /* NULL: alone */
    struct grid grid;
    int from; /* the p that the next sweep reads */
    uint64_t sweeps;
    uint64_t took_ns, halo_ns;
    uint64_t progress_at_ns;
};

/* ---- one process alone: plain memory */

static int alone_new(struct run *run)
{
    size_t points = grid_points(&run->grid);

    /* an odd number of cache lines apart, see coefficient_points() */
    float *memory =
        calloc(2 * points + 48 + (size_t)run->grid.il * (size_t)run->grid.jl, sizeof(*memory));

    if (!memory)
        return -ENOMEM;
    run->grid.p[0] = memory;
    run->grid.p[1] = memory + points + 48;
    run->grid.rows = memory + 2 * points + 48;
    grid_reset(&run->grid);
    return 0;
}

/* ---- sweeps */

static void show_progress(struct run *run, uint64_t done, uint64_t since_ns)
{
    uint64_t now = now_ns();

    if (!run->options->progress || (run->session && tca_rank(run->session) != 0))
        return;
    if (done < run->sweeps && now < run->progress_at_ns)
        return;
    run->progress_at_ns = now + PROGRESS_EVERY;
    double mflops = grid_flops(run->options->size) * (double)done / (double)(now - since_ns) * 1e3;
    fprintf(stderr, "himeno: %llu of %llu sweeps, %.0f MFLOPS\n", (unsigned long long)done,
            (unsigned long long)run->sweeps, mflops);
}

static int sweep(struct run *run)
{
    uint64_t start_ns;
    int from = run->from;
    int r = 0;

    run->from = 1 - from;
    grid_sweep_shell(&run->grid, from);
    if (run->halo) {
        start_ns = now_ns();
        r = halo_start(run->halo);
        run->halo_ns += now_ns() - start_ns;
    }
    if (r < 0)
        return r;
    grid_sweep_inner(&run->grid, from);
    if (run->halo) {
        start_ns = now_ns();
        r = halo_wait(run->halo);
        run->halo_ns += now_ns() - start_ns;
    }
    return r;
}

static int barrier(struct run *run)
{
    int r = run->session ? tca_barrier(run->session, TCA_DEFAULT) : 0;

    if (r < 0)
        fprintf(stderr, "himeno: barrier: %s\n", tca_error_text());
    return r;
}

static int sweeps(struct run *run, uint64_t count, bool progress)
{
    int r = barrier(run);
    uint64_t start_ns = now_ns();

    run->progress_at_ns = start_ns + PROGRESS_EVERY;
    run->halo_ns = 0;
    for (uint64_t n = 0; r >= 0 && n < count; n++) {
        r = sweep(run);
        if (progress)
            show_progress(run, n + 1, start_ns);
    }
    run->took_ns = now_ns() - start_ns;
    return r;
}

/* As published: three sweeps say how many fill the time. Then everything starts from the initial
 * values again. */
static int rehearse(struct run *run)
{
    int r = sweeps(run, REHEARSAL, false);

    if (r < 0)
        return r;
    double count = run->options->seconds * 1e9 / ((double)run->took_ns / REHEARSAL);
    run->sweeps = count < 1 ? 1 : count > SWEEPS_MAX ? SWEEPS_MAX : (uint64_t)count;
    if (!run->session)
        return grid_reset(&run->grid), 0;

    uint64_t *all = calloc(tca_size(run->session), sizeof(*all));
    if (!all)
        return -ENOMEM;
    r = tca_allgather(run->session, &run->sweeps, sizeof(run->sweeps), all, TCA_DEFAULT);
    run->sweeps = all[0];
    free(all);
    if (r < 0) {
        fprintf(stderr, "himeno: agreeing on the number of sweeps: %s\n", tca_error_text());
        return r;
    }
    grid_reset(&run->grid); /* all ranks have ended their last sweep, and none goes on before the
                               next barrier */
    return 0;
}

/* ---- the result */

static int gather(struct run *run, float *all_rows, struct rank_report *ret_each)
{
    struct rank_report mine = {
        .seconds = (double)run->took_ns * 1e-9,
        .halo_seconds = (double)run->halo_ns * 1e-9,
    };
    int r;

    if (!run->session) {
        memcpy(all_rows, run->grid.rows,
               (size_t)run->grid.il * (size_t)run->grid.jl * sizeof(float));
        *ret_each = mine;
        return 0;
    }
    mine.face_count = halo_faces(run->halo);
    for (uint32_t f = 0; f < mine.face_count; f++)
        halo_report(run->halo, f, &mine.faces[f]);
    r = halo_gather_rows(run->halo, tca_rank(run->session) == 0 ? all_rows : NULL);
    if (r < 0)
        return r;
    r = tca_allgather(run->session, &mine, sizeof(mine), ret_each, TCA_DEFAULT);
    if (r < 0)
        fprintf(stderr, "himeno: gathering the reports: %s\n", tca_error_text());
    return r;
}

static int report(struct run *run)
{
    const struct grid_size *size = run->options->size;
    uint32_t ranks = run->session ? tca_size(run->session) : 1;
    float *all_rows =
        calloc((size_t)(size->imax - 2) * (size_t)(size->jmax - 2), sizeof(*all_rows));
    struct rank_report *each = calloc(ranks, sizeof(*each));
    int r = all_rows && each ? gather(run, all_rows, each) : -ENOMEM;

    if (r >= 0 && (!run->session || tca_rank(run->session) == 0)) {
        struct run_report report = {
            .size = size,
            .parts_i = run->grid.parts_i,
            .parts_j = run->grid.parts_j,
            .ranks = ranks,
            .sweeps = run->sweeps,
            .gosa = grid_gosa(size, all_rows),
            .each = each,
        };

        report_fill(&report);
        if (run->options->json)
            report_json(stdout, &report);
        else
            report_text(stdout, &report);
    }
    free(all_rows);
    free(each);
    return r;
}

/* ---- all of it */

static int open_session(const struct options *options, struct tca **ret_session)
{
    uint32_t wanted = (uint32_t)(options->parts_i * options->parts_j);
    struct tca *session = NULL;
    int r;

    if (wanted == 1)
        return 0;
    r = tca_open(NULL, &session);
    if (r < 0) {
        fprintf(stderr, "himeno: %s\n", tca_error_text());
        return r;
    }
    if (tca_size(session) != wanted) {
        fprintf(stderr, "himeno: --split %dx%dx1 needs %u ranks, this job has %u\n",
                options->parts_i, options->parts_j, wanted, tca_size(session));
        tca_close(session);
        return -EINVAL;
    }
    *ret_session = session;
    return 0;
}

static int run_all(struct run *run)
{
    const struct options *options = run->options;
    int part = run->session ? (int)tca_rank(run->session) : 0;
    int r = grid_place(options->size, options->parts_i, options->parts_j, part, &run->grid);

    if (r < 0) {
        fprintf(stderr, "himeno: --split %dx%dx1: size %s has only %d x %d inner rows\n",
                options->parts_i, options->parts_j, options->size->name, options->size->imax - 2,
                options->size->jmax - 2);
        return r;
    }
    run->sweeps = options->sweeps;
    r = grid_init(&run->grid);
    if (r >= 0)
        r = run->session ? halo_new(run->session, &run->grid, options->prefer,
                                    run->sweeps ? run->sweeps : SWEEPS_MAX / 100, &run->halo)
                         : alone_new(run);
    if (r >= 0 && run->sweeps == 0)
        r = rehearse(run);
    if (r >= 0 && run->halo)
        halo_reset_times(run->halo);
    if (r >= 0)
        r = sweeps(run, run->sweeps, true);
    if (r >= 0)
        r = report(run);
    if (r == -ENOMEM)
        fprintf(stderr, "himeno: no memory for size %s\n", options->size->name);
    if (!run->session)
        free(run->grid.p[0]);
    halo_free(run->halo);
    grid_deinit(&run->grid);
    return r;
}

int main(int argc, char **argv)
{
    struct options options;
    struct run run = {.options = &options};
    int r = options_parse(argc, argv, &options);

    if (r < 0)
        return 2;
    if (r > 0)
        return 0;
    r = open_session(&options, &run.session);
    if (r >= 0)
        r = run_all(&run);
    tca_close(run.session);
    return r < 0 ? 1 : 0;
}
