/* Making and releasing a halo exchange. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/slots.h"
#include "client/halo/halo.h"

static void world_deinit(struct halo_world *world)
{
    gathered_deinit(&world->heads);
    for (uint32_t a = 0; a < TCA_HALO_ARRAYS; a++)
        gathered_deinit(&world->parts[a]);
}

/* ---- this rank's part of the gathered data ---- */

static struct halo_grid grid_of(const struct tca_halo_args *args)
{
    struct halo_grid grid = {.dimensions = args->dimensions,
                             .diagonals = args->diagonals ? args->diagonals : 1};

    for (uint32_t d = 0; d < args->dimensions; d++) {
        grid.sizes[d] = args->grid[d];
        grid.periodic[d] = args->periodic[d] != 0;
    }
    return grid;
}

static int part_of(struct tca *session, const struct tca_halo_args *args, uint32_t index,
                   struct halo_part *ret_part)
{
    const struct tca_halo_array *array = &args->arrays[index];
    struct halo_part part = {.element_bytes = array->element_bytes};
    uint64_t elements = 0;
    int r = 0;

    for (uint32_t d = 0; d < args->dimensions; d++) {
        part.shape.extents[d] = array->extents[d];
        part.shape.low[d] = array->low[d];
        part.shape.high[d] = array->high[d];
    }
    halo_elements(&part.shape, args->dimensions, array->element_bytes, &elements);
    for (int i = 0; r >= 0 && elements > 0 && i < HALO_BUFFERS && array->memory[i]; i++)
        r = tca_handle_of(session, array->memory[i], elements * array->element_bytes,
                          &part.handles[i]);
    if (r < 0)
        return error_prefix(r, "array %u: ", index);
    *ret_part = part;
    return 0;
}

/* Checks the arguments and fills in all but what needs the other ranks. */
static int prepare(struct tca_halo *halo, const struct tca_halo_args *args,
                   struct halo_part *ret_parts)
{
    int r = halo_check_args(halo->session, args);

    if (r < 0)
        return r;
    for (uint32_t a = 0; r >= 0 && a < args->array_count; a++)
        r = part_of(halo->session, args, a, &ret_parts[a]);
    if (r < 0)
        return r;
    halo->grid = grid_of(args);
    halo->buffers = halo_buffers(args);
    halo->slot = slots_take(halo->session, HALO_BUFFERS);
    return 0;
}

/* ---- together ---- */

/* Ends a round. If all ranks learn that one has failed, none will start the exchange. */
static int end_round(struct tca_halo *halo, enum halo_round round, int error,
                     struct agree_head *head, size_t head_bytes, size_t same_bytes,
                     struct gathered *heads)
{
    bool known;

    head->round = round;
    const int r = agree(halo->session, halo->group, "halo exchange", error, head, head_bytes,
                        same_bytes, heads, &known);
    halo->shared &= !known;
    return r;
}

/* All succeed, or all fail. */
static int gather_heads(struct tca_halo *halo, const struct tca_halo_args *args, int error,
                        struct halo_head *head, struct halo_world *world)
{
    memset(head, 0, sizeof(*head)); /* ranks compare bytes, of gaps too */
    head->slot = halo->slot;
    head->buffers = halo->buffers;
    head->array_count = args->array_count;
    head->grid = halo->grid;
    int r = end_round(halo, HALO_MEET, error, &head->head, sizeof(*head), HALO_SAME_BYTES,
                      &world->heads);
    if (r >= 0)
        r = halo_check_heads(world, &halo->buffers);
    if (halo->buffers == 0) /* all arrays of all ranks are empty */
        halo->buffers = 1;
    return r;
}

static int gather_parts(struct tca_halo *halo, const struct tca_halo_args *args,
                        const struct halo_part *mine, struct halo_world *world)
{
    int r = 0;

    for (uint32_t a = 0; r >= 0 && a < args->array_count; a++)
        r = group_share(halo->session, halo->group, &mine[a], sizeof(mine[a]),
                        sizeof(mine[a].element_bytes), &world->parts[a]);
    return r;
}

static int make(struct tca_halo *halo, const struct tca_halo_args *args, struct halo_world *world)
{
    struct halo_part mine[TCA_HALO_ARRAYS] = {0};
    struct halo_head head;
    struct agree_head agreed = {0};
    struct gathered last = {0};
    int r = prepare(halo, args, mine);

    r = gather_heads(halo, args, r, &head, world);
    if (r >= 0)
        r = gather_parts(halo, args, mine, world);
    if (r >= 0) {
        r = halo_check_parts(world, args);
        if (r >= 0)
            r = halo_build(halo, world, args);
        halo->shared = r >= 0; /* from here on, others may start it */
        r = end_round(halo, HALO_AGREE, r, &agreed, sizeof(agreed), sizeof(agreed), &last);
        gathered_deinit(&last);
    }
    world_deinit(world); /* what it refers to ends here */
    return r;
}

/* A plan of a failed exchange may wait for a neighbour that will not notify it, for as long as the
 * session's time-out: it is left to tca_close(), which ends it at once. */
static void free_plans(struct tca_halo *halo, struct halo_neighbour *neighbour)
{
    for (uint32_t buffer = 0; buffer < HALO_BUFFERS; buffer++) {
        struct tca_plan *plan = neighbour->plans[buffer];
        if (plan && !(halo->failed && tca_test(plan) == 0))
            tca_plan_free(plan);
    }
}

/* quiet: nobody can notify it any more. */
static void release(struct tca_halo *halo, bool quiet)
{
    const uint64_t outer_ns = session_limit_begin(halo->session);

    for (uint32_t n = 0; n < halo->neighbour_count; n++)
        free_plans(halo, &halo->neighbours[n]);
    if (halo->slot && quiet)
        slots_return(halo->session, halo->slot, HALO_BUFFERS);
    session_limit_end(halo->session, outer_ns);
    free(halo->faces);
    free(halo->neighbour_of);
    free(halo->neighbours);
    group_unuse(halo->group);
    free(halo);
}

int tca_halo_new(struct tca *session, const struct tca_halo_args *args, struct tca_halo **ret_halo)
{
    struct halo_world world = {.session = session,
                               .ranks = group_size(session, args->plan.group),
                               .me = group_rank(session, args->plan.group)};
    struct tca_halo *halo = calloc(1, sizeof(*halo));

    if (!halo)
        return error_static(-ENOMEM, "out of memory");
    *halo = (struct tca_halo){.session = session, .group = group_use(args->plan.group)};
    int r = make(halo, args, &world);
    if (r >= 0)
        *ret_halo = halo;
    else
        release(halo, !halo->shared);
    return r;
}

struct tca_halo *tca_halo_free(struct tca_halo *halo)
{
    if (halo)
        release(halo, tca_halo_test(halo) > 0);
    return NULL;
}
