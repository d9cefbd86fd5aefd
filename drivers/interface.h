/* Network interfaces, for display. */
#pragma once

#include <sys/socket.h>

/* The name of the interface that has this IP address, or whose network contains it ("lo" for
 * 127.1.2.3); "" if there is none. */
void interface_of(const struct sockaddr *address, char *ret_name, size_t name_bytes);
