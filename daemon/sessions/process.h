/* What /proc says of a client's process. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* Compares what a process says of itself in its Hello with /proc. pid: here, from its socket.
 * 0: it is true; -ESRCH: it is not. Other errors: /proc does not show it: a daemon without privileges sees
 * the namespaces of processes of its own user only, and none with /proc of another PID namespace. */
int process_check(pid_t pid, uint32_t own_pid, uint64_t pid_namespace);
