/* The table of the ofi driver, which ofi.h describes. */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "drivers/interface.h"
#include "drivers/ofi/ofi.h"
#include "drivers/table.h"

/* "tcp:lo": the provider and the interface or domain; the utility provider on top is left out. */
static void say_device(const struct fi_info *info, struct driver_caps *caps)
{
    const char *provider = info->fabric_attr->prov_name;
    const int provider_bytes = (int)strcspn(provider, ";");
    char interface[IF_NAMESIZE] = "";
    if (info->src_addr && info->src_addrlen >= sizeof(struct sockaddr_in))
        interface_of(info->src_addr, interface, sizeof(interface));
    snprintf(caps->device, sizeof(caps->device), "%.*s:%.15s", provider_bytes, provider,
             interface[0] ? interface : info->domain_attr->name);
    snprintf(caps->medium, sizeof(caps->medium), "%s", provider);
}

static int ofi_probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    struct fi_info *info;
    int r = ofi_getinfo(config, &info);
    if (r < 0)
        return r;
    if (ofi_info_unprotected(info) && !ofi_config_of(config)->unprotected) {
        fi_freeinfo(info);
        return -EPERM;
    }
    *ret_caps = (struct driver_caps){
        .same_node = true,
        .other_nodes = true,
        .ordered = ofi_info_ordered(info),
        .inline_bytes = OFI_INLINE_BYTES,
        .unprotected = ofi_info_unprotected(info),
    };
    snprintf(ret_caps->detail, sizeof(ret_caps->detail), "%s over %s", info->fabric_attr->prov_name,
             info->domain_attr->name);
    say_device(info, ret_caps);
    fi_freeinfo(info);
    return 0;
}

static int ofi_address(struct driver *driver, void *ret_address)
{
    const struct ofi_driver *ofi = ofi_of(driver);
    memcpy(ret_address, &ofi->address, sizeof(ofi->address));
    return sizeof(ofi->address);
}

static void ofi_door(const struct driver *driver, struct driver_door *ret_door)
{
    const struct ofi_driver *ofi = (const struct ofi_driver *)driver;
    *ret_door = (struct driver_door){
        .forged = atomic_load_explicit(&ofi->forged, memory_order_relaxed),
        .guarded = ofi->filter.in_force,
    };
    ofi_name_text(ofi, &ofi->address, ret_door->address, sizeof(ret_door->address));
}

const struct driver_ops ofi_driver_ops = {
    .name = "ofi",
    .id = DRIVER_OFI,
    .probe = ofi_probe,
    .open = ofi_open_driver,
    .close = ofi_close,
    .address = ofi_address,
    .region_add = ofi_region_add,
    .region_remove = ofi_region_remove,
    .peer_connect = ofi_peer_connect,
    .peer_disconnect = ofi_peer_disconnect,
    .peer_fail = ofi_peer_fail,
    .landing_compile = packed_landing_compile,
    .landing_new = ofi_landing_new,
    .landing_free = ofi_landing_free,
    .landing_bytes = ofi_landing_bytes,
    .put_compile = packed_put_compile,
    .put_prepare = ofi_put_prepare,
    .put_release = ofi_put_release,
    .put_part = ofi_put_part,
    .put_post = ofi_put_post,
    .put_stop = window_put_stop,
    .peer_flush = ofi_peer_flush,
    .progress = ofi_progress,
    .event_fd = ofi_event_fd,
    .arm = ofi_arm,
    .door = ofi_door,
    .admit = ofi_admit,
    .shut = ofi_shut,
};
