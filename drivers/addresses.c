#include "drivers/addresses.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct addresses *empty(void)
{
    struct addresses *addresses;
    return calloc(1, sizeof(*addresses) + ADDRESSES_MAX * sizeof(addresses->list[0]));
}

static void add(struct addresses *addresses, const struct sockaddr *at, socklen_t bytes)
{
    struct address *address = &addresses->list[addresses->count++];
    memcpy(&address->at, at, bytes);
    address->bytes = bytes;
}

void addresses_interleave(struct addresses *addresses)
{
    struct address in_turn[ADDRESSES_MAX];
    const sa_family_t first = addresses->list[0].at.ss_family;
    uint32_t left = (1u << addresses->count) - 1;
    for (unsigned n = 0; n < addresses->count; n++) {
        unsigned which = (unsigned)__builtin_ctz(left);
        for (unsigned i = which; i < addresses->count; i++) {
            const bool is_first = addresses->list[i].at.ss_family == first;
            if (left & 1u << i && is_first == (n % 2 == 0)) {
                which = i;
                break;
            }
        }
        in_turn[n] = addresses->list[which];
        left &= ~(1u << which);
    }
    memcpy(addresses->list, in_turn, addresses->count * sizeof(in_turn[0]));
}

void addresses_keep(struct addresses *addresses, bool (*is)(const struct address *address))
{
    unsigned kept = 0;
    for (unsigned i = 0; i < addresses->count; i++)
        if (is(&addresses->list[i]))
            addresses->list[kept++] = addresses->list[i];
    addresses->count = kept > 0 ? kept : addresses->count;
}

/* 0 or an error of getaddrinfo(). */
static int look_up(const char *host, uint16_t port, int flags, struct addresses **ret_addresses)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags};
    struct addrinfo *found;
    char number[8];
    snprintf(number, sizeof(number), "%u", port);
    int r = getaddrinfo(host, number, &hints, &found);
    if (r != 0)
        return r;
    struct addresses *addresses = empty();
    if (!addresses) {
        freeaddrinfo(found);
        return EAI_MEMORY;
    }
    for (const struct addrinfo *one = found; one && addresses->count < ADDRESSES_MAX;
         one = one->ai_next)
        add(addresses, one->ai_addr, one->ai_addrlen);
    freeaddrinfo(found);
    addresses_interleave(addresses);
    *ret_addresses = addresses;
    return 0;
}

int addresses_parse(const char *host, uint16_t port, struct addresses **ret_addresses)
{
    int r = look_up(host, port, AI_NUMERICHOST, ret_addresses);
    return r == 0 ? 0 : r == EAI_MEMORY ? -ENOMEM : -EINVAL;
}

int addresses_look_up(const char *host, uint16_t port, struct addresses **ret_addresses)
{
    return look_up(host, port, AI_ADDRCONFIG, ret_addresses);
}

bool address_is_outside(const struct address *address)
{
    return !address_is_loopback(address);
}

bool address_is_loopback(const struct address *address)
{
    if (address->at.ss_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)&address->at)->sin_addr.s_addr) >> 24 == 127;
    return address->at.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&address->at)->sin6_addr);
}

bool address_is_link_local(const struct address *address)
{
    return address->at.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)&address->at)->sin6_addr);
}

uint16_t address_port(const struct address *address)
{
    return ntohs(address->at.ss_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)&address->at)->sin6_port
                     : ((const struct sockaddr_in *)&address->at)->sin_port);
}

void address_set_port(struct address *address, uint16_t port)
{
    if (address->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->at)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address->at)->sin_port = htons(port);
}

void address_text(const struct address *address, char *ret_text, size_t text_bytes)
{
    if (getnameinfo((const struct sockaddr *)&address->at, address->bytes, ret_text,
                    (socklen_t)text_bytes, NULL, 0, NI_NUMERICHOST) != 0)
        snprintf(ret_text, text_bytes, "?");
}

int addresses_of_interface(const char *name, struct addresses **ret_addresses)
{
    struct addresses *addresses = empty();
    struct ifaddrs *all;
    if (!addresses || getifaddrs(&all) < 0) {
        free(addresses);
        return -ENOMEM;
    }
    for (const struct ifaddrs *one = all; one && addresses->count < ADDRESSES_MAX;
         one = one->ifa_next) {
        const int family = one->ifa_addr ? one->ifa_addr->sa_family : AF_UNSPEC;
        if ((family != AF_INET && family != AF_INET6) || strcmp(one->ifa_name, name) != 0)
            continue;
        add(addresses, one->ifa_addr,
            family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
    }
    freeifaddrs(all);
    if (addresses->count == 0) {
        free(addresses);
        return -ENODEV;
    }
    addresses_interleave(addresses);
    *ret_addresses = addresses;
    return 0;
}
