#include "daemon/rails/exposure.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/log.h"
#include "daemon/base/loop.h"
#include "daemon/engine/engine.h"
#include "daemon/rails/abandoned.h"
#include "daemon/rails/rails.h"
#include "daemon/sessions/descriptors.h"
#include "daemon/tcad.h"

#define LOOK_EVERY_NS UINT64_C(2000000000)

static void warn(json_t *list, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void warn(json_t *list, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    json_array_append_new(list, json_string(text));
}

static void warn_of_descriptors(const struct tcad *tcad, json_t *list)
{
    const struct descriptors descriptors = descriptors_now();
    if (tcad->exposure.shut)
        warn(list,
             "%llu of %llu descriptors are in use: until some are free, the rails' ports accept no "
             "new connections, so that clients can still connect; ss -tnp shows who holds "
             "connections. "
             "libfabric may have leaked them: a restart frees them; LimitNOFILE= of the unit "
             "raises the limit",
             (unsigned long long)descriptors.used, (unsigned long long)descriptors.limit);
}

/* A rail that is off for lack of protection. */
static bool is_refused(const struct rail *rail)
{
    return !rail->open && *rail->remedy;
}

static void warn_of_rail(const struct tcad *tcad, unsigned rail, json_t *list)
{
    const struct rail *at = rail_at(tcad, rail);
    const struct driver *driver = engine_driver(tcad->engine, rail);
    const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
    struct driver_door door;
    if (is_refused(at) && tcad->cluster->count > 1)
        warn(list, "rail %s is %s, so it leads to no other node: %s", at->name, at->off_text,
             at->remedy);
    if (!driver || !driver->ops->door)
        return;
    driver->ops->door(driver, &door);
    if (caps->unprotected)
        warn(list,
             "rail %s (%s) is unprotected (%s = yes): anyone who can send to %s%s can crash this "
             "daemon, exhaust its descriptors, forge and alter data; see SECURITY "
             "in tcad(8)",
             at->name, caps->detail, at->unprotected_key, door.address,
             door.guarded ? ", from the address of a node that is connected," : "");
    if (tcad->exposure.leaked[rail])
        warn(list,
             "rail %s: %llu descriptors are those of connections to %s that have ended, and that "
             "libfabric keeps: someone connects there and sends nothing, or garbage; only a "
             "restart frees them; see SECURITY in tcad(8)",
             at->name, (unsigned long long)tcad->exposure.leaked[rail], door.address);
    if (door.forged)
        warn(
            list,
            "rail %s: %llu connections, completions and messages that no peer of this run can have "
            "sent were rejected: another party reaches %s, or data that a peer had sent before a "
            "restart arrived late; see SECURITY in tcad(8)",
            rail_name(tcad, rail), (unsigned long long)door.forged, door.address);
}

json_t *exposure_warnings(const struct tcad *tcad)
{
    json_t *list = json_array();
    for (unsigned rail = 1; rail <= tcad->rails->count; rail++)
        warn_of_rail(tcad, rail, list);
    warn_of_descriptors(tcad, list);
    return list;
}

uint64_t exposure_forged(const struct tcad *tcad, unsigned rail)
{
    const struct driver *driver = engine_driver(tcad->engine, rail);
    struct driver_door door = {0};
    if (driver && driver->ops->door)
        driver->ops->door(driver, &door);
    return door.forged;
}

uint64_t exposure_leaked(const struct tcad *tcad, unsigned rail)
{
    return tcad->exposure.leaked[rail];
}

unsigned exposure_reserve(uint64_t limit)
{
    const uint64_t most = sizeof((struct exposure *)0)->spare / sizeof(int);
    return (unsigned)(limit / RESERVE_SHARE < most ? limit / RESERVE_SHARE : most);
}

/* Reserves descriptors by opening dummies, so that connections from the network cannot use them.
 * They have the highest numbers: when they are released, the lowest free one still says how many
 * are in use (descriptors_now()). */
static void take_spare(struct exposure *exposure, uint64_t limit)
{
    const unsigned most = exposure_reserve(limit);
    while (exposure->spare_count < most) {
        int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, limit > most ? (int)(limit - most) : 0);
        if (fd < 0)
            return;
        exposure->spare[exposure->spare_count++] = fd;
    }
}

static void give_spare(struct exposure *exposure, unsigned keep)
{
    while (exposure->spare_count > keep)
        close(exposure->spare[--exposure->spare_count]);
}

static void shut_rails(struct tcad *tcad, bool shut)
{
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        struct driver *driver = engine_driver(tcad->engine, rail);
        if (driver && driver->ops->shut)
            driver->ops->shut(driver, shut);
    }
    tcad->exposure.shut = shut;
}

/* Limits the descriptors of connections, and those that libfabric leaks, as libfabric has no
 * limit. */
