/* The calls that free or close something take NULL, so that a program's clean-up needs no cases. */
#include <criterion/criterion.h>

#include "client/include/tca-admin.h"
#include "client/include/tca-api.h"
#include "client/include/tca-coll.h"
#include "client/include/tca-dcfa.h"
#include "client/include/tca-halo.h"
#include "client/include/tca-msg.h"
#include "client/include/tca-qmp.h"
#include "client/include/tca.h"

Test(null, is_freed_and_closed)
{
    cr_assert_null(tca_close(NULL));
    cr_assert_eq(tca_region_free(NULL), 0);
    cr_assert_eq(tca_free(NULL, NULL), 0);
    cr_assert_null(tca_layout_free(NULL));
    cr_assert_null(tca_plan_free(NULL));
    cr_assert_null(tca_admin_close(NULL));
    cr_assert_null(tca_coll_free(NULL));
    cr_assert_null(tca_halo_free(NULL));
    cr_assert_null(tca_msg_free(NULL));
    cr_assert_null(tca_msg_release(NULL));
    cr_assert_null(tca_qmp_free(NULL));
    cr_assert_null(dcfa_close(NULL));
    cr_assert_null(dcfa_host_close(NULL));
    cr_assert_eq(dcfa_pd_free(NULL), 0);
    cr_assert_eq(dcfa_cq_free(NULL), 0);
    cr_assert_eq(dcfa_qp_free(NULL), 0);
    cr_assert_eq(dcfa_mr_free(NULL), 0);
    cr_assert_eq(tcaDescFree(NULL), TCA_SUCCESS);
}
