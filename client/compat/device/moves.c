/* Compiles descriptors into moves. */
#include "client/compat/device/moves.h"

#include <stdlib.h>

#include "client/compat/device/move.h"
#include "client/compat/joint.h"

struct move *moves_new(size_t count)
{
    return calloc(count + 1, sizeof(struct move));
}

/* ---- out of device memory ---- */

/* Adds a move to packed host memory and a put from there. */
static tcaresult add_out(struct program *program, const struct transfer *transfer,
                         const struct allocation *source, uint64_t offset)
{
    struct move *move = &program->moves[program->move_count];
    struct transfer packed = *transfer;
    struct joint joint = {.count = 1};
    tcaresult result = move_out(transfer, source, offset, move);
    if (result != TCA_SUCCESS)
        return result;
    program->move_count++;
    int r = tca_region_of(compat.session, move->packed, &joint.source, &offset);
    if (r < 0)
        return compat_fail_errno(r, "allocating host memory for data from device memory");
    packed.source.address = (uint64_t)(uintptr_t)move->packed;
    packed.source_offset_bytes = 0;
    packed.source_pitch_bytes = transfer->width_bytes;
    program->put_count++;
    return joint_put(&joint, &packed, program->plan);
}

/* ---- into device memory ---- */

/* The distance from the start of the first row to the end of the last. */
static uint64_t span(const struct transfer *transfer, uint64_t pitch_bytes)
{
    return (transfer->height - 1) * pitch_bytes + transfer->width_bytes;
}

/* Moves precede puts, so a chain cannot move data that it has itself put into memory of this
 * process. */
static tcaresult check_order(const struct transfers *chain, size_t number)
{
    const struct transfer *moved = &chain->list[number];
    const uint64_t from = moved->source.address + moved->source_offset_bytes;
    const uint64_t end = from + span(moved, moved->source_pitch_bytes);
    for (size_t i = 0; i < number; i++) {
        const struct transfer *before = &chain->list[i];
        const uint64_t to = before->target.address + before->target_offset_bytes;
        if (before->width_bytes > 0 && before->target.rank == compat.rank &&
            !before->target.device && to < end &&
            from < to + span(before, before->target_pitch_bytes))
            return compat_fail(TCA_ERROR_NOT_SUPPORTED,
                               "descriptor %zu copies to a GPU what descriptor %zu of the same "
                               "chain puts: use two chains",
                               number, i);
    }
    return TCA_SUCCESS;
}

/* Makes the plan fail when directly mapped memory of another process is freed. */
static tcaresult add_touch(struct program *program, const struct move *move)
{
    static void *nothing;
    int r = nothing ? 0 : tca_alloc(compat.session, CARD_BYTES, &nothing);
    const struct tca_put put = {
        .source_address = nothing, .target = move->target.memory, .bytes = CARD_BYTES};
    if (r == 0)
        r = tca_plan_put(program->plan, &put);
    program->put_count++;
    program->reaches = true;
    return r < 0 ? compat_fail_errno(r, "a descriptor") : TCA_SUCCESS;
}

static tcaresult add_in(struct program *program, const struct transfer *transfer,
                        const struct allocation *source, uint64_t offset)
{
    struct allocation *target = NULL;
    uint64_t target_offset;
    struct move *move = &program->moves[program->move_count];
    tcaresult result = TCA_SUCCESS;
    if (transfer->target.rank == compat.rank)
        result = reference_allocation(&transfer->target, &target, &target_offset);
    if (result == TCA_SUCCESS)
        result = move_in(transfer, source, offset, target, move);
    if (result != TCA_SUCCESS)
        return result;
    program->move_count++;
    if (target)
        program_use(program, target->region);
    return move->remote ? add_touch(program, move) : TCA_SUCCESS;
}

tcaresult moves_add(struct program *program, const struct transfers *chain, size_t number)
{
    const struct transfer *transfer = &chain->list[number];
    struct allocation *source;
    uint64_t offset;
    tcaresult result = reference_allocation(&transfer->source, &source, &offset);
    if (result != TCA_SUCCESS)
        return result;
    program_use(program, source->region);
    if (!transfer->target.device)
        return add_out(program, transfer, source, offset);
    if (!source->device && (result = check_order(chain, number)) != TCA_SUCCESS)
        return result;
    return add_in(program, transfer, source, offset);
}

/* ---- starting and freeing ---- */

tcaresult moves_run(const struct program *program)
{
    tcaresult result = TCA_SUCCESS;
    for (size_t i = 0; i < program->move_count && result == TCA_SUCCESS; i++)
        result = move_run(&program->moves[i]);
    return result;
}

void moves_end(struct program *program)
{
    for (size_t i = 0; i < program->move_count; i++)
        move_deinit(&program->moves[i]);
    program->move_count = 0;
}
