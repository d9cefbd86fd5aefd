#include "drivers/mapped.h"

#include <errno.h>
#include <stdlib.h>

int mapped_add(struct driver *driver, const struct driver_memory *memory,
               struct driver_region **ret_region)
{
    struct mapped *region = malloc(sizeof(*region));
    if (!region)
        return -ENOMEM;
    *region = (struct mapped){.base = memory->base,
                              .length_bytes = memory->length_bytes,
                              .dmabuf = memory->dmabuf,
                              .gone = memory->gone,
                              .context = memory->context};
    *ret_region = (struct driver_region *)region;
    return 0;
}

void mapped_remove(struct driver *driver, struct driver_region *driver_region)
{
    struct mapped *region = (struct mapped *)driver_region;
    driver_memory_gone(region->gone, region->context);
    free(region);
}
