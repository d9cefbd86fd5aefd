/*
 * Ends connections that are never established. When one of its connections ends, net, of libfabric
 * 1.17, loses the connection requests of other endpoints; these then wait for ever, and reject
 * requests themselves. libfabric has no call to cancel that, but net notices when the socket, which
 * belongs to this process, is shut down.
 */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "drivers/ofi/ofi.h"
#include "proto/wait.h"

#define MS UINT64_C(1000000)

static bool same_place(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    const struct sockaddr_in *a4 = (const struct sockaddr_in *)a,
                             *b4 = (const struct sockaddr_in *)b;
    const struct sockaddr_in6 *a6 = (const struct sockaddr_in6 *)a,
                              *b6 = (const struct sockaddr_in6 *)b;
    if (a->ss_family != b->ss_family)
        return false;
    if (a->ss_family == AF_INET)
        return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
    return a->ss_family == AF_INET6 && a6->sin6_port == b6->sin6_port &&
           memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

/* Shuts down the sockets of this process that are connected to the port of that instance. */
static void end_connections(const struct ofi_name *name)
{
    struct sockaddr_storage wanted = {0};
    memcpy(&wanted, name->text, name->bytes < sizeof(wanted) ? name->bytes : sizeof(wanted));
    DIR *directory = opendir("/proc/self/fd");
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        struct sockaddr_storage peer = {0};
        socklen_t bytes = sizeof(peer);
        int fd = atoi(entry->d_name);
        if (fd > 2 && getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0 &&
            same_place(&peer, &wanted))
            shutdown(fd, SHUT_RDWR);
    }
    if (directory)
        closedir(directory);
}

void ofi_name_note(const struct ofi_driver *ofi, struct ofi_name *name, int r)
{
    if (r != -EAGAIN) {
        name->refused_ns = 0;
        return;
    }
    if (!ofi->cq_edges) /* not net */
        return;
    const uint64_t now_ns = clock_now_ns();
    if (name->refused_ns == 0) {
        name->refused_ns = now_ns;
        name->kick_after_ns = OFI_KICK_MS * MS;
    } else if (now_ns - name->refused_ns > name->kick_after_ns) {
        name->kick_after_ns = 2 * name->kick_after_ns + OFI_KICK_MS * MS;
        end_connections(name);
    }
}
