/* Invalid frames, and descriptors and payloads that do not match the header. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/unit/proto/frames.h"

/* Sends a frame that no correct sender makes. */
static void send_raw(const void *data, size_t bytes, const int *fds, size_t fd_count)
{
    struct iovec part = {.iov_base = (void *)data, .iov_len = bytes};
    char control[CMSG_SPACE(100 * sizeof(int))] = {0};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd_count > 0) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *cmsg = CMSG_FIRSTHDR(&message);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(cmsg), fds, fd_count * sizeof(int));
    }
    cr_assert_eq(sendmsg(ends[0], &message, MSG_NOSIGNAL), (ssize_t)bytes, "%m");
}

static void expect_refused(int expected)
{
    struct frame *frame = NULL;
    cr_assert_eq(frame_recv(ends[1], &frame), expected);
    cr_assert_null(frame, "written on success only");
    /* it is gone, and the connection still works */
    cr_assert_eq(frame_recv(ends[1], &frame), -EAGAIN);
    cr_assert_eq(frame_send(ends[0], 3, "abc", 3, NULL, 0), 0);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    cr_assert_eq(frame->header.tag, 3);
    frame_free(frame);
}

FRAME_TEST(header_check)
{
    static const struct {
        struct frame_header header;
        int expected;
    } table[] = {
        {{FRAME_MAGIC, PROTO_VERSION, 0, 0, 0}, 0},
        {{FRAME_MAGIC, PROTO_VERSION, FRAME_IN_MEMFD, FRAME_PAYLOAD_MAX, UINT32_MAX}, 0},
        {{FRAME_MAGIC ^ 1, PROTO_VERSION, 0, 0, 0}, -EPROTO},
        {{0x20544547, 0, 0, 0, 0}, -EPROTO}, /* "GET " */
        {{FRAME_MAGIC, PROTO_VERSION + 1, 0, 0, 0}, -EPROTONOSUPPORT},
        {{FRAME_MAGIC, 0, 0, 0, 0}, -EPROTONOSUPPORT},
        {{FRAME_MAGIC, PROTO_VERSION, 2, 0, 0}, -EPROTO},
        {{FRAME_MAGIC, PROTO_VERSION, 0x8001, 0, 0}, -EPROTO},
        {{FRAME_MAGIC, PROTO_VERSION, 0, FRAME_PAYLOAD_MAX + 1, 0}, -EMSGSIZE},
        {{FRAME_MAGIC, PROTO_VERSION, 0, UINT32_MAX, 0}, -EMSGSIZE},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
        const char *why = NULL;
        cr_assert_eq(frame_header_check(&table[i].header, &why), table[i].expected, "row %zu", i);
        cr_assert_eq(why != NULL, table[i].expected != 0, "row %zu", i);
        cr_assert_eq(frame_header_check(&table[i].header, NULL), table[i].expected, "row %zu", i);
        if (table[i].expected != 0) {
            send_raw(&table[i].header, sizeof(table[i].header), (int[]){0, 1}, 2);
            expect_refused(table[i].expected);
        }
    }
}

FRAME_TEST(lengths_that_do_not_match)
{
    struct {
        struct frame_header header;
        char payload[32];
    } raw = {0};
    static const uint32_t stated[] = {0, 1, 31, 33, FRAME_INLINE_MAX, FRAME_PAYLOAD_MAX};
    for (size_t i = 0; i < sizeof(stated) / sizeof(*stated); i++) {
        frame_header_fill(&raw.header, 1, stated[i]);
        send_raw(&raw, sizeof(raw), (int[]){0}, 1);
        expect_refused(-EPROTO);
    }
    for (size_t bytes = 1; bytes < sizeof(raw.header); bytes++) {
        send_raw(&raw, bytes, (int[]){0}, 1);
        expect_refused(-EPROTO);
    }
}

/* An empty message is indistinguishable from the end of the connection. */
FRAME_TEST(empty_message)
{
    struct frame *frame;
    send_raw("", 0, (int[]){0}, 1);
    cr_assert_eq(frame_recv(ends[1], &frame), -ECONNRESET);
}

FRAME_TEST(more_descriptors_than_allowed)
{
    struct frame_header header;
    int fds[100] = {0};
    frame_header_fill(&header, 1, 0);
    send_raw(&header, sizeof(header), fds, FRAME_FDS_MAX + 1);
    expect_refused(-EPROTO);
    send_raw(&header, sizeof(header), fds, 100);
    expect_refused(-EPROTO);
}

FRAME_TEST(no_room_for_descriptors)
{
    struct rlimit before, low;
    struct frame *frame;
    cr_assert_eq(frame_send(ends[0], 1, "x", 1, (int[]){0, 0, 0}, 3), 0);
    getrlimit(RLIMIT_NOFILE, &before);
    int lowest = dup(0);
    low = before;
    low.rlim_cur = (rlim_t)lowest + 1;
    setrlimit(RLIMIT_NOFILE, &low);
    close(lowest);
    int r = frame_recv(ends[1], &frame);
    setrlimit(RLIMIT_NOFILE, &before);
    cr_assert_eq(r, -EMFILE);
}

