/* Put steps: checks the program's arguments. */
#include <errno.h>
#include <string.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/layout/layout.h"
#include "client/plan/plan.h"

/* Signature 0, untyped bytes, matches any types. */
static bool same_types(const struct layout *a, const struct layout *b)
{
    return a->signature == b->signature || a->signature == 0 || b->signature == 0;
}

static int explain_types(const struct tca_put *put)
{
    char source[TYPES_TEXT_BYTES + 32], target[TYPES_TEXT_BYTES + 32];
    types_describe(&put->source_layout->types, source, sizeof(source));
    types_describe(&put->target_layout->types, target, sizeof(target));
    return error_set(-EINVAL,
                     "the element types of source and target differ: the source has %s; the target "
                     "has %s",
                     source, target);
}

static int check_layouts(const struct tca_put *put, const struct layout *source,
                         const struct layout *target)
{
    if (source->size_bytes == target->size_bytes)
        return same_types(source, target) ? 0 : explain_types(put);
    if (put->parts && (layout_is_contiguous(source) || layout_is_contiguous(target)))
        return 0;
    return error_set(
        -EINVAL, "the source layout has %llu bytes, the target layout %llu: they must be equal%s",
        (unsigned long long)source->size_bytes, (unsigned long long)target->size_bytes,
        put->parts ? ", because neither is contiguous" : "");
}

/* A reference to `given`, or, if it is NULL, a layout of contiguous bytes. */
static int layout_or_bytes(const struct tca_layout *given, uint64_t bytes,
                           struct tca_layout **ret_layout)
{
    if (!given)
        return tca_layout_contiguous(bytes, ret_layout);
    *ret_layout = layout_ref(given);
    return 0;
}

/* A program that does not look at the result of a layout's constructor may pass NULL: that is told
 * from a put of 0 bytes, which says so by a layout or, if it is a reduction, by its type. */
static int check_given(const struct tca_put *put)
{
    if (put->source_layout || put->target_layout || put->bytes > 0 ||
        put->combine != TCA_COMBINE_REPLACE)
        return 0;
    return error_static(
        -EINVAL,
        "a put with neither `bytes` nor a layout: check the call that makes its layout; to put "
        "nothing, pass a layout of 0 bytes (tca_layout_contiguous()), or leave the put out");
}

/* References to the layouts of both sides, by the rules of struct tca_put. */
static int take_layouts(const struct tca_put *put, struct tca_layout **ret_source,
                        struct tca_layout **ret_target)
{
    const struct layout *given_source = layout_of(put->source_layout),
                        *given_target = layout_of(put->target_layout);
    struct tca_layout *source, *target;
    uint64_t bytes = given_source   ? given_source->size_bytes
                     : given_target ? given_target->size_bytes
                                    : put->bytes;
    int r = given_source && given_target ? check_layouts(put, given_source, given_target) : 0;
    if (r < 0)
        return r;
    if (put->bytes != 0 && put->bytes != bytes)
        return error_set(
            -EINVAL,
            "a put with `bytes` %llu and a layout of %llu bytes: set `bytes` to 0, or pass no "
            "layout to put only a part",
            (unsigned long long)put->bytes, (unsigned long long)bytes);
    if ((r = layout_or_bytes(put->source_layout, bytes, &source)) < 0)
        return r;
    if ((r = layout_or_bytes(put->target_layout, bytes, &target)) < 0) {
        tca_layout_free(source);
        return r;
    }
    *ret_source = source;
    *ret_target = target;
    return 0;
}

static int check_fits(const struct layout *layout, uint64_t offset_bytes, uint64_t length_bytes,
                      const char *side)
{
    if (layout_fits(layout, offset_bytes, length_bytes))
        return 0;
    return error_set(-EINVAL,
                     "the %s layout touches bytes %lld to %lld from offset %llu on, which are "
                     "outside its %llu bytes of memory",
                     side, (long long)layout->lower_bytes, (long long)layout->upper_bytes,
                     (unsigned long long)offset_bytes, (unsigned long long)length_bytes);
}

/* Finds the region of a source that is specified by its address. */
static int resolve_source(struct tca *session, struct tca_put *put)
{
    if (put->source_address && put->source)
        return error_static(-EINVAL, "the source of a put is either a region or an address");
    if (put->source_address) {
        uint64_t offset;
        int r = tca_region_of(session, put->source_address, &put->source, &offset);
        if (r < 0)
            return r;
        if (__builtin_add_overflow(offset, put->source_offset_bytes, &put->source_offset_bytes))
            return error_static(-EINVAL, "the source of a put is outside its region");
    }
    if (!put->source)
        return error_static(-EINVAL, "a put without a source: set `source`, a region of the plan's "
                                     "session, or `source_address`, an address in one");
    if (put->source->session != session)
        return error_set(-EINVAL,
                         "the source of the put is region %llu of session %llu, and the plan "
                         "belongs to session %llu: use a region of that one",
                         (unsigned long long)put->source->handle.region,
                         (unsigned long long)put->source->session->id,
                         (unsigned long long)session->id);
    return 0;
}

