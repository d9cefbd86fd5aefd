#include "daemon/rails/rails.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/rails/nearness.h"
#include "daemon/tcad.h"

int rails_new(struct rails **ret_rails)
{
    *ret_rails = calloc(1, sizeof(**ret_rails));
    return *ret_rails ? 0 : -ENOMEM;
}

struct rails *rails_free(struct rails *rails)
{
    if (rails)
        nearness_free(rails->nearness);
    free(rails);
    return NULL;
}

const struct rail *rail_at(const struct tcad *tcad, unsigned rail)
{
    return rail > RAIL_NONE && rail <= tcad->rails->count ? &tcad->rails->at[rail] : NULL;
}

const char *rail_name(const struct tcad *tcad, unsigned rail)
{
    const struct rail *found = rail_at(tcad, rail);
    return found ? found->name : NULL;
}

const char *rail_driver(const struct tcad *tcad, unsigned rail)
{
    const struct rail *found = rail_at(tcad, rail);
    return found ? driver_name(found->driver) : NULL;
}

unsigned rail_find(const struct tcad *tcad, const char *driver, const char *plane)
{
    const struct rails *rails = tcad->rails;
    for (unsigned i = 1; i <= rails->last; i++)
        if (rails->at[i].open && strcmp(driver_name(rails->at[i].driver), driver) == 0 &&
            strcmp(rails->at[i].plane, plane) == 0)
            return i;
    return RAIL_NONE;
}

unsigned rails_named(const struct tcad *tcad, const char *name)
{
    const struct rails *rails = tcad->rails;
    const enum driver_id driver = driver_from_name(name);
    unsigned found = 0, open = 0;
    for (unsigned i = 1; name && i <= rails->count; i++) {
        const struct rail *rail = &rails->at[i];
        if (driver ? rail->driver != driver : strcmp(rail->name, name) != 0)
            continue;
        found |= 1u << i;
        open |= rail->open ? 1u << i : 0;
    }
    return open ? open : found;
}

const char *rails_text(const struct tcad *tcad, char *ret_text, size_t text_bytes)
{
    size_t used = 0;
    ret_text[0] = '\0';
    for (unsigned i = 1; i <= tcad->rails->last && used < text_bytes; i++)
        if (tcad->rails->at[i].open)
            used += (size_t)snprintf(ret_text + used, text_bytes - used, "%s%s", used ? ", " : "",
                                     rail_name(tcad, i));
    return ret_text;
}

uint64_t rail_distance(const struct tcad *tcad, unsigned rail, int place)
{
    return nearness_distance(tcad->rails->nearness, place, rail_at(tcad, rail)->place);
}

const struct rail *rail_refused(const struct tcad *tcad)
{
    for (unsigned i = 1; i <= tcad->rails->count; i++)
        if (!tcad->rails->at[i].open && *tcad->rails->at[i].remedy)
            return &tcad->rails->at[i];
    return NULL;
}

unsigned rails_describe(const struct tcad *tcad, Tca__Rail ret_rails[static RAILS_MAX])
{
    const struct rails *rails = tcad->rails;
    for (unsigned i = 1; i <= rails->last; i++) {
        Tca__Rail *rail = &ret_rails[i - 1];
        tca__rail__init(rail);
        rail->name = (char *)rails->at[i].name;
        rail->driver = (char *)driver_name(rails->at[i].driver);
        rail->device =
            (ProtobufCBinaryData){rails->at[i].device_bytes, (uint8_t *)rails->at[i].device};
    }
    return rails->last;
}