FRAME_TEST(descriptors_are_left_where_they_are)
{
    struct frame_header header;
    struct frame *frame = NULL;
    cr_assert_eq(frame_send(ends[0], 1, "x", 1, NULL, 0), 0);
    cr_assert_eq(frame_send(ends[0], 2, "x", 1, (int[]){0, 1}, 2), 0);
    cr_assert_eq(frame_recv_lazy(ends[1], false, &header, &frame), 0);
    cr_assert_eq(frame->header.tag, 1);
    frame_free(frame);
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(frame_recv_lazy(ends[1], false, &header, &frame), FRAME_HAS_FDS);
        cr_assert_eq(header.tag, 2);
    }
    cr_assert_eq(frame_recv_lazy(ends[1], true, &header, &frame), 0);
    cr_assert_eq(frame->fd_count, 2);
    frame_free(frame);
    /* also those of a message that is refused */
    send_raw("garbage", 7, (int[]){0}, 1);
    cr_assert_eq(frame_recv_lazy(ends[1], false, &header, &frame), FRAME_HAS_FDS);
    cr_assert_eq(frame_recv_lazy(ends[1], true, &header, &frame), -EPROTO);
    cr_assert_eq(frame_recv_lazy(ends[1], false, &header, &frame), -EAGAIN);
}

static void send_memfd(int fd, uint32_t stated, const void *extra, size_t extra_bytes)
{
    uint8_t raw[sizeof(struct frame_header) + 64];
    struct frame_header header;
    frame_header_fill(&header, 9, stated);
    header.flags = FRAME_IN_MEMFD;
    memcpy(raw, &header, sizeof(header));
    if (extra_bytes > 0)
        memcpy(raw + sizeof(header), extra, extra_bytes);
    send_raw(raw, sizeof(header) + extra_bytes, &fd, fd >= 0);
}

FRAME_TEST(memfd_short_payload_is_fine)
{
    int fd = frame_memfd("test", "hello", 5);
    struct frame *frame;
    send_memfd(fd, 5, NULL, 0);
    close(fd);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    cr_assert_eq(frame->fd_count, 0);
    cr_assert_eq(memcmp(frame->payload, "hello", 5), 0);
    frame_free(frame);
}

FRAME_TEST(memfd_lies)
{
    int fd = frame_memfd("test", "hello", 5);
    send_memfd(fd, 4, NULL, 0);
    expect_refused(-EPROTO);
    send_memfd(fd, 6, NULL, 0);
    expect_refused(-EPROTO);
    send_memfd(fd, FRAME_PAYLOAD_MAX, NULL, 0);
    expect_refused(-EPROTO);
    send_memfd(fd, 5, "hello", 5); /* both inside and in the memfd */
    expect_refused(-EPROTO);
    close(fd);
}

/* Even if descriptor 0, which an uninitialised entry would name, is suitable. */
FRAME_TEST(memfd_missing)
{
    int fd = frame_memfd("test", "hello", 5), before = dup(0);
    dup2(fd, 0);
    send_memfd(-1, 5, NULL, 0);
    expect_refused(-EPROTO);
    dup2(before, 0);
    close(before);
    close(fd);
}

FRAME_TEST(memfd_not_sealed)
{
    static const int seals[] = {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
                                F_SEAL_GROW | F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_WRITE};
    for (size_t i = 0; i < sizeof(seals) / sizeof(*seals); i++) {
        int fd = memfd_create("test", MFD_ALLOW_SEALING);
        cr_assert_eq(write(fd, "hello", 5), 5);
        cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
        send_memfd(fd, 5, NULL, 0);
        close(fd);
        expect_refused(-EPROTO);
    }
}

FRAME_TEST(memfd_that_is_none)
{
    int null = open("/dev/null", O_RDWR), pipes[2];
    send_memfd(null, 0, NULL, 0);
    expect_refused(-EPROTO);
    close(null);
    cr_assert_eq(pipe(pipes), 0);
    send_memfd(pipes[0], 10, NULL, 0); /* must not block */
    expect_refused(-EPROTO);
    close(pipes[0]);
    close(pipes[1]);
    send_memfd(ends[0], 10, NULL, 0);
    expect_refused(-EPROTO);
}

FRAME_TEST(memfd_is_sealed)
{
    int fd = frame_memfd("test", "hello", 5);
    char back[8];
    cr_assert_geq(fd, 0);
    cr_assert_eq(pread(fd, back, sizeof(back), 0), 5);
    cr_assert_eq(pwrite(fd, "x", 1, 0), -1);
    cr_assert_eq(ftruncate(fd, 4), -1);
    cr_assert_eq(ftruncate(fd, 6), -1);
    cr_assert_eq(mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), -1);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}
