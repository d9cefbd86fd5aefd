/*
 * frame_recv() against a hostile peer. Input: one byte that selects the descriptors, then the
 * message, or, with IN_TWO, its first 16 bytes, while the rest is the content of a memfd. An
 * accepted message must survive being sent again; no descriptor may leak.
 */
#include "proto/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

enum {
    COUNT = 31,      /* how many descriptors */
    IN_TWO = 1 << 5, /* the first is a memfd with the data after the header */
    SEALED = 1 << 6,
    STATED = 1 << 7, /* correct the stated length: gets further */
};

static int ends[2] = {-1, -1};

static int memfd_of(const uint8_t *data, size_t bytes, int sealed)
{
    if (sealed)
        return frame_memfd("fuzz", data, bytes);
    int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    FUZZ_REQUIRE(write(fd, data, bytes) == (ssize_t)bytes);
    return fd;
}

static void send_message(const void *data, size_t bytes, const int *fds, size_t count)
{
    char control[CMSG_SPACE(COUNT * sizeof(int))] = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, count * sizeof(int));
    }
    FUZZ_REQUIRE(sendmsg(ends[0], &message, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static void send_input(uint8_t how, const uint8_t *data, size_t bytes)
{
    size_t header_bytes = bytes < sizeof(struct frame_header) ? bytes : sizeof(struct frame_header);
    size_t payload_bytes = bytes - header_bytes, count = how & COUNT;
    uint8_t *copy = malloc(bytes);
    FUZZ_REQUIRE(copy);
    memcpy(copy, data, bytes);
    if ((how & STATED) && header_bytes == sizeof(struct frame_header)) {
        uint32_t stated = (uint32_t)payload_bytes;
        memcpy(copy + offsetof(struct frame_header, length_bytes), &stated, sizeof(stated));
    }

    int fds[COUNT] = {0};
    if ((how & IN_TWO) && count > 0)
        fds[0] = memfd_of(data + header_bytes, payload_bytes, how & SEALED);
    else
        header_bytes = bytes;
    send_message(copy, header_bytes, fds, count);
    if (fds[0] > 0)
        close(fds[0]);
    free(copy);
}

static void send_again(const struct frame *frame)
{
    struct frame *again;
    FUZZ_REQUIRE(frame_send(ends[0], frame->header.tag, frame->payload, frame->header.length_bytes,
                            frame->fds, frame->fd_count) == 0);
    FUZZ_REQUIRE(frame_recv(ends[1], &again) == 0);
    FUZZ_REQUIRE(again->header.tag == frame->header.tag);
    FUZZ_REQUIRE(again->header.length_bytes == frame->header.length_bytes);
    FUZZ_REQUIRE(again->fd_count == frame->fd_count);
    FUZZ_REQUIRE(memcmp(again->payload, frame->payload, frame->header.length_bytes) == 0);
    frame_free(again);
}

static int lowest_free_fd(void)
{
    int fd = fcntl(0, F_DUPFD, 0);
    FUZZ_REQUIRE(fd >= 0);
    close(fd);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2 || bytes > FRAME_INLINE_MAX)
        return 0;
    if (ends[0] < 0)
        FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) ==
                     0);
    int before = lowest_free_fd();

    struct frame *frame;
    send_input(data[0], data + 1, bytes - 1);
    if (frame_recv(ends[1], &frame) == 0) {
        send_again(frame);
        frame_free(frame);
    }
    FUZZ_REQUIRE(frame_recv(ends[1], &frame) == -EAGAIN); /* refused or not, it is gone */
    FUZZ_REQUIRE(lowest_free_fd() == before);
    return 0;
}
