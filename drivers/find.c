#include <string.h>

#include "drivers/driver.h"
#include "drivers/peach2/fault.h"

const struct driver_ops *driver_find(const char *name)
{
    for (const struct driver_ops *const *ops = drivers_all; *ops; ops++)
        if (strcmp((*ops)->name, name) == 0)
            return *ops;
    return NULL;
}

const struct driver_ops *driver_of_id(enum driver_id id)
{
    for (const struct driver_ops *const *ops = drivers_all; *ops; ops++)
        if ((*ops)->id == id)
            return *ops;
    return NULL;
}

void driver_fault_text(enum driver_id id, uint32_t fault, char *ret_text, size_t text_bytes)
{
    ret_text[0] = '\0';
    if (id == DRIVER_PEACH2 && fault != 0)
        peach2_fault_text(fault, ret_text, text_bytes);
}
