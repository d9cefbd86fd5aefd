/* The grid: positions and ranks. */
#include <errno.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/core/wait.h"
#include "client/qmp/qmp.h"

static void coords_at(const struct tca_qmp *qmp, uint32_t position, uint32_t *ret_coords)
{
    for (uint32_t d = qmp->dimensions; d-- > 0;) {
        ret_coords[d] = position % qmp->extents[d];
        position /= qmp->extents[d];
    }
}

static uint32_t position_at(const struct tca_qmp *qmp, const uint32_t *coords)
{
    uint32_t position = 0;

    for (uint32_t d = 0; d < qmp->dimensions; d++)
        position = position * qmp->extents[d] + coords[d];
    return position;
}

static int shape(struct tca_qmp *qmp, uint32_t dimensions, const uint32_t *extents)
{
    uint64_t product = 1;

    if (dimensions < 1 || dimensions > TCA_QMP_DIMENSIONS)
        return error_set(-EINVAL, "grid: %u dimensions: 1 to %d are possible", dimensions,
                         TCA_QMP_DIMENSIONS);
    qmp->dimensions = dimensions;
    for (uint32_t d = 0; d < TCA_QMP_DIMENSIONS; d++) {
        qmp->extents[d] = d < dimensions ? extents[d] : 1;
        product *= qmp->extents[d];
        if (product > qmp->size) /* keeps it from overflowing */
            break;
    }
    if (product != qmp->size)
        return error_set(-EINVAL,
                         "grid: its extents must have the product %u, the size of the group",
                         qmp->size);
    return 0;
}

static int place(struct tca_qmp *qmp, uint32_t (*rank_of)(const uint32_t *coords, void *context),
                 void *context)
{
    uint32_t coords[TCA_QMP_DIMENSIONS] = {0};

    for (uint32_t rank = 0; rank < qmp->size; rank++)
        qmp->positions[rank] = UINT32_MAX;
    for (uint32_t position = 0; position < qmp->size; position++) {
        coords_at(qmp, position, coords);
        uint32_t rank = rank_of ? rank_of(coords, context) : position;
        if (rank >= qmp->size || qmp->positions[rank] != UINT32_MAX)
            return error_set(-EINVAL, "grid: rank_of() places rank %u %s", rank,
                             rank >= qmp->size ? "which the group does not have" : "twice");
        qmp->ranks[position] = rank;
        qmp->positions[rank] = position;
    }
    coords_at(qmp, qmp->positions[qmp->rank], qmp->coords);
    return 0;
}

static int grid(struct tca_qmp *qmp, uint32_t dimensions, const uint32_t *extents,
                uint32_t (*rank_of)(const uint32_t *coords, void *context), void *context)
{
    int r = shape(qmp, dimensions, extents);

    if (r < 0)
        return r;
    qmp->ranks = calloc(qmp->size, sizeof(*qmp->ranks));
    qmp->positions = calloc(qmp->size, sizeof(*qmp->positions));
    return qmp->ranks && qmp->positions ? place(qmp, rank_of, context)
                                        : error_static(-ENOMEM, "grid: out of memory");
}

static int collectives(struct tca_qmp *qmp, const struct tca_coll_args *args)
{
    struct tca *session = qmp->session;
    int r = tca_alloc(session, QMP_VALUES * sizeof(double), (void **)&qmp->own);

    if (r >= 0)
        r = tca_alloc(session, qmp->size * QMP_VALUES * sizeof(double), (void **)&qmp->all);
    if (r >= 0)
        r = tca_alloc(session, QMP_BYTES, (void **)&qmp->data);
    if (r >= 0)
        r = tca_coll_allgather(session, qmp->own, qmp->all, QMP_VALUES * sizeof(double), args,
                               &qmp->gather);
    if (r >= 0)
        r = tca_coll_broadcast(session, qmp->data, QMP_BYTES, 0, args, &qmp->broadcast);
    return r < 0 ? r : tca_coll_barrier(session, args, &qmp->barrier);
}

