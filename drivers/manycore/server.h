/* The thread that serves the ports: round after round, each port has its turn, with as many entries
 * as any other, and its queues take turns. It sleeps when nothing is left to do, and does not exist
 * without ports. */
#pragma once

#include <stdint.h>

struct port;
struct port_server;
struct verbs_device;

int port_server_new(struct verbs_device *device, uint64_t spin_ns, uint64_t yield_ns,
                    struct port_server **ret_server);
/* All ports must be gone. NULL is a no-op. Returns NULL. */
struct port_server *port_server_free(struct port_server *server);

/* Any other thread: keeps the server from serving, for a few microseconds: to add or remove what it
 * serves. Afterwards it looks at everything again. */
void port_server_lock(struct port_server *server);
void port_server_unlock(struct port_server *server);
/* Has the server look at everything again. */
void port_server_wake(struct port_server *server);

/* One round, of the server's thread, or of the one that has locked it. The number of entries,
 * completions and pieces of work. */
unsigned port_server_round(struct port_server *server);

/* Not while locked. */
int port_server_add(struct port_server *server, struct port *port);
void port_server_remove(struct port *port);
