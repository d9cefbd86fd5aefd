/* Recognizes dmabufs among the descriptors that processes send. */
#pragma once

#include <stdint.h>

/*
 * Whether the descriptor is a dmabuf, and its size, which never changes: 0, -EINVAL (it is not one)
 * or another negative errno. Asks the kernel by /proc/self/fdinfo, which only dmabufs give a line
 * "exp_name:". fstatfs(), fstat() and lseek() ask the file system, and that of a hostile process
 * (FUSE) need not reply.
 */
int dmabuf_bytes(int fd, uint64_t *ret_bytes);
