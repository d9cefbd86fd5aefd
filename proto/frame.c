#include "proto/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/frame_memfd.h"

int frame_header_check(const struct frame_header *header, const char **ret_why)
{
    const char *why;
    int r;

    if (header->magic != FRAME_MAGIC) {
        why = "not a tcad frame (wrong magic number)";
        r = -EPROTO;
    } else if (header->version != PROTO_VERSION) {
        why = "protocol version mismatch: both ends must run the same tcad release";
        r = -EPROTONOSUPPORT;
    } else if (header->flags & ~FRAME_IN_MEMFD) {
        why = "unknown frame flags";
        r = -EPROTO;
    } else if (header->length_bytes > FRAME_PAYLOAD_MAX) {
        why = "frame payload exceeds the limit of 64 MiB";
        r = -EMSGSIZE;
    } else {
        return 0;
    }
    if (ret_why)
        *ret_why = why;
    return r;
}
static_assert(FRAME_PAYLOAD_MAX == 64 << 20, "the error text above names the limit");

void frame_header_fill(struct frame_header *ret_header, uint32_t tag, uint32_t length_bytes)
{
    *ret_header = (struct frame_header){
        .magic = FRAME_MAGIC, .version = PROTO_VERSION, .length_bytes = length_bytes, .tag = tag};
}

/* ---- sending ---- */

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(FRAME_FDS_MAX * sizeof(int))];
};

static void attach_fds(struct msghdr *message, union control *control, const int *fds, size_t count)
{
    if (count == 0)
        return;
    memset(control, 0, sizeof(*control));
    message->msg_control = control->bytes;
    message->msg_controllen = CMSG_SPACE(count * sizeof(int));
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(message);
    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
}

static int send_message(int socket_fd, struct frame_header *header, const void *payload,
                        size_t bytes, const int *fds, size_t fd_count)
{
    struct iovec parts[] = {
        {.iov_base = header, .iov_len = sizeof(*header)},
        {.iov_base = (void *)payload, .iov_len = bytes},
    };
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = bytes > 0 ? 2 : 1};
    union control control;
    attach_fds(&message, &control, fds, fd_count);

    ssize_t n;
    do
        n = sendmsg(socket_fd, &message, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : 0; /* SOCK_SEQPACKET: all or nothing */
}

int frame_send(int socket_fd, uint32_t tag, const void *payload, size_t bytes, const int *fds,
               size_t fd_count)
{
    if (bytes > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    bool inside = bytes <= FRAME_INLINE_MAX;
    if (fd_count > (size_t)FRAME_FDS_MAX - !inside)
        return -E2BIG;

    struct frame_header header;
    frame_header_fill(&header, tag, (uint32_t)bytes);
    if (inside)
        return send_message(socket_fd, &header, payload, bytes, fds, fd_count);

    int memfd = frame_memfd("tca-frame", payload, bytes);
    if (memfd < 0)
        return memfd;
    int r = frame_send_memfd(socket_fd, tag, memfd, bytes, fds, fd_count);
    close(memfd);
    return r;
}

int frame_send_memfd(int socket_fd, uint32_t tag, int memfd, size_t bytes, const int *fds,
                     size_t fd_count)
{
    int all[FRAME_FDS_MAX] = {memfd};
    if (bytes > FRAME_PAYLOAD_MAX)
        return -EMSGSIZE;
    if (fd_count > (size_t)FRAME_FDS_MAX - 1)
        return -E2BIG;
    struct frame_header header;
    frame_header_fill(&header, tag, (uint32_t)bytes);
    header.flags |= FRAME_IN_MEMFD;
    if (fd_count > 0)
        memcpy(all + 1, fds, fd_count * sizeof(int));
    return send_message(socket_fd, &header, NULL, 0, all, fd_count + 1);
}

/* ---- receiving ---- */

enum { RIGHTS_MAX = 253 }; /* descriptors that the kernel lets one message carry (SCM_MAX_FD) */

/* SO_LINGER of zero keeps close() from blocking on a socket that the sender has set to linger. */
void frame_close_foreign(int fd)
{
    const struct linger at_once = {0};
    if (fd < 0)
        return;
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once,
               sizeof(at_once)); /* fails harmlessly on non-sockets */
    close(fd);
}

void frame_close_fds(struct frame *frame, size_t keep)
{
    for (; frame->fd_count > keep; frame->fd_count--)
        frame_close_foreign(frame->fds[frame->fd_count - 1]);
}

int frame_take_fd(struct frame *frame)
{
    int fd = frame->fd_count > 0 ? frame->fds[0] : -1;
    if (frame->fd_count > 0)
        frame->fds[0] = -1;
    return fd;
}

struct frame *frame_free(struct frame *frame)
{
    if (!frame)
        return NULL;
    frame_close_fds(frame, 0);
    free(frame->loaded);
    free(frame);
    return NULL;
}

union any_control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(RIGHTS_MAX * sizeof(int))];
};

/* Receives and discards the next message on the socket, and closes its descriptors, so that a
 * refused message is not seen again. Returns as recvmsg(). */
