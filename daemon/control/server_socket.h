/* The file of the UNIX socket: made where nobody else listens, removed only while it is still ours.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>
#include <sys/un.h>

#include "config/tcad_conf.h"

struct server_socket {
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "": none was made */
    dev_t device;
    ino_t inode;
};

/* A listening socket where the configuration says: its descriptor, or negative and a text. */
int server_socket_make(const struct tcad_conf *conf, struct server_socket *ret_socket, char *text,
                       size_t text_bytes);
void server_socket_remove(const struct server_socket *made);
