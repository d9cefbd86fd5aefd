#include <tca-group.h>
#include <tca-signal.h>

#include "client/fortran/array.h"
#include "client/fortran/result.h"

void tca_f_plan_new(struct tca *const *session, struct tca_plan **plan, const CFI_cdesc_t *name,
                    const CFI_cdesc_t *rail, const int *seat, const int *channel, const int *flags,
                    struct tca_group *const *group, int *ierror)
{
    char texts[2][256];
    const struct tca_plan_args args = {.name = fortran_string(name, texts[0]),
                                       .rail_name = fortran_string(rail, texts[1]),
                                       .seat = seat ? (enum tca_seat) * seat : TCA_SEAT_ANY,
                                       .channel = channel ? (uint32_t)*channel : 0,
                                       .flags = flags ? (uint32_t)*flags : 0,
                                       .group = group ? *group : NULL};
    fortran_done(fortran_from(tca_plan_new(*session, &args, plan)), ierror);
}

void tca_f_plan_put(struct tca_plan *const *plan, const CFI_cdesc_t *source,
                    const struct tca_f_handle *target, const int *ordered, int *ierror)
{
    struct tca_layout *layouts[2] = {0};
    int result = array_handle_is_valid(target)
                     ? 0
                     : fortran_refuse("tca_plan_put: the target's handle names no array");
    if (result == 0)
        result = array_layout(source, &layouts[0]);
    if (result == 0)
        result = array_layout_of((enum tca_type)target->type, (uint64_t)target->element_bytes,
                                 (uint32_t)target->dimensions, target->extents,
                                 target->strides_bytes, &layouts[1]);
    if (result == 0)
        result = fortran_from(tca_plan_put(
            *plan, &(struct tca_put){.source_address = source->base_addr,
                                     .source_layout = layouts[0],
                                     .target = target->handle,
                                     .target_offset_bytes = (uint64_t)target->offset_bytes,
                                     .target_layout = layouts[1],
                                     .ordered = ordered ? (uint32_t)*ordered : 0}));
    tca_layout_free(layouts[0]);
    tca_layout_free(layouts[1]);
    fortran_done(result, ierror);
}

void tca_f_plan_notify(struct tca_plan *const *plan, int rank, int slot, int *ierror)
{
    fortran_done(fortran_from(tca_plan_notify(*plan, (uint32_t)rank, (uint32_t)slot)), ierror);
}

void tca_f_plan_wait(struct tca_plan *const *plan, int rank, int slot, int64_t count, int *ierror)
{
    fortran_done(
        fortran_from(tca_plan_wait(*plan, (uint32_t)rank, (uint32_t)slot, (uint64_t)count)),
        ierror);
}

void tca_f_plan_signal(struct tca_plan *const *plan, const struct tca_f_handle *counter,
                       int64_t value, int *ierror)
{
    fortran_done(fortran_from(tca_plan_signal(*plan, &counter->handle,
                                              (uint64_t)counter->offset_bytes, (uint64_t)value)),
                 ierror);
}

void tca_f_plan_flush(struct tca_plan *const *plan, int *ierror)
{
    fortran_done(fortran_from(tca_plan_flush(*plan)), ierror);
}

void tca_f_plan_chain(struct tca_plan *const *plan, int *ierror)
{
    fortran_done(fortran_from(tca_plan_chain(*plan)), ierror);
}

void tca_f_plan_commit(struct tca_plan *const *plan, const int64_t *timeout_ns, int *ierror)
{
    fortran_done(fortran_from(tca_plan_commit(*plan, fortran_timeout(timeout_ns, TCA_DEFAULT))),
                 ierror);
}

void tca_f_plan_free(struct tca_plan **plan)
{
    *plan = tca_plan_free(*plan);
}

void tca_f_notified_wait(struct tca *const *session, int rank, int slot, const int64_t *timeout_ns,
                         int *ierror)
{
    fortran_done(fortran_from(tca_notified_wait(*session, (uint32_t)rank, (uint32_t)slot,
                                                fortran_timeout(timeout_ns, TCA_FOREVER))),
                 ierror);
}

int tca_f_notified(struct tca *const *session, int rank, int slot, int *ierror)
{
    return fortran_tested(fortran_from(tca_notified(*session, (uint32_t)rank, (uint32_t)slot)),
                          ierror);
}

void tca_f_signal_wait_until(struct tca *const *session, const int64_t *counter, int compare,
                             int64_t value, const int64_t *timeout_ns, int *ierror)
{
    fortran_done(fortran_from(tca_signal_wait_until(
                     *session, (const uint64_t *)counter, (enum tca_signal_compare)compare,
                     (uint64_t)value, fortran_timeout(timeout_ns, TCA_FOREVER))),
                 ierror);
}

void tca_f_plan_start(struct tca_plan *const *plan, int *ierror)
{
    fortran_done(fortran_from(tca_start(*plan)), ierror);
}

int tca_f_plan_test(struct tca_plan *const *plan, int *ierror)
{
    return fortran_tested(fortran_from(tca_test(*plan)), ierror);
}

/* No function of another object: waits are called as often as starts. */
void tca_f_plan_wait_for(struct tca_plan *const *plan, const int64_t *timeout_ns, int *ierror)
{
    fortran_done(fortran_from(tca_wait(*plan, fortran_timeout(timeout_ns, TCA_FOREVER))), ierror);
}
