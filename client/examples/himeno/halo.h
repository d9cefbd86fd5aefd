/*
 * halo: one persistent plan per halo face and buffer, committed once, started in every second
 * sweep.
 *
 * No halo is overwritten while it is read, although no message confirms that. In sweep n every rank
 *   1. computes the shell: reads p[n % 2] and its halo, writes p[(n + 1) % 2];
 *   2. starts its faces: puts the new shell into the neighbours' halos of p[(n + 1) % 2], with a
 * notification;
 *   3. computes the inner rows, which read no halo, while the faces travel;
 *   4. waits for its own plans, then for the notification of every neighbour.
 * The put of sweep n writes the halo of p[(n + 1) % 2] at the neighbour, who read that halo last in
 * step 1 of sweep n - 1, before its step 2 of sweep n - 1, whose notification the sender took in
 * step 4 of sweep n - 1. So it is free. The halo that the neighbour may be reading now, in its step
 * 1 of sweep n, is that of p[n % 2], which nobody writes before sweep n + 1. The notification of
 * one sweep is the credit of the next, because there are two buffers.
 *
 * The stencil reads p[i +- 1][j +- 1] too, so a split in both directions has edges: one run of kmax
 * points to each diagonal neighbour, faces like the others.
 */
#pragma once

#include "grid.h"
#include "tca.h"

#define FACES_MAX 8

/* For the table; plain data that goes through tca_allgather(). Times of one start, medians over
 * all. */
struct face_report {
    char name[8]; /* "i-", "j+", "i-j+" */
    uint32_t strided;
    uint32_t peer;
    int32_t node; /* of the peer */
    uint32_t rail, seat;
    uint64_t bytes;
    uint64_t starts;
    uint64_t median_ns, p99_ns; /* from tca_start() to the end of the transfer, by the receipts */
    uint64_t wait_median_ns,
        wait_p99_ns; /* that this rank stood waiting for the neighbour's notification */
};

struct halo;

/*
 * Collective. Puts both buffers of p and the rows into one region (grid->p and grid->rows point
 * into it), fills them, and commits the plans. room_for: starts that will be timed, for each face.
 * On failure says why on stderr and returns the negative errno.
 */
int halo_new(struct tca *session, struct grid *grid, uint64_t room_for, struct halo **ret_halo);
struct halo *halo_free(struct halo *halo);

/* Forgets the times so far. */
void halo_reset_times(struct halo *halo);

/* Steps 2 and 4 of a sweep whose new values are in p[to]. */
int halo_start(struct halo *halo, int to);
int halo_wait(struct halo *halo, int to);

/* Collective. The sums of all rows of the domain at rank 0, which must give the memory; others give
 * NULL. */
int halo_gather_rows(struct halo *halo, float *ret_all_rows);

int halo_faces(const struct halo *halo);
void halo_report(struct halo *halo, int face, struct face_report *ret_report);
