// The public headers from C++: compiles, links, and runs without a daemon.
#include <cerrno>
#include <cstring>
#include <tca-admin.h>
#include <tca-dcfa.h>
#include <tca-group.h>
#include <tca-halo.h>
#include <tca-msg.h>
#include <tca-qmp.h>
#include <tca-signal.h>
#include <tca.h>

int main()
{
    tca_layout *layout = nullptr;
    if (tca_layout_strided(4, 8, 16, &layout) != 0 || tca_layout_size(layout) != 32)
        return 1;
    tca_layout_free(layout);
    tca_plan_args args{};
    args.rail = TCA_RAIL_SHM;
    tca_handle handle{};
    if (tca_handle_node(&handle) != -EINVAL || std::strlen(tca_error_text()) == 0)
        return 2;
    tca_admin *admin = nullptr;
    if (tca_admin_open("/nonexistent/tcad.sock", 0, &admin) != -ECONNREFUSED)
        return 3;
    return args.rail == TCA_RAIL_SHM ? 0 : 4;
}
