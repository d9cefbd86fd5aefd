#include "daemon/base/addresses_own.h"

#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST_BYTES = INET6_ADDRSTRLEN + IF_NAMESIZE + 1, ASK_MAX = 4 };

static bool any(const struct addresses *addresses, bool (*is)(const struct address *address))
{
    for (unsigned i = 0; i < addresses->count; i++)
        if (is(&addresses->list[i]))
            return true;
    return false;
}

/* Whether this machine has it. */
static bool is_here(const struct address *address)
{
    struct address any_port = *address;
    int fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address_set_port(&any_port, 0);
    const bool here = fd >= 0 && bind(fd, (struct sockaddr *)&any_port.at, any_port.bytes) == 0;
    if (fd >= 0)
        close(fd);
    return here;
}

/* The address that packets to this one come from. */
static bool find_source(const struct address *to, struct address *ret_address)
{
    struct address from = {.bytes = sizeof(from.at)};
    int fd = socket(to->at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const bool found = fd >= 0 && connect(fd, (const struct sockaddr *)&to->at, to->bytes) == 0 &&
                       getsockname(fd, (struct sockaddr *)&from.at, &from.bytes) == 0;
    if (fd >= 0)
        close(fd);
    if (found)
        *ret_address = from;
    return found && address_is_outside(&from);
}

struct search {
    uint16_t port;
    bool outside; /* another host has, or may have, an address outside */
    struct address found;
    const char *reaches; /* from there; NULL: none */
};

static void ask(struct search *search, const char *other)
{
    struct addresses *addresses;
    if (addresses_parse(other, search->port, &addresses) < 0 &&
        addresses_look_up(other, search->port, &addresses) != 0) {
        search->outside = true;
        return;
    }
    search->outside |= any(addresses, address_is_outside);
    for (unsigned i = 0; i < addresses->count && !search->reaches; i++)
        if (address_is_outside(&addresses->list[i]) &&
            find_source(&addresses->list[i], &search->found))
            search->reaches = other;
    free(addresses);
}

/* Nobody else can reach this machine at these addresses: finds another one, if others are
 * outside. */
static int leave_loopback(const char *what, const char *host, struct search *search,
                          const char *const *others, size_t count, struct addresses *addresses,
                          char *ret_text, size_t text_bytes)
{
    char loopback[HOST_BYTES], instead[HOST_BYTES];
    address_text(&addresses->list[0], loopback, sizeof(loopback));
    for (size_t i = 0; i < count && i < ASK_MAX && !search->reaches; i++)
        ask(search, others[i]);
    if (!search->outside)
        return 0;
    if (!search->reaches) {
        snprintf(ret_text, text_bytes,
                 "%s: %s is %s on this machine, which no other node can reach (Debian has such a "
                 "line in /etc/hosts): give it its address in the network there, or set %s to that",
                 what, host, loopback, what);
        return -EADDRNOTAVAIL;
    }
    address_set_port(&search->found, search->port);
    addresses->list[0] = search->found;
    addresses->count = 1;
    address_text(&addresses->list[0], instead, sizeof(instead));
    snprintf(
        ret_text, text_bytes,
        "%s: %s is %s on this machine, which no other node can reach (Debian has such a line "
        "in /etc/hosts): taking %s, from which it reaches %s; give the name its address in the "
        "network there, or set %s",
        what, host, loopback, instead, search->reaches, what);
    return 0;
}

int addresses_own(const char *what, const char *host, uint16_t port, const char *const *others,
                  size_t count, struct addresses **ret_addresses, char *ret_text, size_t text_bytes)
{
    struct search search = {.port = port};
    struct addresses *addresses;
    *ret_text = '\0';
    int r = addresses_parse(host, port, ret_addresses);
    if (r != -EINVAL)
        return r;
    r = addresses_look_up(host, port, &addresses);
    if (r != 0) {
        snprintf(ret_text, text_bytes, "%s: cannot look %s up: %s", what, host, gai_strerror(r));
        return r == EAI_MEMORY ? -ENOMEM : -EADDRNOTAVAIL;
    }
    addresses_keep(addresses, is_here);
    addresses_keep(addresses, address_is_outside);
    r = any(addresses, address_is_outside)
            ? 0
            : leave_loopback(what, host, &search, others, count, addresses, ret_text, text_bytes);
    if (r < 0) {
        free(addresses);
        return r;
    }
    *ret_addresses = addresses;
    return 0;
}
