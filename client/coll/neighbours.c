/* Alltoall between neighbours, from layout to layout. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/coll/coll.h"
#include "client/core/error.h"

enum { PIECE = 4096 / sizeof(uint32_t) /* of one tca_allgather() */ };

/* ---- schedule: the parts are numbered from 1 on */

static void schedule(struct tca_coll *coll)
{
    struct coll_program *program = &coll->program;

    for (uint32_t i = 0; i < coll->edge_count; i++) {
        coll_put_part(program, 0, coll->edges[i].rank, i + 1);
        if (coll->edges[i].rank != program->rank)
            coll_notify(program, 0, coll->edges[i].rank);
    }
    for (uint32_t rank = 0; rank < coll->shape.places.size; rank++)
        for (uint32_t i = 0; rank != program->rank && i < coll->arriving[rank]; i++)
            coll_wait(program, 0, rank);
    coll_add_credits(program);
}

int coll_schedule_neighbours(struct tca_coll *coll, enum tca_coll_algorithm wanted)
{
    if (wanted != TCA_COLL_ANY && wanted != TCA_COLL_DIRECT)
        return -EINVAL;
    coll->algorithm = TCA_COLL_DIRECT;
    coll_program_init(&coll->program, coll_rank(coll), 1);
    schedule(coll);
    return coll->program.out_of_memory ? -ENOMEM : 0;
}

/* ---- arguments */

static int copy_layout(const struct tca_layout **layout)
{
    struct tca_layout *copy = NULL;
    int r = *layout ? tca_layout_dup(*layout, &copy) : 0;

    *layout = copy;
    return r;
}

static int copy_edges(struct tca_coll *coll, const struct tca_coll_edge *edges, uint32_t count)
{
    int r = 0;

    coll->edges = calloc((size_t)count + 1, sizeof(*coll->edges)); /* + 1: not 0 bytes */
    if (!coll->edges)
        return error_static(-ENOMEM, "out of memory");
    for (uint32_t i = 0; r >= 0 && i < count; i++) {
        if (edges[i].rank >= coll->shape.places.size)
            return error_set(-EINVAL, "edge %u leads to rank %u: the group has the ranks 0 to %u",
                             i, edges[i].rank, coll->shape.places.size - 1);
        struct tca_coll_edge *edge = &coll->edges[coll->edge_count++];
        *edge = edges[i];
        r = copy_layout(&edge->source_layout);
        int s = copy_layout(&edge->target_layout);
        r = r < 0 ? r : s;
    }
    return r;
}

void coll_free_edges(struct tca_coll *coll)
{
    for (uint32_t i = 0; i < coll->edge_count; i++) {
        tca_layout_free((struct tca_layout *)coll->edges[i].source_layout);
        tca_layout_free((struct tca_layout *)coll->edges[i].target_layout);
    }
    free(coll->edges);
    free(coll->arriving);
}

/* Tells every rank how many edges lead to it. */
static int count_arriving(struct tca_coll *coll)
{
    uint32_t size = coll->shape.places.size, me = coll_rank(coll);
    uint32_t *leaving = calloc(size, sizeof(*leaving));
    struct gathered rows;
    int r = 0;

    coll->arriving = calloc(size, sizeof(*coll->arriving));
    if (!leaving || !coll->arriving)
        r = error_static(-ENOMEM, "out of memory");
    for (uint32_t i = 0; r >= 0 && i < coll->edge_count; i++)
        leaving[coll->edges[i].rank]++;
    for (uint32_t first = 0; r >= 0 && first < size; first += PIECE) {
        uint32_t count = size - first < PIECE ? size - first : PIECE;
        r = group_share(coll->session, coll->group, leaving + first, count * sizeof(*leaving), 0,
                        &rows);
        if (r < 0)
            break;
        for (uint32_t rank = 0; me >= first && me < first + count && rank < size; rank++)
            coll->arriving[rank] = ((const uint32_t *)gathered_of(&rows, rank))[me - first];
        gathered_deinit(&rows);
    }
    free(leaving);
    return r;
}

/* Also after an error, of which the other ranks learn later: they wait for this one. */
static int count_all(struct tca_coll *coll, int error)
{
    char text[1024];

    if (error < 0)
        snprintf(text, sizeof(text), "%s", tca_error_text());
    int r = count_arriving(coll);
    return error < 0 ? error_set(error, "%s", text) : r;
}

int tca_coll_neighbours(struct tca *session, const struct tca_coll_edge *edges, uint32_t edge_count,
                        void *out, uint64_t out_bytes, const struct tca_coll_args *args,
                        struct tca_coll **ret_coll)
{
    struct tca_coll *coll = coll_begin(session, COLL_NEIGHBOURS, args);

    if (!coll)
        return error_static(-ENOMEM, "out of memory");
    coll->out = out;
    coll->out_bytes = out_bytes;
    int r = out || out_bytes == 0 ? 0 : error_static(-EINVAL, "out is NULL");
    if (r >= 0 && edge_count > TCA_COLL_EDGES)
        r = error_set(-EINVAL, "%u edges: at most %d are possible", edge_count, TCA_COLL_EDGES);
    if (r >= 0 && edge_count > 0 && !edges)
        r = error_static(-EINVAL, "edges is NULL");
    if (r >= 0)
        r = copy_edges(coll, edges, edge_count);
    coll_say_first(coll);
    return coll_make(coll, count_all(coll, r), args, ret_coll);
}
