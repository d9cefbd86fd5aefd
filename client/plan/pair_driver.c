/* The drivers of connections are libraries of their own, because they bring others, OpenSSL or
 * libibverbs, which programs that have no such connections should not load. */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "client/core/error.h"
#include "client/core/session.h"
#include "client/plan/pair_internal.h"
#include "proto/limits.h"

struct library {
    const char *file, *table;
};

static const struct library libraries[] = {
    [DRIVER_TCP] = {"libtca-tcp.so.0", "tca_tcp_seat"},
    [DRIVER_HCA] = {"libtca-hca.so.0", "tca_hca_seat"},
};

static bool is_known(enum driver_id driver)
{
    return driver < sizeof(libraries) / sizeof(libraries[0]) && libraries[driver].file;
}

bool pairs_possible(const struct tca *session)
{
    bool others = false;
    for (uint32_t rank = 0; session->members && rank < session->identity.size; rank++)
        others |= session->members[rank].node != session->node;
    for (uint32_t rail = 1; others && rail <= session->rails.count; rail++)
        if (is_known(session->rails.at[rail].driver))
            return true;
    return false;
}

int seat_load(enum driver_id driver, const struct driver_seat **ret_seat)
{
    if (!is_known(driver))
        return error_static(-ENODEV, "this libtca has no driver for the rail's connections");
    const struct library *wanted = &libraries[driver];
    /* found beside this library, by its run path; stays loaded */
    void *library = dlopen(wanted->file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(-ENODEV, "cannot load the driver of connections: %s", dlerror());
    const struct driver_seat *seat = dlsym(library, wanted->table);
    if (!seat || seat->version != PROTO_VERSION)
        return error_set(-ENODEV,
                         "%s is of another release than this libtca: install the same of both",
                         wanted->file);
    *ret_seat = seat;
    return 0;
}

void pairs_tell_rails(struct tca *session)
{
    const struct driver_seat *seat;
    Tca__PairRails body = TCA__PAIR_RAILS__INIT;
    const Tca__Message message = REQUEST(PAIR_RAILS, pair_rails, &body);
    for (uint32_t rail = 1; rail <= session->rails.count; rail++) {
        const struct rail *at = &session->rails.at[rail];
        if (at->device_bytes > 0 && seat_load(at->driver, &seat) == 0 && seat->probe &&
            seat->probe(at->device, at->device_bytes) == 0)
            body.rails |= 1u << rail;
    }
    if (body.rails)
        control_send(&session->control, &message);
}

static int open_driver(struct tca *session, const struct driver_events *events,
                       struct pair_driver *via)
{
    int r = seat_load(session->rails.at[via->rail].driver, &via->seat);
    if (r < 0)
        return r;
    r = via->seat->open(session->rails.at[via->rail].device,
                        session->rails.at[via->rail].device_bytes, events, &via->driver);
    if (r < 0 && r != -ENOMEM)
        return error_set(-ENODEV,
                         "this process cannot use the device of the rail %s: %s; let tcad put "
                         "(TCA_SEAT_DAEMON)",
                         session->rails.at[via->rail].name, tca_strerror(r));
    return r;
}

int pairs_open_driver(struct tca *session, uint32_t rail, const struct driver_events *events,
                      struct pair_driver **ret_via)
{
    if (rail == 0 || rail > session->rails.count)
        return -EPROTO;
    struct pair_driver *via = calloc(1, sizeof(*via));
    if (!via)
        return -ENOMEM;
    via->rail = rail;
    int r = open_driver(session, events, via);
    if (r < 0) {
        free(via);
        return r;
    }
    *ret_via = via;
    return 0;
}
