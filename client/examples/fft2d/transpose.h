/*
 * transpose: a matrix whose rows are spread over ranks becomes its transpose, spread in the same
 * way: by plans that put the block for each rank straight into its place there, turned round by the
 * two layouts. Nobody packs.
 */
#pragma once

#include <complex.h>
#include <tca.h>

struct transpose;

/* Collective. On failure says why on stderr. */
int transpose_new(struct tca *session, uint64_t n, struct transpose **ret_transpose);
void transpose_free(struct transpose *transpose);

/* The two matrices, rows * n each, in memory that the others put into; and the memory for all n *
 * n, at rank 0. */
double complex *transpose_field(struct transpose *transpose);
double complex *transpose_turned(struct transpose *transpose);
double complex *transpose_whole(struct transpose *transpose);

/*
 * The field into `turned`, or back. When it returns the rows here are complete, and what was put
 * from here may be written again. Collective.
 */
int transpose_there(struct transpose *transpose);
int transpose_back(struct transpose *transpose);

/* The field of all ranks comes together at rank 0. Collective. */
int transpose_collect(struct transpose *transpose);

/* What the last transposition did, of the part for another rank. */
int transpose_receipt(const struct transpose *transpose, struct tca_receipt *ret_receipt);
