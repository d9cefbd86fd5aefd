/* Opening an instance that listens. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "drivers/interface.h"
#include "drivers/table.h"
#include "drivers/tcp/config.h"
#include "drivers/tcp/tcp.h"
#include "drivers/tcp/tcp_tls.h"

/* ---- the own address ---- */

static int take_host(struct tcp_address *address, const struct sockaddr *from)
{
    if (from->sa_family == AF_INET) {
        address->family = 4;
        memcpy(address->host, &((const struct sockaddr_in *)from)->sin_addr, 4);
        return 0;
    }
    if (from->sa_family != AF_INET6)
        return -EAFNOSUPPORT;
    address->family = 6;
    memcpy(address->host, &((const struct sockaddr_in6 *)from)->sin6_addr, 16);
    return 0;
}

static int host_of_interface(struct tcp_address *address, const char *name)
{
    struct ifaddrs *all;
    int r = -EADDRNOTAVAIL;
    if (getifaddrs(&all) < 0)
        return -errno;
    for (const struct ifaddrs *one = all; one && r < 0; one = one->ifa_next)
        if (one->ifa_addr && strcmp(one->ifa_name, name) == 0)
            r = take_host(address, one->ifa_addr);
    freeifaddrs(all);
    return r < 0 ? -EADDRNOTAVAIL : 0;
}

/* An address, a host name, or an interface. */
static int find_host(struct tcp_address *address, const char *name)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (host_of_interface(address, name) == 0)
        return 0;
    if (getaddrinfo(name, NULL, &hints, &found) != 0)
        return -EADDRNOTAVAIL;
    int r = take_host(address, found->ai_addr);
    freeaddrinfo(found);
    return r;
}

/* The address to bind to. */
static socklen_t socket_address(const struct tcp_address *address, uint16_t port,
                                struct sockaddr_storage *ret_at)
{
    *ret_at = (struct sockaddr_storage){0};
    if (address->family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)ret_at;
        *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&in->sin_addr, address->host, 4);
        return sizeof *in;
    }
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret_at;
    *in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
    memcpy(&in6->sin6_addr, address->host, 16);
    return sizeof *in6;
}

static const struct tcp_config *own_of(const struct driver_config *config)
{
    static const struct tcp_config defaults;
    return config->own ? config->own : &defaults;
}

static const char *host_of(const struct driver_config *config)
{
    return own_of(config)->address ? own_of(config)->address : "127.0.0.1";
}

static bool kernel_tls(const struct driver_config *config)
{
    return !own_of(config)->user_space && tcp_kernel_tls();
}

int tcp_probe(const struct driver_config *config, struct driver_caps *ret_caps)
{
    struct tcp_address address;
    struct sockaddr_storage at;
    *ret_caps = (struct driver_caps){
        .same_node = true, .other_nodes = true, .ordered = true, .kernel_tls = kernel_tls(config)};
    snprintf(ret_caps->detail, sizeof ret_caps->detail, "TCP, %s",
             own_of(config)->plain  ? "in clear"
             : ret_caps->kernel_tls ? "TLS 1.3 by the kernel"
                                    : "TLS 1.3");
    int r = find_host(&address, host_of(config));
    if (r < 0)
        return r;
    socket_address(&address, 0, &at);
    interface_of((const struct sockaddr *)&at, ret_caps->device, sizeof ret_caps->device);
    return 0;
}

static int listen_there(struct tcp_driver *tcp, uint16_t port)
{
    struct sockaddr_storage at;
    socklen_t bytes = socket_address(&tcp->address, port, &at);
    const int one = 1;
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, (const struct sockaddr *)&at, bytes) < 0 || listen(fd, 512) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &bytes) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    tcp->address.port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port
                                                      : ((struct sockaddr_in6 *)&at)->sin6_port);
    int r = tcp_stream_init(tcp, &tcp->listener, TCP_LISTENER, fd);
    if (r < 0)
        close(fd);
    return r;
}

int tcp_address(struct driver *driver, void *ret_address)
{
    memcpy(ret_address, &tcp_of(driver)->address, sizeof(struct tcp_address));
    return sizeof(struct tcp_address);
}

/* ---- the instance ---- */

static int set_up(struct tcp_driver *tcp, const struct driver_config *config)
{
    tcp->address = (struct tcp_address){.magic = TCP_ADDRESS_MAGIC,
                                        .version = TCP_WIRE_VERSION,
                                        .encrypts = !own_of(config)->plain};
    int r = tcp_random(&tcp->address.id, sizeof tcp->address.id);
    if (r == 0)
        r = tcp_random(tcp->address.secret, sizeof tcp->address.secret);
    if (r == 0)
        r = find_host(&tcp->address, host_of(config));
    if (r < 0)
        return r;
    return listen_there(tcp, own_of(config)->port);
}

int tcp_open(const struct driver_config *config, const struct driver_events *events,
             struct driver **ret_driver)
{
    struct tcp_driver *tcp;
    int r = tcp_instance_new(events, &tcp);
    if (r < 0)
        return r;
    tcp->guarded = config->guarded;
    tcp->kernel_tls = kernel_tls(config);
    r = set_up(tcp, config);
    if (r < 0) {
        tcp_close(&tcp->driver);
        return r;
    }
    *ret_driver = &tcp->driver;
    return 0;
}
