#include "client/core/rails.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/core/error.h"

int rails_take(struct rail_list *list, const Tca__Welcome *welcome)
{
    if (welcome->n_rails > RAILS_MAX)
        return error_set(-EPROTO, "tcad has %zu rails; at most %d are possible", welcome->n_rails,
                         RAILS_MAX);
    for (size_t i = 0; i < welcome->n_rails; i++) {
        const Tca__Rail *rail = welcome->rails[i];
        if (!rail->name[0] || strlen(rail->name) >= RAIL_NAME_MAX_BYTES)
            return error_set(-EPROTO, "tcad sent a rail whose name has %zu bytes",
                             strlen(rail->name));
        if (rail->device.len > ADDRESS_MAX_BYTES)
            return error_set(-EPROTO, "tcad described the device of a rail in %zu bytes",
                             rail->device.len);
        strcpy(list->at[i + 1].name, rail->name);
        if (rail->device.len > 0)
            memcpy(list->at[i + 1].device, rail->device.data, rail->device.len);
        list->at[i + 1].device_bytes = rail->device.len;
        list->at[i + 1].driver = driver_from_name(rail->driver);
    }
    list->count = (uint32_t)welcome->n_rails;
    return 0;
}

int rails_check(const struct rail_list *list, const char *name)
{
    char text[RAILS_MAX * (RAIL_NAME_MAX_BYTES + 2)] = "";
    size_t used = 0;
    if (!*name || driver_from_name(name))
        return 0;
    for (uint32_t i = 1; i <= list->count; i++) {
        if (strcmp(list->at[i].name, name) == 0)
            return 0;
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s, ", list->at[i].name);
    }
    return error_set(-EINVAL,
                     "TCA_RAIL is \"%s\": it must be any, a rail of this node (%sas tcactl status "
                     "shows), or a driver: shm, tcp, hca, ofi or peach2",
                     name, text);
}
