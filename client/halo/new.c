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
    free(world->heads);
    free(world->rounds);
    free(world->parts);
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
                     struct agree_head *head, size_t head_bytes, void *heads)
{
    bool known;

    head->round = round;
    const int r =
        agree(halo->session, halo->group, "halo exchange", error, head, head_bytes, heads, &known);
    halo->shared &= !known;
    return r;
}

/* A round in which a rank tells only whether it has failed. */
static int end_short_round(struct tca_halo *halo, enum halo_round round, int error,
                           const struct halo_world *world)
{
    struct agree_head head = {0};

    return end_round(halo, round, error, &head, sizeof(head), world->rounds);
}

static int gather_heads(struct tca_halo *halo, const struct tca_halo_args *args, int error,
                        const struct halo_world *world)
{
    struct halo_head head;

    memset(&head, 0, sizeof(head)); /* ranks compare bytes, of gaps too */
    head.slot = halo->slot;
    head.buffers = halo->buffers;
    head.array_count = args->array_count;
    head.grid = halo->grid;
    int r = end_round(halo, HALO_MEET, error, &head.head, sizeof(head), world->heads);
    return r < 0 ? r : halo_check_heads(world);
}

static int gather_parts(struct tca_halo *halo, const struct tca_halo_args *args,
                        const struct halo_part *mine, struct halo_world *world)
{
    world->parts = calloc((size_t)args->array_count * world->ranks, sizeof(*world->parts));
    int error = world->parts ? 0 : error_static(-ENOMEM, "out of memory");
    int r = end_short_round(halo, HALO_PARTS, error, world);

    for (uint32_t a = 0; r >= 0 && a < args->array_count; a++)
        r = group_gather(halo->session, halo->group, &mine[a], sizeof(mine[a]),
                         &world->parts[(size_t)a * world->ranks], TCA_DEFAULT);
    return r < 0 ? r : halo_check_parts(world, args);
}

static int make(struct tca_halo *halo, const struct tca_halo_args *args, struct halo_world *world)
{
    struct halo_part mine[TCA_HALO_ARRAYS] = {0};
    int r = prepare(halo, args, mine);

    r = gather_heads(halo, args, r, world);
    for (uint32_t rank = 0; r >= 0 && halo->buffers == 0 && rank < world->ranks; rank++)
        halo->buffers = world->heads[rank].buffers;
    if (halo->buffers == 0) /* all arrays of all ranks are empty */
        halo->buffers = 1;
    if (r >= 0)
        r = gather_parts(halo, args, mine, world);
    if (r < 0)
        return r;
    r = halo_build(halo, world, args);
    halo->shared = r >= 0; /* from here on, others may start it */
    return end_short_round(halo, HALO_AGREE, r, world);
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
    struct halo_world world = {.session = session, .ranks = group_size(session, args->plan.group)};
    struct tca_halo *halo = calloc(1, sizeof(*halo));
    int r;

    world.heads = calloc(world.ranks, sizeof(*world.heads));
    world.rounds = calloc(world.ranks, sizeof(*world.rounds));
    if (halo)
        *halo = (struct tca_halo){.session = session, .group = group_use(args->plan.group)};
    if (!halo || !world.heads || !world.rounds)
        r = error_static(-ENOMEM, "out of memory");
    else
        r = make(halo, args, &world);
    world_deinit(&world);
    if (r >= 0)
        *ret_halo = halo;
    else if (halo)
        release(halo, !halo->shared);
    return r;
}

struct tca_halo *tca_halo_free(struct tca_halo *halo)
{
    if (halo)
        release(halo, tca_halo_test(halo) > 0);
    return NULL;
}