static ssize_t drop_message(int socket_fd)
{
    union any_control control;
    struct msghdr message = {.msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
    ssize_t n;
    do
        n = recvmsg(socket_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    for (struct cmsghdr *cmsg = n < 0 ? NULL : CMSG_FIRSTHDR(&message); cmsg;
         cmsg = CMSG_NXTHDR(&message, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; CMSG_LEN((i + 1) * sizeof(int)) <= cmsg->cmsg_len; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(fd), sizeof(fd));
            frame_close_foreign(fd);
        }
    }
    return n;
}

void frame_discard(int socket_fd)
{
    shutdown(socket_fd, SHUT_RDWR);
    while (drop_message(socket_fd) > 0)
        ;
}

/* Peeks at the header of the next message. Returns the message's length or a negative errno. */
static ssize_t peek_message(int socket_fd, struct frame_header *ret_header, bool *ret_fds)
{
    struct iovec part = {.iov_base = ret_header, .iov_len = sizeof(*ret_header)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1}; /* no room for descriptors */
    ssize_t n;
    do
        n = recvmsg(socket_fd, &message, MSG_PEEK | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    *ret_fds = message.msg_flags & MSG_CTRUNC;
    return n > 0 ? n : -ECONNRESET;
}

/* Moves the descriptors of a received message to the frame, which owns them from then on. */
static void take_fds(struct frame *frame, struct msghdr *message)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(message); cmsg; cmsg = CMSG_NXTHDR(message, cmsg)) {
        if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        assert(frame->fd_count + count <= FRAME_FDS_MAX);
        memcpy(frame->fds + frame->fd_count, CMSG_DATA(cmsg), count * sizeof(int));
        frame->fd_count += count;
    }
}

/* Receives the next message into the frame, whose header was peeked before and gives the expected
 * length. */
static int receive_message(int socket_fd, struct frame *frame)
{
    bool inside = !(frame->header.flags & FRAME_IN_MEMFD);
    size_t bytes = inside ? frame->header.length_bytes : 0;
    struct frame_header header;
    struct iovec parts[] = {
        {.iov_base = &header, .iov_len = sizeof(header)},
        {.iov_base = frame->payload, .iov_len = bytes},
    };
    union control control; /* Linux closes more descriptors than it holds */
    struct msghdr message = {
        .msg_iov = parts,
        .msg_iovlen = 2,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    ssize_t n;
    do
        n = recvmsg(socket_fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    take_fds(frame, &message);
    if (message.msg_flags & MSG_CTRUNC) /* too many, or our descriptor table is full */
        return frame->fd_count == FRAME_FDS_MAX ? -EPROTO : -EMFILE;
    if ((message.msg_flags & MSG_TRUNC) || (size_t)n != sizeof(header) + bytes ||
        memcmp(&header, &frame->header, sizeof(header)) !=
            0) /* differs from the header that was checked */
        return -EPROTO;
    return 0;
}

/* Reads the payload from the first descriptor, then closes and removes that descriptor. */
int frame_load(struct frame *frame)
{
    if (frame->payload)
        return 0;
    if (frame->fd_count == 0)
        return -EPROTO;
    if (!frame->loaded)
        frame->loaded = malloc((size_t)frame->header.length_bytes + 1); /* + 1: never of 0 bytes */
    if (!frame->loaded)
        return -ENOMEM;
    int r = memfd_read(frame->fds[0], frame->loaded, frame->header.length_bytes);
    if (r < 0)
        return r;
    frame->payload = frame->loaded;
    frame_close_foreign(frame->fds[0]); /* a sealed memfd: does not block */
    frame->fd_count--;
    memmove(frame->fds, frame->fds + 1, frame->fd_count * sizeof(int));
    return 0;
}

int frame_recv(int socket_fd, struct frame **ret_frame)
{
    struct frame_header header;
    return frame_recv_any(socket_fd, &header, ret_frame);
}

int frame_recv_any(int socket_fd, struct frame_header *ret_header, struct frame **ret_frame)
{
    struct frame *frame;
    int r = frame_recv_lazy(socket_fd, true, ret_header, &frame);
    if (r < 0)
        return r;
    r = frame_load(frame);
    if (r < 0) {
        frame_free(frame);
        return r;
    }
    *ret_frame = frame;
    return 0;
}

int frame_recv_lazy(int socket_fd, bool with_fds, struct frame_header *ret_header,
                    struct frame **ret_frame)
{
    struct frame_header header = {0};
    bool has_fds = false;
    ssize_t n = peek_message(socket_fd, &header, &has_fds);
    *ret_header = header;
    if (n < 0)
        return (int)n;
    if (has_fds && !with_fds)
        return FRAME_HAS_FDS;

    int r = (size_t)n < sizeof(header) ? -EPROTO : frame_header_check(&header, NULL);
    bool inside = !(header.flags & FRAME_IN_MEMFD);
    if (r == 0 && (size_t)n != sizeof(header) + (inside ? header.length_bytes : 0))
        r = -EPROTO;
    if (r < 0) {
        drop_message(socket_fd);
        return r;
    }

    struct frame *frame = malloc(sizeof(*frame) + (inside ? header.length_bytes : 0));
    if (!frame)
        return -ENOMEM;
    *frame = (struct frame){.header = header, .payload = inside ? (uint8_t *)(frame + 1) : NULL};
    r = receive_message(socket_fd, frame);
    if (r < 0) {
        frame_free(frame);
        return r;
    }
    *ret_frame = frame;
    return 0;
}
