#include "tools/tca-hostd/delegate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int delegate_fail(struct delegate *delegate, int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(delegate->text, sizeof(delegate->text), format, arguments);
    va_end(arguments);
    return error;
}

void *delegate_range(const struct delegate *delegate, uint64_t offset, uint64_t bytes)
{
    return offset <= delegate->memory_bytes && bytes <= delegate->memory_bytes - offset
               ? delegate->memory + offset
               : NULL;
}

bool delegate_is_left(const struct delegate *delegate)
{
    struct pollfd poll_fd = {.fd = delegate->fd, .events = POLLRDHUP};
    return poll(&poll_fd, 1, 0) > 0;
}

/* ---- requests ---- */

/* The memory must keep its size: otherwise the processor could have this process killed. */
static int map_memory(struct delegate *delegate, int fd)
{
    struct stat status;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &status) < 0 || status.st_size == 0)
        return delegate_fail(delegate, REFUSED,
                             "the descriptor is not of an offload processor's memory");
    const uint64_t bytes = (uint64_t)status.st_size;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED)
        return delegate_fail(delegate, -errno, "mapping %llu bytes of memory: %s",
                             (unsigned long long)bytes, strerrordesc_np(errno));
    delegate->memory = at;
    delegate->memory_bytes = bytes;
    return 0;
}

static int64_t open_group(struct delegate *delegate, const struct host_request *request, int fd)
{
    if (delegate->memory || fd < 0)
        return delegate_fail(delegate, REFUSED,
                             "a processor opens once, and then passes its memory");
    int r = map_memory(delegate, fd);
    return r < 0 ? r : delegate_join(delegate, request);
}

static int64_t execute(struct delegate *delegate, const struct host_request *request, int fd)
{
    if (request->magic != HOST_MAGIC || request->version != HOST_VERSION ||
        request->what >= HOST_WHATS || !memchr(request->name, '\0', sizeof(request->name)))
        return delegate_fail(delegate, REFUSED, "an invalid request (version mismatch?)");
    if (request->what == HOST_OPEN)
        return open_group(delegate, request, fd);
    if (!delegate->memory || fd >= 0)
        return delegate_fail(delegate, REFUSED, "request %u without memory, or with two",
                             request->what);
    switch (request->what) {
    case HOST_READ:
        return delegate_read(delegate, request);
    case HOST_WRITE:
        return delegate_write(delegate, request);
    case HOST_ALLGATHER:
        return delegate_allgather(delegate, request);
    case HOST_FINALIZE:
        return delegate_finalize(delegate, request);
    default: /* HOST_REDUCE, HOST_ALLREDUCE */
        return delegate_reduce(delegate, request);
    }
}

/* Returns the message's bytes; *ret_fd: the descriptor that came with it, or -1. */
static ssize_t receive(int socket, struct host_request *ret_request, int *ret_fd)
{
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {ret_request, sizeof(*ret_request)};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof(control)};
    ssize_t n;
    do
        n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const struct cmsghdr *head = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
    *ret_fd = -1;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(ret_fd, CMSG_DATA(head), sizeof(*ret_fd));
    return message.msg_flags & MSG_TRUNC ? 0 : n;
}

/* False: the connection has ended. */
static bool serve_one(struct delegate *delegate)
{
    struct host_request request;
    struct host_reply reply = {.magic = HOST_MAGIC};
    int fd;
    const ssize_t n = receive(delegate->fd, &request, &fd);
    if (n <= 0)
        return false;
    delegate->text[0] = '\0';
    reply.result = n == sizeof(request)
                       ? execute(delegate, &request, fd)
                       : delegate_fail(delegate, REFUSED, "a request of %zd bytes", n);
    memcpy(reply.text, delegate->text, sizeof(reply.text));
    if (fd >= 0)
        close(fd);
    return send(delegate->fd, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply) &&
           reply.result != REFUSED;
}

int delegate_run(int fd, int directory)
{
    struct delegate delegate = {.fd = fd, .directory = directory};
    while (serve_one(&delegate))
        ;
    tca_close(delegate.session);
    /* after a failure, or without HOST_FINALIZE: only all ranks together can release them */
    for (uint32_t i = 0; i < REDUCTIONS; i++)
        if (delegate.reductions[i].coll)
            _exit(0);
    if (delegate.memory)
        munmap(delegate.memory, delegate.memory_bytes);
    return 0;
}