int tca_qmp_new(struct tca *session, const struct tca_plan_args *args, uint32_t dimensions,
                const uint32_t *extents, uint32_t (*rank_of)(const uint32_t *coords, void *context),
                void *context, struct tca_qmp **ret_qmp)
{
    const struct tca_coll_args coll_args = {.plan = args ? *args : (struct tca_plan_args){0}};
    const struct tca_group *group = coll_args.plan.group;
    struct tca_qmp *qmp = calloc(1, sizeof(*qmp));

    if (!qmp)
        return error_static(-ENOMEM, "grid: out of memory");
    qmp->session = session;
    qmp->size = group ? tca_group_size(group) : tca_size(session);
    qmp->rank = group ? tca_group_rank(group) : tca_rank(session);
    int r = grid(qmp, dimensions, extents, rank_of, context);
    if (r >= 0)
        r = tca_msg_new(session, args, &qmp->msg);
    if (r >= 0)
        r = collectives(qmp, &coll_args);
    if (r < 0)
        tca_qmp_free(qmp);
    else
        *ret_qmp = qmp;
    return r;
}

struct tca_qmp *tca_qmp_free(struct tca_qmp *qmp)
{
    if (!qmp)
        return NULL;
    struct tca *session = qmp->session;
    const uint64_t outer_ns = session_limit_begin(session);
    tca_coll_free(qmp->barrier);
    tca_coll_free(qmp->broadcast);
    tca_coll_free(qmp->gather);
    tca_msg_free(qmp->msg);
    tca_free(session, qmp->own);
    tca_free(session, qmp->all);
    tca_free(session, qmp->data);
    session_limit_end(session, outer_ns);
    free(qmp->ranks);
    free(qmp->positions);
    free(qmp);
    return NULL;
}

/* ---- queries */

uint32_t tca_qmp_extent(const struct tca_qmp *qmp, uint32_t dimension)
{
    return dimension < qmp->dimensions ? qmp->extents[dimension] : 1;
}

uint32_t tca_qmp_coord(const struct tca_qmp *qmp, uint32_t dimension)
{
    return dimension < qmp->dimensions ? qmp->coords[dimension] : 0;
}

int tca_qmp_rank_at(const struct tca_qmp *qmp, const uint32_t *coords, uint32_t *ret_rank)
{
    for (uint32_t d = 0; d < qmp->dimensions; d++)
        if (coords[d] >= qmp->extents[d])
            return error_set(-EINVAL,
                             "grid: coordinate %u in dimension %u: it must be less than %u",
                             coords[d], d, qmp->extents[d]);
    *ret_rank = qmp->ranks[position_at(qmp, coords)];
    return 0;
}

int tca_qmp_coords_of(const struct tca_qmp *qmp, uint32_t rank, uint32_t *ret_coords)
{
    if (rank >= qmp->size)
        return error_set(-EINVAL, "grid: rank %u: the group has ranks 0 to %u", rank,
                         qmp->size - 1);
    coords_at(qmp, qmp->positions[rank], ret_coords);
    return 0;
}

int tca_qmp_displaced(const struct tca_qmp *qmp, const int *displacement, uint32_t *ret_rank)
{
    uint32_t coords[TCA_QMP_DIMENSIONS];

    for (uint32_t d = 0; d < qmp->dimensions; d++) {
        int extent = (int)qmp->extents[d];
        if (displacement[d] < -QMP_DISPLACEMENT || displacement[d] > QMP_DISPLACEMENT)
            return error_set(-EINVAL,
                             "grid: displacement %d in dimension %u: at most %d is possible",
                             displacement[d], d, QMP_DISPLACEMENT);
        int step = displacement[d] % extent;
        coords[d] = (qmp->coords[d] + (uint32_t)(step + extent)) % qmp->extents[d];
    }
    *ret_rank = qmp->ranks[position_at(qmp, coords)];
    return 0;
}
