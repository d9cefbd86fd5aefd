/* What the worker does for a binding: registers the memory with the drivers of its rails, and compiles a long layout. */
#include "daemon/plans/binding.h"
#include "daemon/plans/compile.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/region.h"
#include "daemon/tcad.h"

/* Whether the rail needs the part of the region that the handle names. */
static bool needs_part(const struct binding *binding, unsigned rail)
{
    return binding->rails & 1u << rail && binding->part_bytes > 0 &&
           binding->part_bytes < binding->region->bytes &&
           engine_driver(binding->tcad->engine, rail)->ops->region_part;
}

static int register_with(struct binding *binding, unsigned rail)
{
    int r = region_register(binding->region, rail);
    if (r < 0 || !needs_part(binding, rail))
        return r;
    struct driver *driver = engine_driver(binding->tcad->engine, rail);
    return driver->ops->region_part(driver, binding->region->on[rail], binding->part_offset_bytes,
                                    binding->part_bytes);
}

static void register_all(struct binding *binding)
{
    for (unsigned rail = 1; binding->region && rail <= binding->tcad->rails->last; rail++) {
        if (!(binding->rails & (1u << rail)))
            continue;
        int r = register_with(binding, rail);
        if (r < 0) {
            binding->rails &= ~(1u << rail);
            binding->error = r;
        }
    }
}

/* landing_new() compiles what is missing. */
static void compile_one(struct binding *binding)
{
    const struct driver_landing_args args = {.layout = binding->layout};
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++) {
        const struct driver *driver = engine_driver(binding->tcad->engine, rail);
        if ((binding->rails & (1u << rail)) && driver->ops->landing_compile)
            driver->ops->landing_compile(&args, &binding_landing(binding, rail)->program);
    }
}

void binding_register(struct binding *binding)
{
    register_all(binding);
    if (layout_is_long(binding->layout))
        compile_one(binding);
}

bool binding_needs_worker(const struct binding *binding)
{
    if (!binding->region)
        return false;
    if ((binding->rails & ~binding->region->registered) || layout_is_long(binding->layout))
        return true;
    for (unsigned rail = 1; rail <= binding->tcad->rails->last; rail++)
        if (needs_part(binding, rail))
            return true;
    return false;
}
