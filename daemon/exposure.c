#include "daemon/exposure.h"

#include <stdio.h>
#include <string.h>

#include "daemon/engine.h"
#include "daemon/log.h"
#include "daemon/tcad.h"

void exposure_refused(struct tcad *tcad, enum rail rail)
{
    const char *provider = tcad->conf->rails.ofi_provider;
    struct exposure *exposure = &tcad->exposure;
    exposure->refused = rail;
    snprintf(exposure->why, sizeof exposure->why,
             "off: provider %.20s has no protection (rails.ofi_unprotected)",
             provider ? provider : "found");
    snprintf(
        exposure->remedy, sizeof exposure->remedy,
        "where nobody else can send a packet to the nodes, set ofi_unprotected = yes in [rails] "
        "of %.120s on all of them and restart tcad; see SECURITY in tcad(8)",
        tcad->conf->file ? tcad->conf->file : "tcad.conf");
}

const char *exposure_off(const struct tcad *tcad, enum rail rail)
{
    return rail != RAIL_NONE && tcad->exposure.refused == rail ? tcad->exposure.why : NULL;
}

const char *exposure_remedy(const struct tcad *tcad)
{
    return tcad->exposure.remedy;
}

static void warn(json_t *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void warn(json_t *list, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    json_array_append_new(list, json_string(text));
}

static void warn_of_rail(const struct tcad *tcad, enum rail rail, json_t *list)
{
    const struct driver *driver = engine_driver(tcad->engine, rail);
    const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
    struct driver_door door;
    if (!driver || !driver->ops->door)
        return;
    driver->ops->door(driver, &door);
    if (caps->unprotected)
        warn(list,
             "rail %s (%s) is unprotected (rails.ofi_unprotected = yes): whoever reaches %s can "
             "crash this daemon, read and alter data on the wire, and exhaust its descriptors; see "
             "SECURITY in tcad(8)",
             rail_name(rail), caps->detail, door.address);
}

json_t *exposure_warnings(const struct tcad *tcad)
{
    json_t *list = json_array();
    if (tcad->exposure.refused && tcad->cluster->count > 1)
        warn(list, "rail %s is %s, so it leads to no other node: %s",
             rail_name(tcad->exposure.refused), tcad->exposure.why, tcad->exposure.remedy);
    for (int rail = 1; rail < RAIL_COUNT; rail++)
        warn_of_rail(tcad, rail, list);
    return list;
}

void exposure_log(const struct tcad *tcad)
{
    json_t *list = exposure_warnings(tcad), *text;
    size_t i;
    json_array_foreach(list, i, text) log_warning(NULL, "%s", json_string_value(text));
    if (tcad->exposure.refused && tcad->cluster->count < 2)
        log_info(NULL, "rail %s is %s: this node is alone and needs none",
                 rail_name(tcad->exposure.refused), tcad->exposure.why);
    json_decref(list);
}