static void watch_descriptors(struct tcad *tcad)
{
    struct exposure *exposure = &tcad->exposure;
    struct descriptors now = descriptors_now();
    const uint64_t reserve = now.limit / RESERVE_SHARE;
    now.used += exposure->spare_count;
    now.used = now.used < now.limit ? now.used : now.limit;
    if (!exposure->shut && now.used > now.limit - reserve) {
        if (exposure->spare_count > 0) /* one, to refuse pending connections with */
            give_spare(exposure, exposure->spare_count - 1);
        shut_rails(tcad, true);
        give_spare(exposure, 0);
        log_warning(NULL,
                    "%llu of %llu descriptors are in use: the rails' ports accept no new "
                    "connections until some are free; see SECURITY in tcad(8)",
                    (unsigned long long)now.used, (unsigned long long)now.limit);
    } else if (exposure->shut && now.used < now.limit - 3 * reserve) {
        take_spare(exposure, now.limit);
        shut_rails(tcad, false);
        log_info(NULL, "%llu of %llu descriptors are in use: the rails' ports are open again",
                 (unsigned long long)now.used, (unsigned long long)now.limit);
    }
}

bool exposure_give_up(struct tcad *tcad)
{
    const bool had_some = tcad->exposure.spare_count > 0;
    if (had_some)
        watch_descriptors(tcad);
    return had_some && tcad->exposure.spare_count == 0;
}

static void check_rail(struct tcad *tcad, unsigned rail)
{
    uint64_t *logged = &tcad->exposure.forged[rail];
    const uint64_t forged = exposure_forged(tcad, rail);
    /* logs when the number has doubled */
    if (forged == 0 || forged < 2 * *logged)
        return;
    log_warning(
        NULL,
        "rail %s: %llu completions and messages that no peer of this run can have sent were "
        "ignored so far; see SECURITY in tcad(8)",
        rail_name(tcad, rail), (unsigned long long)forged);
    *logged = forged;
}

static uint16_t unprotected_port(const struct tcad *tcad, unsigned rail)
{
    const struct driver *driver = engine_driver(tcad->engine, rail);
    const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
    struct driver_door door = {0};
    if (!driver || !caps->unprotected || !driver->ops->door)
        return 0;
    driver->ops->door(driver, &door);
    const char *colon = strrchr(door.address, ':');
    return colon ? (uint16_t)atoi(colon + 1) : 0;
}

/* A connection that is just being closed will not be there at the next check. */
static void check_leaks(struct tcad *tcad)
{
    struct exposure *exposure = &tcad->exposure;
    uint16_t ports[RAIL_SLOTS] = {0};
    uint64_t counts[RAIL_SLOTS];
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        ports[rail] = unprotected_port(tcad, rail);
    abandoned_count(ports, counts);
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        exposure->leaked[rail] =
            counts[rail] < exposure->seen[rail] ? counts[rail] : exposure->seen[rail];
        exposure->seen[rail] = counts[rail];
        /* logs when the number has doubled */
        if (exposure->leaked[rail] == 0 ||
            exposure->leaked[rail] < 2 * exposure->leaks_logged[rail])
            continue;
        log_warning(NULL,
                    "rail %s: libfabric keeps %llu descriptors of connections that have ended; see "
                    "SECURITY in tcad(8)",
                    rail_name(tcad, rail), (unsigned long long)exposure->leaked[rail]);
        exposure->leaks_logged[rail] = exposure->leaked[rail];
    }
}

static void check(void *context)
{
    struct tcad *tcad = context;
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++)
        check_rail(tcad, rail);
    check_leaks(tcad);
    watch_descriptors(tcad);
}

void exposure_watch(struct tcad *tcad)
{
    bool unprotected = false;
    for (unsigned rail = 1; rail <= tcad->rails->last; rail++) {
        const struct driver_caps *caps = engine_driver_caps(tcad->engine, rail);
        unprotected |= caps && caps->unprotected;
    }
    if (!unprotected || loop_timer_new(tcad->loop, check, tcad, &tcad->exposure.timer) < 0)
        return;
    take_spare(&tcad->exposure, descriptors_now().limit);
    loop_timer_set(tcad->exposure.timer, LOOK_EVERY_NS, LOOK_EVERY_NS);
}

void exposure_end(struct tcad *tcad)
{
    tcad->exposure.timer = loop_timer_free(tcad->exposure.timer);
    give_spare(&tcad->exposure, 0);
}

void exposure_log(const struct tcad *tcad)
{
    json_t *list = exposure_warnings(tcad), *text;
    size_t i;
    json_array_foreach(list, i, text) log_warning(NULL, "%s", json_string_value(text));
    for (unsigned rail = 1; rail <= tcad->rails->count && tcad->cluster->count < 2; rail++)
        if (is_refused(rail_at(tcad, rail)))
            log_info(NULL, "rail %s is %s: this node is alone and needs none",
                     rail_name(tcad, rail), rail_at(tcad, rail)->off_text);
    json_decref(list);
}
