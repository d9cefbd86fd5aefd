#include <criterion/criterion.h>
#include <errno.h>

#include "client/core/error.h"
#include "client/include/tca.h"
#include "proto/message.h"
#include "proto/status.h"

Test(names, are_never_null)
{
    cr_assert_str_eq(tca_rail_name(TCA_RAIL_SHM), "shm");
    cr_assert_str_eq(tca_rail_name(TCA_RAIL_OFI), "ofi");
    cr_assert_str_eq(tca_rail_name(TCA_RAIL_ANY), "?");
    cr_assert_str_eq(tca_rail_name((enum tca_rail)1000), "?");
    cr_assert_str_eq(tca_seat_name(TCA_SEAT_DAEMON), "daemon");
    cr_assert_str_eq(tca_seat_name((enum tca_seat) - 1), "?");
    cr_assert_str_eq(tca_copy_method_name(TCA_COPY_NONE), "none");
    cr_assert_str_eq(tca_copy_method_name(TCA_COPY_RING), "ring");
    cr_assert_str_eq(tca_copy_method_name((enum tca_copy_method)5), "?");
    cr_assert_str_eq(tca_encryption_name(TCA_ENCRYPTION_LOCAL), "local");
    cr_assert_str_eq(tca_encryption_name(TCA_ENCRYPTION_TLS), "tls");
    cr_assert_str_eq(tca_encryption_name(TCA_ENCRYPTION_NONE), "none");
    cr_assert_str_eq(tca_encryption_name((enum tca_encryption)3), "?");
    cr_assert_str_eq(tca_strerror(-ESTALE), "stale handle");
    cr_assert_str_eq(tca_version(), TCAD_VERSION);
}

Test(names, errors_keep_their_text)
{
    cr_assert_str_eq(tca_error_text(), "");
    cr_assert_eq(error_set(-EINVAL, "step %d", 3), -EINVAL);
    cr_assert_str_eq(tca_error_text(), "step 3");
    cr_assert_eq(error_prefix(-EINVAL, "chain %d: ", 1), -EINVAL);
    cr_assert_str_eq(tca_error_text(), "chain 1: step 3");
    Tca__Failure failure =
        BODY_OF(failure, .status = status_to_wire(-EDQUOT), .text = (char *)"full");
    cr_assert_eq(error_wire(&failure), -EDQUOT);
    cr_assert_str_eq(tca_error_text(), "full");
    failure.status = 0;
    cr_assert_eq(error_wire(&failure), -EPROTO, "a failure that is none");
}
