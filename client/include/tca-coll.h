/*
 * tca-coll.h: collective operations of a group, planned once and started many times. Built on the
 * plans of tca.h. Results, errors, times and threads: as in tca.h.
 */
#ifndef TCA_COLL_H
#define TCA_COLL_H

#include "tca.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an operation is carried out. Each suits some operations only. */
enum tca_coll_algorithm {
    TCA_COLL_ANY = 0,          /* the one with the lowest predicted cost */
    TCA_COLL_DIRECT = 1,       /* every rank sends to every rank that needs its data */
    TCA_COLL_BINOMIAL = 2,     /* along a binomial tree */
    TCA_COLL_CHAIN = 3,        /* from rank to rank, in segments */
    TCA_COLL_TRINARY = 4,      /* three thirds, each in segments along a ternary tree of its own */
    TCA_COLL_RING = 5,         /* blocks go around a ring */
    TCA_COLL_DOUBLING = 6,     /* in rounds, with the rank at a distance of 1, 2, 4, ... */
    TCA_COLL_HIERARCHICAL = 7, /* inside each node, and between one rank of each node */
};

#ifdef __cplusplus
}
#endif

#endif
