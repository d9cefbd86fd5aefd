/* Finds a tcad and connects to it. */
#pragma once

#include <stdint.h>
#include <sys/un.h>

#include "client/include/tca-admin.h"

enum { SOCKET_PATH_BYTES = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* Connects to the tcad that tca_socket_path() names; returns a non-blocking SOCK_SEQPACKET socket.
 * `socket` may be NULL; end_ns: clock.h. -ECONNREFUSED, -EACCES, -ETIMEDOUT, -EINVAL. */
int socket_connect(const char *socket, uint64_t end_ns, int *ret_fd,
                   char ret_path[SOCKET_PATH_BYTES]);