static_assert((int)TCA_COMBINE_MAX_LOC == OPERATOR_MAX_LOC &&
                  (int)TCA_TYPE_COMPLEX_DOUBLE == ELEMENT_COMPLEX_DOUBLE,
              "public numbers are those of proto/element.h");

int tca_combine_bytes(enum tca_combine combine, enum tca_type type)
{
    const char *name = operator_name((uint32_t)combine);
    const struct element_info *info = element_info((uint32_t)type);
    if (!name || !info)
        return error_set(-EINVAL, "operator %d, type %d: there is no such %s", (int)combine,
                         (int)type, name ? "type" : "operator");
    if (!operator_takes((uint32_t)combine, (uint32_t)type))
        return error_set(-EINVAL, "%s does not combine elements of type %s", name, info->name);
    return (int)operator_bytes((uint32_t)combine, (uint32_t)type);
}

static int check_reduction(const struct tca_put *put)
{
    if (put->combine == TCA_COMBINE_REPLACE)
        return 0;
    const int bytes = tca_combine_bytes(put->combine, put->type);
    if (bytes < 0)
        return bytes;
    if (put->parts)
        return error_static(-EINVAL, "a reduction is moved as a whole, not in parts");
    if (put->source_layout || put->target_layout)
        return error_static(-EINVAL, "a reduction has no layouts: both sides are contiguous");
    if (put->bytes % (uint64_t)bytes)
        return error_set(-EINVAL, "a reduction of %llu bytes: %s of %s takes elements of %d bytes",
                         (unsigned long long)put->bytes, operator_name((uint32_t)put->combine),
                         element_info((uint32_t)put->type)->name, bytes);
    return 0;
}

static int add_put(struct tca_plan *plan, const struct tca_put *put, struct tca_layout *source,
                   struct tca_layout *target)
{
    const int64_t length_bytes = tca_handle_bytes(&put->target);
    struct step *step = NULL;
    int r = length_bytes < 0 ? (int)length_bytes : plan_reserve_step(plan, &step);
    if (r < 0)
        return r;
    if ((r = check_fits(source->program, put->source_offset_bytes, put->source->bytes, "source")) <
            0 ||
        (r = check_fits(target->program, put->target_offset_bytes, (uint64_t)length_bytes,
                        "target")) < 0)
        return r;
    *step = (struct step){
        .kind = STEP_PUT,
        .put = {.source = put->source,
                .source_offset_bytes = put->source->lead_bytes + put->source_offset_bytes,
                .source_layout = source,
                .target_offset_bytes = put->target_offset_bytes,
                .target_layout = target,
                .combine = (enum element_operator)put->combine,
                .type = (enum element_type)put->type,
                .own_target = region_of_handle(plan->session, &put->target),
                .ordered = put->ordered,
                .part = put->parts ? plan->part_count + 1 : 0}};
    memcpy(step->put.handle, put->target.bytes, sizeof(step->put.handle));
    put->source->mapped.uses++;
    if (step->put.own_target)
        step->put.own_target->uses++;
    plan_add_step(plan);
    return 0;
}

/* A put of 0 bytes has no effect, so that it needs no step, nor memory. */
static int add_or_leave_out(struct tca_plan *plan, const struct tca_put *put)
{
    struct tca_layout *source = NULL, *target = NULL;
    struct tca_put resolved = *put;
    int r = plan_check_building(plan);
    if (r < 0 || (r = check_reduction(put)) < 0 || (r = check_given(put)) < 0 ||
        (r = take_layouts(put, &source, &target)) < 0)
        return r;
    if (tca_layout_size(source) > 0 && tca_layout_size(target) > 0) {
        r = resolve_source(plan->session, &resolved);
        if (r == 0)
            r = add_put(plan, &resolved, source, target);
    } else {
        r = 1;
    }
    if (r != 0) {
        tca_layout_free(source);
        tca_layout_free(target);
    }
    if (r < 0)
        return r;
    plan->part_count += put->parts != 0;
    return 0;
}

int tca_plan_put(struct tca_plan *plan, const struct tca_put *put)
{
    int r = add_or_leave_out(plan, put);
    return r < 0 ? plan_refuse(plan, r) : 0;
}
