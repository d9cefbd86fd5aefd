/* A halo exchange from tca_halo_new() to tca_halo_free(). */
#pragma once

#include "client/core/agree.h"
#include "client/core/subgroup.h"
#include "client/core/wait.h"
#include "client/halo/links.h"

enum {
    HALO_BUFFERS = 2,
    /* All plans of an exchange run at the same time: no more than a session can have in flight. */
    HALO_NEIGHBOURS_MAX = 1000,
    HALO_QUIET = HALO_NEIGHBOURS_MAX, /* nothing goes to or from this rank: it has no plan */
};

/* A rank with which this one exchanges, in one or several directions. Each has a plan of its own:
 * plans are posted in the order in which they are started, and the end of one neighbour does not
 * affect the plans of others. */
struct halo_neighbour {
    uint32_t rank;
    bool arrived;                           /* its data of the current exchange */
    struct tca_plan *plans[HALO_BUFFERS];   /* what is sent to it, by buffer, and */
    struct session_slot data[HALO_BUFFERS]; /* where it notifies */
};

struct tca_halo {
    struct tca *session;
    struct tca_group *group; /* of the process grid; NULL: all ranks */
    struct halo_grid grid;
    uint32_t buffers;
    uint32_t slot;               /* where this rank is notified, and the one after it */
    bool shared;                 /* other ranks may notify these */
    struct tca_halo_face *faces; /* [face_count], in the order of halo_links() */
    uint32_t *neighbour_of;      /* [face_count]: index of the face's neighbour, or HALO_QUIET */
    uint32_t face_count;
    struct halo_neighbour *neighbours; /* [neighbour_count], in the order of their first faces */
    uint32_t neighbour_count;
    /* ---- the exchange */
    uint32_t buffer;  /* of the next start */
    uint32_t running; /* buffer of the last start */
    uint32_t missing; /* neighbours that have not arrived */
    bool open;        /* started, and not found complete */
    int failed;       /* a negative errno: permanent */
    char why[256];    /* its text */
};

/* An exchange is prepared in rounds. At the end of each, all ranks learn whether all have
 * succeeded. */
enum halo_round {
    HALO_MEET = 1, /* arguments and slots */
    HALO_AGREE,    /* the plans are made: from here on, starts may notify and put */
};

/* What ranks exchange about themselves, in the first round, and about each of their arrays: plain
 * data, for tca_allgather(). */
struct halo_head {
    struct agree_head head;
    /* the same at all ranks, but for the buffers: */
    struct halo_grid grid;
    uint32_t array_count;
    uint32_t buffers; /* 0: this rank's arrays are empty */
    uint32_t slot;
};
enum { HALO_SAME_BYTES = offsetof(struct halo_head, slot) };

struct halo_part {
    uint64_t element_bytes; /* the same at all ranks */
    struct halo_shape shape;
    struct tca_handle handles[HALO_BUFFERS];
};

/* What all ranks have told; only for tca_halo_new(). A rank reads what its neighbours have told,
 * unless something is wrong. */
struct halo_world {
    struct tca *session;
    uint32_t ranks, me;
    struct gathered heads;                  /* struct halo_head */
    struct gathered parts[TCA_HALO_ARRAYS]; /* struct halo_part */
};

static inline const struct halo_head *halo_head_of(const struct halo_world *world, uint32_t rank)
{
    return gathered_of(&world->heads, rank);
}

static inline const struct halo_part *halo_part_of(const struct halo_world *world, uint32_t array,
                                                   uint32_t rank)
{
    return gathered_of(&world->parts[array], rank);
}

/* ---- check.c: errors of arguments, with their texts */

int halo_check_args(const struct tca *session, const struct tca_halo_args *args);
/* The buffers of a rank's arrays; 0: all arrays are empty, and may have no memory. */
uint32_t halo_buffers(const struct tca_halo_args *args);
/* Whether the ranks' arguments fit together: the same result at all ranks. *ret_buffers: the number
 * of those that have arrays with elements, or 0. */
int halo_check_heads(const struct halo_world *world, uint32_t *ret_buffers);
/* Whether this rank's arrays fit those of its neighbours: of this the caller tells the others. */
int halo_check_parts(const struct halo_world *world, const struct tca_halo_args *args);

/* ---- build.c: faces, neighbours and plans, from what is known of all ranks. The caller tells the
 * other ranks of errors. */

int halo_build(struct tca_halo *halo, const struct halo_world *world,
               const struct tca_halo_args *args);
