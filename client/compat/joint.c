/*
 * Consecutive descriptors to the same memory of one process, without a notification in between,
 * are merged into one put. Chains of a thousand small descriptors are common, and a rail packs the
 * pieces of one put into a few messages but sends at least one message per put. The targets of
 * merged descriptors must not overlap, because the parts of a layout are not ordered.
 */
#include "client/compat/joint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    JOINT_MAX = 1024,        /* descriptors */
    ALONE_BYTES = 64 * 1024, /* larger descriptors are not merged: one more message does not matter,
                                and some rails split puts that have gaps */
};

/* The bounds of what a descriptor writes in the target's memory. */
static void target_span(const struct transfer *transfer, uint64_t *ret_low, uint64_t *ret_high)
{
    *ret_low = transfer->target_offset_bytes;
    *ret_high = transfer->target_offset_bytes +
                (transfer->height - 1) * transfer->target_pitch_bytes + transfer->width_bytes;
}

static uint64_t bytes_of(const struct transfer *transfer)
{
    return transfer->width_bytes * transfer->height;
}

static uint64_t source_offset(const struct transfer *transfer, const struct tca_region *source)
{
    return transfer->source.address - (uint64_t)(uintptr_t)tca_region_address(source) +
           transfer->source_offset_bytes;
}

tcaresult joint_begin(const struct transfer *transfer, struct joint *ret_joint)
{
    struct joint joint = {.count = 1};
    uint64_t offset;
    tcaresult result = reference_region(&transfer->source, &joint.source, &offset);
    if (result != TCA_SUCCESS)
        return result;
    target_span(transfer, &joint.low_bytes, &joint.high_bytes);
    *ret_joint = joint;
    return TCA_SUCCESS;
}

/* Descriptors to this process are not merged: one may read what the previous one has written. */
static bool may_join(const struct joint *joint, const struct transfer *last,
                     const struct transfer *transfer)
{
    return joint->count < JOINT_MAX && transfer->target.rank != compat.rank &&
           !transfer->source.device && !transfer->target.device && !(last->flags & tcaDMANotify) &&
           bytes_of(last) > 0 && bytes_of(last) < ALONE_BYTES && bytes_of(transfer) > 0 &&
           bytes_of(transfer) < ALONE_BYTES &&
           memcmp(&transfer->target.memory, &last->target.memory, sizeof(last->target.memory)) == 0;
}

bool joint_extend(struct joint *joint, const struct transfer *transfer)
{
    struct tca_region *source;
    uint64_t offset, low, high;
    if (!may_join(joint, transfer - 1, transfer) ||
        reference_region(&transfer->source, &source, &offset) != TCA_SUCCESS ||
        source != joint->source)
        return false;
    target_span(transfer, &low, &high);
    if (low >= joint->high_bytes)
        joint->high_bytes = high;
    else if (high <= joint->low_bytes)
        joint->low_bytes = low;
    else
        return false;
    joint->count++;
    return true;
}

/* ---- as a put ---- */

/* The source or target side of the descriptors. */
struct side {
    size_t count;
    struct tca_layout **layouts; /* of each descriptor */
    int64_t *offsets;            /* relative to the first descriptor */
    uint64_t *ones;              /* block lengths: all 1 */
};

static void side_deinit(struct side *side)
{
    for (size_t i = 0; side->layouts && i < side->count; i++)
        tca_layout_free(side->layouts[i]);
    free(side->layouts);
    free(side->offsets);
    free(side->ones);
}

static int side_init(struct side *side, size_t count)
{
    *side = (struct side){.count = count,
                          .layouts = calloc(count, sizeof(struct tca_layout *)),
                          .offsets = calloc(count, sizeof(int64_t)),
                          .ones = calloc(count, sizeof(uint64_t))};
    return side->layouts && side->offsets && side->ones ? 0 : -ENOMEM;
}

static int side_add(struct side *side, size_t i, const struct transfer *transfer,
                    uint64_t pitch_bytes, uint64_t offset_bytes)
{
    side->ones[i] = 1;
    side->offsets[i] = (int64_t)offset_bytes;
    return tca_layout_strided(transfer->height, transfer->width_bytes, (int64_t)pitch_bytes,
                              &side->layouts[i]);
}

static int side_layout(const struct side *side, struct tca_layout **ret_layout)
{
    if (side->count == 1)
        return tca_layout_dup(side->layouts[0], ret_layout);
    return tca_layout_struct(side->count, (const struct tca_layout *const *)side->layouts,
                             side->ones, side->offsets, ret_layout);
}

static int fill(const struct joint *joint, const struct transfer *transfers, struct side *source,
                struct side *target)
{
    const uint64_t source_base = source_offset(transfers, joint->source);
    int r = 0;
    for (size_t i = 0; i < joint->count && r == 0; i++) {
        const struct transfer *transfer = &transfers[i];
        r = side_add(source, i, transfer, transfer->source_pitch_bytes,
                     source_offset(transfer, joint->source) - source_base);
        if (r == 0)
            r = side_add(target, i, transfer, transfer->target_pitch_bytes,
                         transfer->target_offset_bytes - transfers->target_offset_bytes);
    }
    return r;
}

/* A receiver may poll so few bytes to learn whether earlier descriptors are complete. */
static bool may_be_polled(const struct joint *joint, const struct transfer *transfers)
{
    enum { POLLED_BYTES_MAX = 64 };
    uint64_t bytes = 0;
    for (size_t i = 0; i < joint->count && bytes <= POLLED_BYTES_MAX; i++)
        bytes += transfers[i].width_bytes * transfers[i].height;
    return bytes <= POLLED_BYTES_MAX;
}

static int put(const struct joint *joint, const struct transfer *first, const struct side *source,
               const struct side *target, struct tca_plan *plan)
{
    struct tca_layout *from = NULL, *to = NULL;
    int r = side_layout(source, &from);
    if (r == 0)
        r = side_layout(target, &to);
    if (r == 0)
        r = tca_plan_put(
            plan, &(struct tca_put){.source = joint->source,
                                    .source_offset_bytes = source_offset(first, joint->source),
                                    .source_layout = from,
                                    .target = first->target.memory,
                                    .target_offset_bytes = first->target_offset_bytes,
                                    .target_layout = to,
                                    .ordered = may_be_polled(joint, first)});
    tca_layout_free(from);
    tca_layout_free(to);
    return r;
}

tcaresult joint_put(const struct joint *joint, const struct transfer *transfers,
                    struct tca_plan *plan)
{
    struct side source, target;
    int r = side_init(&source, joint->count);
    int target_r = side_init(&target, joint->count);
    if (r < 0 || target_r < 0) {
        side_deinit(&source);
        side_deinit(&target);
        return compat_fail(TCA_ERROR_OUT_OF_MEMORY, "no memory for %zu descriptors", joint->count);
    }
    r = fill(joint, transfers, &source, &target);
    if (r == 0)
        r = put(joint, transfers, &source, &target, plan);
    side_deinit(&source);
    side_deinit(&target);
    return r < 0 ? compat_fail_errno(r, "a descriptor") : TCA_SUCCESS;
}
