#include "config/address.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int complain(char *why, size_t why_bytes, const char *text)
{
    snprintf(why, why_bytes, "%s", text);
    return -EINVAL;
}

static int parse_port(const char *text, uint16_t *ret_port)
{
    unsigned long port = 0;

    if (!*text || strlen(text) > 5)
        return -EINVAL;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text))
            return -EINVAL;
        port = 10 * port + (unsigned long)(*text - '0');
    }
    if (port == 0 || port > UINT16_MAX)
        return -EINVAL;
    *ret_port = (uint16_t)port;
    return 0;
}

/* Letters, digits and - _ .; a host of only digits and dots must be an IPv4 address. */
static bool host_name_valid(const char *host)
{
    struct in_addr ip4;
    bool numeric = true;

    for (const char *p = host; *p; p++) {
        if (!isalnum((unsigned char)*p) && *p != '.' && *p != '-' && *p != '_')
            return false;
        if (!isdigit((unsigned char)*p) && *p != '.')
            numeric = false;
    }
    if (numeric)
        return inet_pton(AF_INET, host, &ip4) == 1;
    return host[0] != '-' && host[0] != '.';
}

int config_address_parse(const char *text, uint16_t default_port,
                         struct config_address *ret_address, char *why, size_t why_bytes)
{
    struct config_address address = {.port = default_port};
    bool ip6 = text[0] == '[';
    size_t host_bytes = ip6 ? strcspn(++text, "]") : strcspn(text, ":");
    const char *rest = text + host_bytes;
    struct in6_addr ignored;

    if (ip6 && *rest++ != ']')
        return complain(why, why_bytes, "the bracket around the IPv6 address is not closed");
    if (host_bytes == 0)
        return complain(why, why_bytes, "the host before the port is missing");
    if (host_bytes >= sizeof(address.host))
        return complain(why, why_bytes, "the host is longer than 253 characters");
    memcpy(address.host, text, host_bytes);

    if (!ip6 && *rest && strchr(rest + 1, ':'))
        return complain(why, why_bytes, "write an IPv6 address in brackets: [2001:db8::7]:7080");
    if (ip6 && strchr(address.host, '%'))
        return complain(why, why_bytes,
                        "an address of one interface (%) leads elsewhere from other nodes; use one "
                        "without %");
    if (ip6 && inet_pton(AF_INET6, address.host, &ignored) != 1)
        return complain(why, why_bytes, "the text in brackets is not an IPv6 address");
    if (!ip6 && !host_name_valid(address.host))
        return complain(why, why_bytes, "the host is neither an IPv4 address nor a host name");
    if (*rest && *rest != ':')
        return complain(why, why_bytes, "only a colon and the port may follow the bracket");
    if (*rest && parse_port(rest + 1, &address.port) < 0)
        return complain(why, why_bytes, "the port is not a number from 1 to 65535");
    if (address.port == 0)
        return complain(why, why_bytes, "the port is missing: write HOST:PORT");
    *ret_address = address;
    return 0;
}

void config_address_format(const struct config_address *address,
                           char text[static CONFIG_ADDRESS_TEXT_MAX])
{
    if (!address->host[0])
        text[0] = '\0';
    else
        snprintf(text, CONFIG_ADDRESS_TEXT_MAX, strchr(address->host, ':') ? "[%s]:%u" : "%s:%u",
                 address->host, address->port);
}

bool config_address_equal(const struct config_address *a, const struct config_address *b)
{
    return a->port == b->port && strcmp(a->host, b->host) == 0;
}
