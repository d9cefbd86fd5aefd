#include "drivers/interface.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_equal(const struct sockaddr *a, const struct sockaddr *b)
{
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
               ((const struct sockaddr_in *)b)->sin_addr.s_addr;
    return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                  &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static bool is_within(const struct sockaddr *address, const struct ifaddrs *interface)
{
    const struct sockaddr_in *a = (const struct sockaddr_in *)address,
                             *b = (const struct sockaddr_in *)interface->ifa_addr,
                             *mask = (const struct sockaddr_in *)interface->ifa_netmask;
    return address->sa_family == AF_INET && mask &&
           !((a->sin_addr.s_addr ^ b->sin_addr.s_addr) & mask->sin_addr.s_addr);
}

void interface_of(const struct sockaddr *address, char *ret_name, size_t name_bytes)
{
    struct ifaddrs *all;
    const char *found = NULL;
    bool exact = false;
    *ret_name = '\0';
    if ((address->sa_family != AF_INET && address->sa_family != AF_INET6) || getifaddrs(&all) < 0)
        return;
    for (const struct ifaddrs *one = all; one && !exact; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != address->sa_family)
            continue;
        exact = is_equal(address, one->ifa_addr);
        if (exact || (!found && is_within(address, one)))
            found = one->ifa_name;
    }
    if (found)
        snprintf(ret_name, name_bytes, "%s", found);
    freeifaddrs(all);
}
