#include "client/coll/copies.h"

#include <errno.h>

#include "client/coll/coll.h"
#include "client/core/error.h"

enum { ALIGNMENT = 64 };

uint64_t coll_common_bytes(const struct coll_shape *shape)
{
    uint64_t bytes = 0;

    if (!shape->spans)
        return shape->bytes;
    for (uint32_t rank = 0; rank < shape->places.size; rank++)
        bytes += shape->spans[rank].bytes;
    return bytes;
}

int coll_copies_choose(struct tca_coll *coll, const struct tca_coll_args *args)
{
    struct coll_shape *shape = &coll->shape;
    const bool can = shape->operation != COLL_NEIGHBOURS &&
                     (shape->operation != COLL_ALLTOALL || shape->regular);

    if (args->any_memory && !can)
        return error_static(-EINVAL, "any_memory: this operation needs memory in regions of the "
                                     "session");
    coll->copies.used = can && (args->any_memory || coll_common_bytes(shape) <= COLL_SHORT_BYTES);
    if (!coll->copies.used)
        return 0;
    if (shape->operation == COLL_ALLGATHER)
        coll->in_bytes = coll->spans[coll_rank(coll)].bytes;
    shape->in_place = false; /* for its plans, that is */
    return 0;
}

/* ---- the program's memory */

static bool can_be_in_place(const struct tca_coll *coll)
{
    const struct coll_shape *shape = &coll->shape;

    return shape->operation == COLL_ALLGATHER || shape->operation == COLL_ALLREDUCE ||
           (shape->operation == COLL_REDUCE && coll_rank(coll) == shape->root);
}

int coll_copies_bind(struct tca_coll *coll, const void *in, void *out)
{
    const struct coll_shape *shape = &coll->shape;
    const uint32_t rank = coll_rank(coll);
    struct coll_copies *copies = &coll->copies;

    if (!out && coll->out_bytes > 0)
        return error_static(-EINVAL, "out is NULL");
    if (!in && coll->in_bytes > 0 && !can_be_in_place(coll))
        return error_static(-EINVAL, "in is NULL, and this operation cannot be done in place");
    copies->give = in ? in : out;
    copies->give_bytes = coll->in_bytes;
    copies->take = out;
    copies->take_bytes = coll->out_bytes;
    if (shape->operation == COLL_ALLGATHER && !in && coll->in_bytes > 0)
        copies->give = (const uint8_t *)out + coll->spans[rank].offset;
    if (shape->operation == COLL_BROADCAST && rank == shape->root) {
        copies->give = out;
        copies->give_bytes = coll->out_bytes;
        copies->take_bytes = 0;
    }
    return 0;
}

void coll_copies_take_blocks(const struct tca_coll *coll, const uint8_t *from)
{
    for (uint32_t rank = 0; rank < coll->shape.places.size; rank++)
        coll_copies_move(coll->copies.take + coll->spans[rank].offset,
                         from + coll->spans[rank].offset, coll->spans[rank].bytes);
}

/* ---- the own memory */

static bool touches_out(const struct coll_step *step)
{
    return (step->kind == COLL_PUT || step->kind == COLL_COMBINE) &&
           (step->from.buffer == COLL_OUT || step->to.buffer == COLL_OUT);
}

/* The last step, if all that the program does with OUT is to copy all of it from scratch memory. */
static const struct coll_step *find_copy(const struct tca_coll *coll)
{
    const struct coll_chain *chain = &coll->program.chains[0];

    if (coll->program.chain_count != 1 || chain->count == 0 || coll->out_bytes == 0)
        return NULL;
    const struct coll_step *last = &chain->steps[chain->count - 1];
    for (const struct coll_step *step = chain->steps; step < last; step++)
        if (touches_out(step))
            return NULL;
    return last->kind == COLL_PUT && last->peer == coll->program.rank &&
                   last->from.buffer == COLL_SCRATCH && last->to.buffer == COLL_OUT &&
                   last->to.offset == 0 && last->bytes == coll->out_bytes
               ? last
               : NULL;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

int coll_copies_make(struct tca_coll *coll, struct coll_met *met)
{
    const uint64_t turns_bytes = coll->program.scratch_bytes * coll->program.sets;
    const uint64_t in_bytes = padded(coll->in_bytes);
    const struct coll_step *copy = find_copy(coll);
    const uint64_t out_bytes = copy ? 0 : coll->out_bytes;
    const bool gives_out = coll->shape.operation == COLL_BROADCAST;
    struct coll_copies *copies = &coll->copies;
    void *memory = NULL;

    if (turns_bytes + in_bytes + out_bytes == 0)
        return 0;
    int r = tca_alloc(coll->session, turns_bytes + in_bytes + out_bytes, &memory);
    if (r < 0)
        return r;
    coll->scratch = memory;
    coll->in = coll->scratch + turns_bytes;
    coll->out = coll->scratch + turns_bytes + in_bytes;
    copies->give_to = gives_out ? coll->out : coll->scratch + turns_bytes;
    copies->take_from = copy ? coll->scratch + copy->from.offset : coll->out;
    copies->take_turn = copy ? coll->program.scratch_bytes : 0;
    copies->by_blocks = coll->shape.operation == COLL_ALLGATHER && !coll->shape.regular;
    if (copy)
        coll->program.chains[0].count--;
    if (turns_bytes > 0)
        r = tca_handle_of(coll->session, coll->scratch, turns_bytes, &met->scratch);
    if (r >= 0 && out_bytes > 0)
        r = tca_handle_of(coll->session, coll->out, out_bytes, &met->out);
    return r;
}
