/*
 * halo: the exchange of halos by tca-halo.h. In every sweep a rank computes the shell of its part,
 * starts the exchange, computes the inner rows, which read no halo, and waits. p has two buffers
 * that alternate, so that a neighbour may still read one while the other is filled.
 */
#pragma once

#include "grid.h"
#include "tca.h"

#define FACES_MAX 8

/* For the table; plain data that goes through tca_allgather(). Times of one start, medians over
 * all. */
struct face_report {
    char name[8];  /* "i-", "j+", "i-j+" */
    uint32_t kind; /* enum tca_halo_kind */
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
 * into it), fills them, and commits the plans. prefer: a rail, or NULL. room_for: starts that will
 * be timed, for each face. On failure says why on stderr and returns the negative errno.
 */
int halo_new(struct tca *session, struct grid *grid, const char *prefer, uint64_t room_for,
             struct halo **ret_halo);
struct halo *halo_free(struct halo *halo);

/* Forgets the times so far. */
void halo_reset_times(struct halo *halo);

/* Start and wait for the exchange of what a sweep has written: p[1] first, then alternately. */
int halo_start(struct halo *halo);
int halo_wait(struct halo *halo);

/* Collective. The sums of all rows of the domain at rank 0, which must give the memory; others give
 * NULL. */
int halo_gather_rows(struct halo *halo, float *ret_all_rows);

uint32_t halo_faces(const struct halo *halo);
void halo_report(struct halo *halo, uint32_t face, struct face_report *ret_report);
