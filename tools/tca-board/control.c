/* The control socket: see registers.h. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tools/tca-board/board.h"

int control_send(int fd, const struct peach2_control *message, const int *fds, unsigned fd_count)
{
    union {
        char bytes[CMSG_SPACE(PEACH2_CONTROL_FDS * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iovec = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iovec, .msg_iovlen = 1};
    if (fd_count > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int control_receive(int fd, struct peach2_control *ret_message, int *ret_fds,
                    unsigned *ret_fd_count)
{
    union {
        char bytes[CMSG_SPACE(PEACH2_CONTROL_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iovec = {.iov_base = ret_message, .iov_len = sizeof(*ret_message)};
    struct msghdr header = {.msg_iov = &iovec,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    ssize_t bytes = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0)
        return -errno;
    unsigned count = 0;
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&header); at; at = CMSG_NXTHDR(&header, at)) {
        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        count = (unsigned)((at->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(ret_fds, CMSG_DATA(at), count * sizeof(int));
    }
    if (bytes != 0 && bytes != sizeof(*ret_message)) {
        while (count > 0)
            close(ret_fds[--count]);
        return -EPROTO;
    }
    *ret_fd_count = count;
    return (int)bytes;
}

void control_accept(struct board *board)
{
    int fd = accept4(board->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    for (unsigned i = 0; i < BOARD_VISITORS; i++) {
        if (board->visitors[i].fd >= 0)
            continue;
        board->visitors[i] = (struct visitor){.fd = fd};
        return;
    }
    close(fd);
}

static void disconnect(struct board *board, struct visitor *visitor)
{
    close(visitor->fd);
    if (visitor->driver)
        board_reset(board);
    *visitor = (struct visitor){.fd = -1};
}

static bool has_driver(const struct board *board)
{
    for (unsigned i = 0; i < BOARD_VISITORS; i++)
        if (board->visitors[i].fd >= 0 && board->visitors[i].driver)
            return true;
    return false;
}

static int attach(struct board *board, struct visitor *visitor, struct peach2_control *reply)
{
    const int fds[] = {board->bar0_fd, board->bar2_fd, board->interrupt_fd, board->bell_fd};
    if (has_driver(board)) {
        reply->status = -EBUSY;
        return control_send(visitor->fd, reply, NULL, 0);
    }
    visitor->driver = true;
    reply->node = board->node;
    return control_send(visitor->fd, reply, fds, 4);
}

static int set_plug(struct board *board, unsigned port, bool unplugged)
{
    if (port < PEACH2_E || port >= PEACH2_PORTS)
        return -EINVAL;
    board->ports[port].unplugged = unplugged;
    if (unplugged && board->ports[port].fd >= 0)
        port_down(board, port);
    board->ports[port].redial_ns = 0;
    return 0;
}

/* Executes a request. 0: replied; 1: the connection has become a cable; negative: disconnect. */
static int serve(struct board *board, struct visitor *visitor, const struct peach2_control *message,
                 int *fds, unsigned fd_count)
{
    struct peach2_control reply = {.type = message->type};
    switch (message->type) {
    case PEACH2_ATTACH:
        return attach(board, visitor, &reply);
    case PEACH2_MAP:
        reply.status = !visitor->driver || fd_count != 1
                           ? -EINVAL
                           : iommu_map(&board->iommu, message->address, message->length, fds[0],
                                       message->offset);
        break;
    case PEACH2_ALIAS:
        reply.status = visitor->driver ? iommu_alias(&board->iommu, message->address,
                                                     message->length, message->offset)
                                       : -EINVAL;
        break;
    case PEACH2_UNMAP:
        reply.status = visitor->driver ? iommu_unmap(&board->iommu, message->address) : -EINVAL;
        break;
    case PEACH2_PLUG:
    case PEACH2_UNPLUG:
        reply.status = set_plug(board, message->port, message->type == PEACH2_UNPLUG);
        break;
    case PEACH2_LINK:
        reply.status = port_accept(board, visitor->fd, message, fds, fd_count);
        if (reply.status == 0)
            return 1;
        break;
    default:
        return -EPROTO;
    }
    return control_send(visitor->fd, &reply, NULL, 0);
}

void control_readable(struct board *board, struct visitor *visitor)
{
    struct peach2_control message;
    int fds[PEACH2_CONTROL_FDS];
    unsigned fd_count = 0;
    int r = control_receive(visitor->fd, &message, fds, &fd_count);
    if (r == -EAGAIN)
        return;
    r = r > 0 ? serve(board, visitor, &message, fds, fd_count) : -ECONNRESET;
    for (unsigned i = 0; i < fd_count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (r > 0)
        *visitor = (struct visitor){.fd = -1};
    else if (r < 0)
        disconnect(board, visitor);
}
