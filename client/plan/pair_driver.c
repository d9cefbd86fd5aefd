/* The driver of connections is a library of its own, because it brings OpenSSL, which programs that
 * have no such connections should not load. */
#include <dlfcn.h>
#include <errno.h>

#include "client/core/error.h"
#include "client/plan/pair_internal.h"
#include "proto/limits.h"

#define LIBRARY "libtca-tcp.so.0"

int seat_load(const struct tcp_seat **ret_seat)
{
    /* found beside this library, by its run path; stays loaded */
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(-ENODEV, "cannot load the driver of connections: %s", dlerror());
    const struct tcp_seat *seat = dlsym(library, "tca_tcp_seat");
    if (!seat || seat->version != PROTO_VERSION)
        return error_set(-ENODEV,
                         LIBRARY " is of another release than this libtca: install the same of "
                                 "both");
    *ret_seat = seat;
    return 0;
}
