/* Names and version for programs to print. */
#include <assert.h>

#include "client/include/tca.h"
#include "proto/lane.h"

static_assert((int)TCA_RAIL_SHM == (int)DRIVER_SHM && (int)TCA_RAIL_OFI == (int)DRIVER_OFI &&
                  (int)TCA_RAIL_HCA == (int)DRIVER_HCA &&
                  (int)TCA_RAIL_PEACH2 == (int)DRIVER_PEACH2 &&
                  (int)TCA_RAIL_TCP == (int)DRIVER_TCP,
              "public and wire values are the same");
static_assert((int)TCA_SEAT_CLIENT == (int)SEAT_CLIENT && (int)TCA_SEAT_DAEMON == (int)SEAT_DAEMON,
              "public and wire values are the same");

static_assert((int)TCA_COPY_PUSH == (int)COPY_PUSH && (int)TCA_COPY_RING == (int)COPY_RING,
              "public and wire values are the same");

static_assert((int)TCA_ENCRYPTION_TLS == (int)ENCRYPTION_TLS &&
                  (int)TCA_ENCRYPTION_NONE == (int)ENCRYPTION_NONE,
              "public and wire values are the same");

const char *tca_version(void)
{
    return TCAD_VERSION;
}

const char *tca_rail_name(enum tca_rail rail)
{
    const char *name = driver_name((enum driver_id)rail);
    return name ? name : "?";
}

const char *tca_copy_method_name(enum tca_copy_method method)
{
    const char *name = copy_method_name((enum copy_method)method);
    return method == TCA_COPY_NONE ? "none" : name ? name : "?";
}

const char *tca_seat_name(enum tca_seat seat)
{
    const char *name = seat_name((enum seat)seat);
    return name ? name : "?";
}

const char *tca_encryption_name(enum tca_encryption encryption)
{
    const char *name = encryption_name((enum encryption)encryption);
    return name ? name : "?";
}
