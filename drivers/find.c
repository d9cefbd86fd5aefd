#include <string.h>

#include "drivers/driver.h"

const struct driver_ops *driver_find(const char *name)
{
    for (const struct driver_ops *const *ops = drivers_all; *ops; ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;
    return NULL;
}

const struct driver_ops *driver_of_rail(enum rail rail)
{
    for (const struct driver_ops *const *ops = drivers_all; *ops; ops++)
        if ((*ops)->rail == rail)
            return *ops;
    return NULL;
}
