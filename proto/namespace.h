/* PID namespaces: a process ID means a process in one of them only. */
#pragma once

#include <stdint.h>

/* The number of this process's PID namespace, which no other one of this machine has while there
 * are processes in it. 0: not known, for example without /proc. */
uint64_t pid_namespace(void);
