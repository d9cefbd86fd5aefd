/* Compiles puts between long layouts for plan_prepare.c, on the worker: one takes up to 40 ms, in which the engine would
 * start nothing. */
#include <stdlib.h>

#include "daemon/base/worker.h"
#include "daemon/plans/compile.h"
#include "daemon/plans/plan_preparing.h"
#include "daemon/sessions/session.h"
#include "daemon/tcad.h"
#include "drivers/copy/copy.h"

static bool is_long(const struct plan_unit *unit)
{
    return unit->driver && unit->driver->ops->put_compile && !unit->put && unit->source &&
           (layout_is_long(unit->source_layout) || layout_is_long(unit->target_layout));
}

static void compile(void *context)
{
    struct plan_preparing *preparing = context;
    struct plan *plan = preparing->plan;
    for (uint32_t i = 0; i < plan->unit_count; i++) {
        const struct plan_unit *unit = &plan->units[i];
        if (!is_long(unit))
            continue;
        const struct driver_put_args args = {.layout = unit->source_layout,
                                             .target_layout = unit->target_layout,
                                             .combine = unit->combine,
                                             .parts = unit->parts || unit->part_bytes > 0};
        if (unit->driver->ops->put_compile(&args, &preparing->programs[i]) < 0)
            return;
    }
}

static void compiled(void *context)
{
    struct plan_preparing *preparing = context;
    preparing->compiled(preparing);
}

bool plan_compile(struct plan_preparing *preparing, void (*done)(struct plan_preparing *preparing))
{
    struct plan *plan = preparing->plan;
    uint32_t i = 0;
    while (i < plan->unit_count && !is_long(&plan->units[i]))
        i++;
    if (i == plan->unit_count)
        return false;
    preparing->compiled = done;
    preparing->programs = calloc(plan->unit_count, sizeof(struct copy_program *));
    return preparing->programs && worker_submit(plan->tcad->worker, plan->session->uid, compile,
                                                compiled, compiled, preparing) == 0;
}

void plan_compile_free(struct plan_preparing *preparing)
{
    for (uint32_t i = 0; preparing->programs && i < preparing->plan->unit_count; i++)
        copy_program_free(preparing->programs[i]);
    free(preparing->programs);
}
