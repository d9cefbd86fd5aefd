/* Chains of descriptors. Each descriptor is checked when it is set; chains are compiled when they
 * are loaded. */
#include "client/compat/desc.h"

#include <stdlib.h>

#include "client/compat/channel.h"
#include "client/compat/turn.h"

struct tcaDesc {
    struct transfers transfers;
};

/* ---- checking ---- */

/* The distance from the start of the first row to the end of the last row. */
static bool span(size_t width, size_t height, size_t pitch, uint64_t *ret_bytes)
{
    uint64_t rows;
    return !__builtin_mul_overflow((uint64_t)(height - 1), (uint64_t)pitch, &rows) &&
           !__builtin_add_overflow(rows, (uint64_t)width, ret_bytes);
}

static tcaresult check_side(const char *name, const char *side, const struct reference *reference,
                            off_t offset, size_t pitch, const struct request *request)
{
    const size_t width = request->width, height = request->height;
    uint64_t bytes = 0, end;
    if (width > 0 && height > 1 && pitch < width)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "%s: a %s pitch of %zu bytes is less than the width of %zu", name, side,
                           pitch, width);
    bool sound = offset >= 0 && (width == 0 || height == 0 || span(width, height, pitch, &bytes)) &&
                 !__builtin_add_overflow((uint64_t)offset, bytes, &end) && end <= reference->bytes;
    if (!sound)
        return compat_fail(
            TCA_ERROR_INVALID_VALUE,
            "%s: %zu x %zu bytes, pitch %zu, at offset %lld exceed the %llu bytes of "
            "the %s handle",
            name, height, width, pitch, (long long)offset, (unsigned long long)reference->bytes,
            side);
    return TCA_SUCCESS;
}

static tcaresult check_slot(const char *name, const struct request *request)
{
    if (!(request->flags & (tcaDMANotify | tcaDMANotifySelf)) ||
        (request->slot >= 0 && request->slot <= SLOT_MAX))
        return TCA_SUCCESS;
    return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: slot %d is out of range (0 to %d)", name,
                       request->slot, SLOT_MAX);
}

tcaresult transfer_make(const struct request *request, const char *name,
                        struct transfer *ret_transfer)
{
    const bool empty = request->width == 0 || request->height == 0;
    struct transfer transfer = {.target_offset_bytes = (uint64_t)request->target_offset,
                                .source_offset_bytes = (uint64_t)request->source_offset,
                                .target_pitch_bytes = request->target_pitch,
                                .source_pitch_bytes = request->source_pitch,
                                .width_bytes = empty ? 0 : request->width,
                                .height = empty ? 0 : request->height,
                                .flags = request->flags,
                                .slot = request->slot,
                                .tag = request->tag};
    tcaresult result;
    if ((result = reference_read(request->target, name, &transfer.target)) != TCA_SUCCESS ||
        (result = reference_read(request->source, name, &transfer.source)) != TCA_SUCCESS ||
        (result = check_slot(name, request)) != TCA_SUCCESS)
        return result;
    if (transfer.source.rank != compat.rank)
        return compat_fail(TCA_ERROR_INVALID_VALUE,
                           "%s: the source handle belongs to process %u, but this is process %u: "
                           "only put is supported",
                           name, transfer.source.rank, compat.rank);
    result = check_side(name, "target", &transfer.target, request->target_offset,
                        request->target_pitch, request);
    if (result == TCA_SUCCESS)
        result = check_side(name, "source", &transfer.source, request->source_offset,
                            request->source_pitch, request);
    if (result == TCA_SUCCESS)
        *ret_transfer = transfer;
    return result;
}

/* ---- chains ---- */

TCA_API tcaDesc *tcaDescNew(void)
{
    tcaDesc *desc = calloc(1, sizeof(*desc));
    if (!desc)
        compat_fail(TCA_ERROR_OUT_OF_MEMORY, "tcaDescNew");
    return desc;
}

TCA_API tcaresult tcaDescFree(tcaDesc *desc)
{
    TAKE_TURN();
    if (!desc)
        return TCA_SUCCESS;
    free(desc->transfers.list);
    free(desc);
    return TCA_SUCCESS;
}

tcaresult desc_append(tcaDesc *desc, const struct transfer *transfer)
{
    struct transfers *transfers = &desc->transfers;
    if (transfers->count == transfers->room) {
        size_t room = transfers->room ? 2 * transfers->room : 4;
        struct transfer *list = realloc(transfers->list, room * sizeof(*list));
        if (!list)
            return compat_fail(TCA_ERROR_OUT_OF_MEMORY,
                               "out of memory for a chain of %zu descriptors", room);
        transfers->list = list;
        transfers->room = room;
    }
    transfers->list[transfers->count++] = *transfer;
    return TCA_SUCCESS;
}

static tcaresult append(tcaDesc *desc, const struct request *request, const char *name)
{
    struct transfer transfer;
    if (!desc)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "%s: the chain is NULL", name);
    tcaresult result = transfer_make(request, name, &transfer);
    return result == TCA_SUCCESS ? desc_append(desc, &transfer) : result;
}

TCA_API tcaresult tcaDescSetMemcpy(tcaDesc *desc, const tcaHandle *dst, off_t dst_off,
                                   const tcaHandle *src, off_t src_off, size_t size, int flags,
                                   int slot, int tag)
{
    TAKE_TURN();
    const struct request request = request_1d(dst, dst_off, src, src_off, size, flags, slot, tag);
    return append(desc, &request, "tcaDescSetMemcpy");
}

TCA_API tcaresult tcaDescSetMemcpy2D(tcaDesc *desc, const tcaHandle *dst, off_t dst_off,
                                     size_t dst_pitch, const tcaHandle *src, off_t src_off,
                                     size_t src_pitch, size_t width, size_t height, int flags,
                                     int slot, int tag)
{
    TAKE_TURN();
    struct request request = request_1d(dst, dst_off, src, src_off, width, flags, slot, tag);
    request.target_pitch = dst_pitch;
    request.source_pitch = src_pitch;
    request.height = height;
    return append(desc, &request, "tcaDescSetMemcpy2D");
}

TCA_API tcaresult tcaDescSet(tcaDesc *desc, int channel)
{
    TAKE_TURN();
    tcaresult result = channel_check(channel);
    if (result != TCA_SUCCESS)
        return result;
    if (!desc)
        return compat_fail(TCA_ERROR_INVALID_VALUE, "tcaDescSet: the chain is NULL");
    struct program *program = NULL;
    if ((result = program_get(&desc->transfers, channel, &program)) != TCA_SUCCESS)
        return result;
    channel_load(channel, program);
    return TCA_SUCCESS;
}
