/* The file of the UNIX socket. Created if no other tcad uses it, and removed only if it is still
 * this daemon's. */
#pragma once

#include <sys/types.h>
#include <sys/un.h>

#include "config/tcad_conf.h"

struct server_socket {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": none was created */
    dev_t device;
    ino_t inode;
    int lock_fd; /* of path.lock: whoever holds its lock may remove and create the socket; -1:
                  * none */
};

/* Creates the configured listening socket. Returns its descriptor, or a negative errno and a
 * text. */
int server_socket_make(const struct tcad_conf *conf, struct server_socket *ret_socket, char *text,
                       size_t text_bytes);
/* Also gives up the lock. Does nothing for a zeroed one. */
void server_socket_remove(struct server_socket *made);
