#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "config/address.h"

static const struct {
    const char *text, *host;
    unsigned port;
    const char *back;
} good[] = {
    {"10.0.0.7:7081", "10.0.0.7", 7081, "10.0.0.7:7081"},
    {"10.0.0.7", "10.0.0.7", 7080, "10.0.0.7:7080"},
    {"[2001:db8::7]:7080", "2001:db8::7", 7080, "[2001:db8::7]:7080"},
    {"[::]", "::", 7080, "[::]:7080"},
    {"node7.example.org:1", "node7.example.org", 1, "node7.example.org:1"},
    {"node_7:65535", "node_7", 65535, "node_7:65535"},
};

static const struct {
    const char *text, *why;
} bad[] = {
    {"", "the host before the port is missing"},
    {":7080", "the host before the port is missing"},
    {"[]:7080", "the host before the port is missing"},
    {"10.0.0.7:", "the port is not a number from 1 to 65535"},
    {"10.0.0.7:0", "the port is not a number from 1 to 65535"},
    {"10.0.0.7:65536", "the port is not a number from 1 to 65535"},
    {"10.0.0.7:000001", "the port is not a number from 1 to 65535"},
    {"10.0.0.7:-1", "the port is not a number from 1 to 65535"},
    {"10.0.0.7:70 80", "the port is not a number from 1 to 65535"},
    {"10.0.0.256", "the host is neither an IPv4 address nor a host name"},
    {"10.0.0", "the host is neither an IPv4 address nor a host name"},
    {"-node", "the host is neither an IPv4 address nor a host name"},
    {"no de", "the host is neither an IPv4 address nor a host name"},
    {"2001:db8::7", "write an IPv6 address in brackets: [2001:db8::7]:7080"},
    {"[2001:db8::7", "the bracket around the IPv6 address is not closed"},
    {"[2001:db8::7]7080", "only a colon and the port may follow the bracket"},
    {"[fe80::1%eth0]",
     "an address of one interface (%) leads elsewhere from other nodes; use one without %"},
    {"[10.0.0.7]:7080", "the text in brackets is not an IPv6 address"},
};

Test(address, good)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        struct config_address address, again;
        char why[128] = "", text[CONFIG_ADDRESS_TEXT_MAX];

        cr_assert_eq(config_address_parse(good[i].text, 7080, &address, why, sizeof(why)), 0,
                     "%s: %s", good[i].text, why);
        cr_expect_str_eq(address.host, good[i].host);
        cr_expect_eq(address.port, good[i].port);
        config_address_format(&address, text);
        cr_expect_str_eq(text, good[i].back);
        cr_assert_eq(config_address_parse(text, 0, &again, why, sizeof(why)), 0);
        cr_expect(config_address_equal(&address, &again));
    }
}

Test(address, bad)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct config_address address = {.port = 42};
        char why[128] = "";

        cr_expect_eq(config_address_parse(bad[i].text, 7080, &address, why, sizeof(why)), -EINVAL,
                     "%s", bad[i].text);
        cr_expect_str_eq(why, bad[i].why);
        cr_expect_eq(address.port, 42);
    }
}

Test(address, limits)
{
    struct config_address address;
    char why[128], host[300];

    cr_expect_eq(config_address_parse("node", 0, &address, why, sizeof(why)), -EINVAL);
    cr_expect_str_eq(why, "the port is missing: write HOST:PORT");

    memset(host, 'a', sizeof(host));
    host[253] = '\0';
    cr_expect_eq(config_address_parse(host, 1, &address, why, sizeof(why)), 0);
    host[253] = 'a';
    host[254] = '\0';
    cr_expect_eq(config_address_parse(host, 1, &address, why, sizeof(why)), -EINVAL);
    cr_expect_str_eq(why, "the host is longer than 253 characters");
}

Test(address, none)
{
    struct config_address none = {0};
    char text[CONFIG_ADDRESS_TEXT_MAX] = "?";

    config_address_format(&none, text);
    cr_expect_str_eq(text, "");
}
