#include "proto/status.h"

#include <criterion/criterion.h>
#include <errno.h>

/* All errors that the project's interfaces document. */
static const int used[] = {
    EPERM,        ENOENT,          EINTR,        EIO,        EAGAIN,    ENOMEM,
    EACCES,       EBUSY,           EEXIST,       ENODEV,     EINVAL,    EMFILE,
    ENOSPC,       EPIPE,           EDQUOT,       EPROTO,     EOVERFLOW, EMSGSIZE,
    ESTALE,       EOWNERDEAD,      ECANCELED,    ETIMEDOUT,  ENETDOWN,  EHOSTDOWN,
    ECONNRESET,   ENOTCONN,        E2BIG,        EOPNOTSUPP, EFBIG,     EROFS,
    ENODATA,      EPROTONOSUPPORT, ECONNREFUSED, ENFILE,     ENXIO,     EHOSTUNREACH,
    EKEYREJECTED,
};

Test(status, there_and_back)
{
    cr_assert_eq(status_to_wire(0), 0);
    cr_assert_eq(status_from_wire(0), 0);
    for (size_t i = 0; i < sizeof(used) / sizeof(*used); i++) {
        uint32_t code = status_to_wire(-used[i]);
        cr_assert_neq(code, 0, "errno %d", used[i]);
        cr_assert_eq(status_from_wire(code), -used[i], "errno %d", used[i]);
        cr_assert_str_neq(status_text(-used[i]), "unknown error", "errno %d", used[i]);
    }
}

Test(status, codes_are_all_different_and_without_holes)
{
    uint32_t code = 0;
    for (; status_from_wire(code) != -EPROTO || code == status_to_wire(-EPROTO); code++) {
        cr_assert_eq(status_to_wire(status_from_wire(code)), code, "code %u", code);
        cr_assert_not_null(status_text(status_from_wire(code)));
    }
    cr_assert_gt(code, sizeof(used) / sizeof(*used));
}

/* Released numbers, which may never change. */
Test(status, numbers_stay)
{
    cr_assert_eq(status_to_wire(-EIO), 1);
    cr_assert_eq(status_to_wire(-EINVAL), 11);
    cr_assert_eq(status_to_wire(-ENETDOWN), 21);
    cr_assert_eq(status_to_wire(-EHOSTDOWN), 22);
    cr_assert_eq(status_to_wire(-ESTALE), 23);
    cr_assert_eq(status_to_wire(-EOWNERDEAD), 24);
    cr_assert_eq(status_to_wire(-ETIMEDOUT), 26);
}

Test(status, strangers)
{
    cr_assert_eq(status_to_wire(-EXDEV), status_to_wire(-EIO));
    cr_assert_eq(status_to_wire(EINVAL), status_to_wire(-EIO), "positive numbers are no errors");
    cr_assert_eq(status_from_wire(1u << 31), -EPROTO);
    cr_assert_eq(status_from_wire(UINT32_MAX), -EPROTO);
    cr_assert_str_eq(status_text(-EXDEV), "unknown error");
    cr_assert_str_eq(status_text(-ESTALE), "stale handle");
    cr_assert_str_eq(status_text(-EOWNERDEAD), "owner died");
}
