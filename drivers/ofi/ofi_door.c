/* The address and port of an instance, if the provider uses IP. */
#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers/addresses.h"
#include "drivers/ofi/ofi.h"

bool ofi_info_unprotected(const struct fi_info *info)
{
    /* also below a utility provider: "tcp;ofi_rxm", "udp;ofi_rxd" */
    static const char *const providers[] = {"tcp", "net", "sockets", "udp"};
    const char *name = info->fabric_attr->prov_name;
    const size_t bytes = strcspn(name, ";");
    for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
        if (strlen(providers[i]) == bytes && strncmp(name, providers[i], bytes) == 0)
            return true;
    return false;
}

int ofi_resolve(const char *address, char ret_host[static OFI_HOST_MAX])
{
    struct addresses *found;
    if (addresses_parse(address, 0, &found) < 0 &&
        (if_nametoindex(address) != 0 || addresses_look_up(address, 0, &found) != 0))
        return -ENOENT; /* an interface, or the provider's name for one */
    address_text(&found->list[0], ret_host, OFI_HOST_MAX);
    free(found);
    return 0;
}

void ofi_name_text(const struct ofi_driver *ofi, const struct ofi_address *address, char *ret_text,
                   size_t text_bytes)
{
    const uint32_t format = ofi->info->addr_format;
    struct sockaddr_storage name = {0};
    char host[INET6_ADDRSTRLEN];

    *ret_text = '\0';
    memcpy(&name, address->name,
           address->name_bytes < sizeof(name) ? address->name_bytes : sizeof(name));
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&name;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&name;
    if (format != FI_SOCKADDR && format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6)
        return;
    if (name.ss_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof(host)))
        snprintf(ret_text, text_bytes, "%s:%u", host, ntohs(v4->sin_port));
    else if (name.ss_family == AF_INET6 && inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof(host)))
        snprintf(ret_text, text_bytes, "[%s]:%u", host, ntohs(v6->sin6_port));
}
