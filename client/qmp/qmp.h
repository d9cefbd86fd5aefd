/* The grid of tca-qmp.h: what the files of this room share. */
#pragma once

#include <stdint.h>

#include "client/include/tca-coll.h"
#include "client/include/tca-group.h"
#include "client/include/tca-qmp.h"

enum {
    QMP_VALUES = 64,   /* doubles that are reduced at a time */
    QMP_BYTES = 16384, /* that are broadcast at a time */
    QMP_DISPLACEMENT = 63,
};

struct tca_qmp {
    struct tca *session;
    struct tca_msg *msg;
    uint32_t size, rank; /* of the group */
    uint32_t dimensions;
    uint32_t extents[TCA_QMP_DIMENSIONS]; /* 1 beyond `dimensions` */
    uint32_t coords[TCA_QMP_DIMENSIONS];  /* of this rank */
    uint32_t *ranks;                      /* [size] by position, in row-major order */
    uint32_t *positions;                  /* [size] by rank */
    double *own, *all;                    /* [QMP_VALUES] and [size][QMP_VALUES] */
    uint8_t *data;                        /* [QMP_BYTES] */
    struct tca_coll *gather, *broadcast, *barrier;
};
