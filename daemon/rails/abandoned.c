#include "daemon/rails/abandoned.h"

#include <dirent.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>

/* The local port of a connection that its other end has closed; 0: any other descriptor. */
static uint16_t port_of_closed(int fd)
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof(own), info_bytes = sizeof(struct tcp_info);
    struct tcp_info info;
    if (getsockname(fd, (struct sockaddr *)&own, &bytes) < 0 ||
        (own.ss_family != AF_INET && own.ss_family != AF_INET6) ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_bytes) < 0 ||
        info.tcpi_state != TCP_CLOSE_WAIT)
        return 0;
    return ntohs(own.ss_family == AF_INET ? ((const struct sockaddr_in *)&own)->sin_port
                                          : ((const struct sockaddr_in6 *)&own)->sin6_port);
}

void abandoned_count(const uint16_t ports[static RAIL_SLOTS],
                     uint64_t ret_counts[static RAIL_SLOTS])
{
    const struct dirent *entry;
    DIR *fds = opendir("/proc/self/fd");
    for (unsigned rail = 0; rail < RAIL_SLOTS; rail++)
        ret_counts[rail] = 0;
    while (fds && (entry = readdir(fds))) {
        const uint16_t port = port_of_closed(atoi(entry->d_name));
        for (unsigned rail = 0; rail < RAIL_SLOTS && port != 0; rail++)
            ret_counts[rail] += ports[rail] == port;
    }
    if (fds)
        closedir(fds);
}
