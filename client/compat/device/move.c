#include "client/compat/device/move.h"

#include <string.h>

#include "client/compat/device/post.h"
#include "client/compat/device/remote.h"
#include "client/compat/memory.h"

static struct cuda_side side_of(const struct allocation *allocation, uint64_t offset_bytes,
                                uint64_t pitch_bytes)
{
    return (struct cuda_side){.on_device = allocation->device != NULL,
                              .address = allocation_address(allocation) + offset_bytes,
                              .pitch_bytes = pitch_bytes};
}

static struct move start_of(const struct transfer *transfer, const struct allocation *source,
                            uint64_t source_offset_bytes)
{
    return (struct move){.width_bytes = transfer->width_bytes,
                         .height = transfer->height,
                         .from =
                             side_of(source, source_offset_bytes + transfer->source_offset_bytes,
                                     transfer->source_pitch_bytes),
                         .place = source->device ? source->device->cuda.place : NULL,
                         .target = transfer->target,
                         .target_offset_bytes = transfer->target_offset_bytes,
                         .to = {.pitch_bytes = transfer->target_pitch_bytes}};
}

tcaresult move_out(const struct transfer *transfer, const struct allocation *source,
                   uint64_t source_offset_bytes, struct move *ret_move)
{
    struct move move = start_of(transfer, source, source_offset_bytes);
    int r = tca_alloc(compat.session, move.width_bytes * move.height, &move.packed);
    if (r < 0)
        return compat_fail_errno(r, "allocating host memory for data from device memory");
    move.to = (struct cuda_side){.address = (uint64_t)(uintptr_t)move.packed,
                                 .pitch_bytes = move.width_bytes};
    *ret_move = move;
    return TCA_SUCCESS;
}

/* Maps another process's memory if it is on this node and can be exported. */
static tcaresult reach(struct move *move)
{
    tcaresult result = TCA_SUCCESS;
    if (!device_ready() || tca_node_of(compat.session, move->target.rank) != (int)compat.node)
        return TCA_SUCCESS;
    if (!move->place)
        result = cuda_place_current(&move->place);
    if (result != TCA_SUCCESS)
        return result;
    move->remote = remote_take(&move->target, move->place);
    if (move->remote) {
        move->to.on_device = true;
        move->to.address = move->remote->cuda.address + move->target.device_offset_bytes +
                           move->target_offset_bytes;
    }
    return TCA_SUCCESS;
}

tcaresult move_in(const struct transfer *transfer, const struct allocation *source,
                  uint64_t source_offset_bytes, const struct allocation *target_own,
                  struct move *ret_move)
{
    struct move move = start_of(transfer, source, source_offset_bytes);
    tcaresult result = TCA_SUCCESS;
    struct cuda_place *place = target_own ? target_own->device->cuda.place : NULL;
    if (!target_own) {
        result = reach(&move);
    } else if (!move.place ||
               move.place == place) { /* else through the agent: one GPU may not reach the other */
        move.place = place;
        move.to = side_of(target_own,
                          transfer->target.device_offset_bytes + transfer->target_offset_bytes,
                          transfer->target_pitch_bytes);
    }
    if (result == TCA_SUCCESS)
        *ret_move = move;
    return result;
}

/* ---- through the agent of the target's process ---- */

/* Packs a part into the desk's data. */
static tcaresult pack(const struct move *move, uint64_t row, uint64_t column, uint64_t width_bytes,
                      uint64_t height)
{
    struct cuda_side from = move->from;
    const struct cuda_side to = {.address = (uint64_t)(uintptr_t)desk_data(),
                                 .pitch_bytes = width_bytes};
    from.address += row * from.pitch_bytes + column;
    if (from.on_device)
        return cuda_copy(move->place, &to, &from, width_bytes, height);
    for (uint64_t i = 0; i < height; i++)
        memcpy((void *)(uintptr_t)(to.address + i * width_bytes),
               (const void *)(uintptr_t)(from.address + i * from.pitch_bytes), width_bytes);
    return TCA_SUCCESS;
}

static tcaresult send(const struct move *move, uint64_t row, uint64_t column, uint64_t width_bytes,
                      uint64_t height)
{
    struct post_request request = {.kind = POST_STORE,
                                   .memory = move->target.device,
                                   .offset_bytes = move->target.device_offset_bytes +
                                                   move->target_offset_bytes +
                                                   row * move->to.pitch_bytes + column,
                                   .pitch_bytes = move->to.pitch_bytes,
                                   .width_bytes = width_bytes,
                                   .height = height};
    tcaresult result = pack(move, row, column, width_bytes, height);
    return result == TCA_SUCCESS ? desk_ask(move->target.rank, &request, width_bytes * height, NULL)
                                 : result;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Sends pieces of whole rows or of parts of a row. */
static tcaresult send_all(const struct move *move)
{
    const uint64_t width = least(move->width_bytes, post.stage_bytes);
    const uint64_t rows = width < move->width_bytes ? 1 : post.stage_bytes / width;
    tcaresult result = TCA_SUCCESS;
    for (uint64_t row = 0; row < move->height && result == TCA_SUCCESS; row += rows)
        for (uint64_t column = 0; column < move->width_bytes && result == TCA_SUCCESS;
             column += width)
            result = send(move, row, column, least(width, move->width_bytes - column),
                          least(rows, move->height - row));
    return result;
}

tcaresult move_run(const struct move *move)
{
    return move->to.address
               ? cuda_copy(move->place, &move->to, &move->from, move->width_bytes, move->height)
               : send_all(move);
}

void move_deinit(struct move *move)
{
    tca_free(compat.session, move->packed);
    remote_give(move->remote);
}
