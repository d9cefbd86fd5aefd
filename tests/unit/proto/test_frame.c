#include "proto/frame.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int ends[2];
static size_t fds_before;

static size_t count_fds(void)
{
    size_t count = 0;
    DIR *dir = opendir("/proc/self/fd");
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static void begin(void)
{
    signal(SIGPIPE, SIG_DFL); /* the test runner ignores it */
    fds_before = count_fds();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
}

static void end(void)
{
    close(ends[0]);
    close(ends[1]);
    cr_assert_eq(count_fds(), fds_before, "descriptors leaked");
}

/* A test that may not leave a descriptor behind. (Criterion ignores assertions in .fini.) */
#define FRAME_TEST(name)                                                                           \
    static void test_##name(void);                                                                 \
    Test(frame, name)                                                                              \
    {                                                                                              \
        begin();                                                                                   \
        test_##name();                                                                             \
        end();                                                                                     \
    }                                                                                              \
    static void test_##name(void)

static uint8_t *pattern(size_t bytes)
{
    uint8_t *data = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    return data;
}

/* Sends what no honest sender would. */
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

FRAME_TEST(sizes_there_and_back)
{
    static const size_t sizes[] = {
        0,
        1,
        15,
        4096,
        FRAME_INLINE_MAX - 1,
        FRAME_INLINE_MAX,
        FRAME_INLINE_MAX + 1,
        1 << 20,
        FRAME_PAYLOAD_MAX,
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *data = pattern(sizes[i]);
        struct frame *frame;
        cr_assert_eq(frame_send(ends[0], 1000 + (uint32_t)i, data, sizes[i], NULL, 0), 0);
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        cr_assert_eq(frame->header.tag, 1000 + i);
        cr_assert_eq(frame->header.length_bytes, sizes[i]);
        cr_assert_eq(frame->fd_count, 0);
        cr_assert_eq(memcmp(frame->payload, data, sizes[i]), 0, "%zu bytes", sizes[i]);
        frame = frame_free(frame);
        cr_assert_null(frame);
        free(data);
    }
}

FRAME_TEST(too_long)
{
    cr_assert_eq(frame_send(ends[0], 1, "", (size_t)FRAME_PAYLOAD_MAX + 1, NULL, 0), -EMSGSIZE);
}

static ino_t inode(int fd)
{
    struct stat st;
    cr_assert_eq(fstat(fd, &st), 0);
    return st.st_ino;
}

static void pass_fds(size_t payload_bytes, size_t count)
{
    int fds[FRAME_FDS_MAX];
    for (size_t i = 0; i < count; i++)
        fds[i] = memfd_create("test", MFD_CLOEXEC);
    uint8_t *data = pattern(payload_bytes);
    struct frame *frame;
    cr_assert_eq(frame_send(ends[0], 5, data, payload_bytes, fds, count), 0);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    cr_assert_eq(frame->fd_count, count);
    for (size_t i = 0; i < count; i++) {
        cr_assert_neq(frame->fds[i], fds[i]);
        cr_assert_eq(inode(frame->fds[i]), inode(fds[i]), "in order");
        cr_assert(fcntl(frame->fds[i], F_GETFD) & FD_CLOEXEC);
        close(fds[i]);
    }
    cr_assert_eq(memcmp(frame->payload, data, payload_bytes), 0);
    int taken = -1;
    if (count > 1) {
        taken = frame->fds[1];
        frame->fds[1] = -1;
    }
    frame_free(frame);
    if (taken >= 0) {
        cr_assert_geq(fcntl(taken, F_GETFD), 0, "what was taken stays open");
        close(taken);
    }
    free(data);
}

FRAME_TEST(descriptors)
{
    pass_fds(10, 1);
    pass_fds(10, FRAME_FDS_MAX);
    pass_fds(0, 3);
    pass_fds(FRAME_INLINE_MAX + 1, 1);
    pass_fds(FRAME_INLINE_MAX + 1, FRAME_FDS_MAX - 1);
}

FRAME_TEST(too_many_descriptors_to_send)
{
    int fds[FRAME_FDS_MAX + 1] = {0};
    uint8_t *data = pattern(FRAME_INLINE_MAX + 1);
    cr_assert_eq(frame_send(ends[0], 1, data, 1, fds, FRAME_FDS_MAX + 1), -E2BIG);
    cr_assert_eq(frame_send(ends[0], 1, data, FRAME_INLINE_MAX + 1, fds, FRAME_FDS_MAX), -E2BIG);
    free(data);
}

FRAME_TEST(a_closed_descriptor_is_not_sent)
{
    cr_assert_eq(frame_send(ends[0], 1, "x", 1, (int[]){-1}, 1), -EBADF);
    uint8_t *data = pattern(100000);
    cr_assert_eq(frame_send(ends[0], 1, data, 100000, (int[]){9999}, 1), -EBADF);
    free(data);
    struct frame *frame;
    cr_assert_eq(frame_recv(ends[1], &frame), -EAGAIN);
}

FRAME_TEST(in_order)
{
    struct frame *frame;
    for (uint32_t tag = 1; tag <= 5; tag++)
        cr_assert_eq(frame_send(ends[0], tag, &tag, sizeof tag, NULL, 0), 0);
    for (uint32_t tag = 1; tag <= 5; tag++) {
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        cr_assert_eq(frame->header.tag, tag);
        frame_free(frame);
    }
}

FRAME_TEST(nothing_there)
{
    struct frame *frame;
    cr_assert_eq(frame_recv(ends[1], &frame), -EAGAIN);
}

FRAME_TEST(full_socket)
{
    static uint8_t data[FRAME_INLINE_MAX];
    int r, sent = 0;
    while ((r = frame_send(ends[0], 1, data, sizeof data, (int[]){0}, 1)) == 0)
        sent++;
    cr_assert_eq(r, -EAGAIN);
    cr_assert_gt(sent, 0);
    for (; sent > 0; sent--) {
        struct frame *frame;
        cr_assert_eq(frame_recv(ends[1], &frame), 0);
        frame_free(frame);
    }
}

FRAME_TEST(end_of_connection)
{
    struct frame *frame;
    cr_assert_eq(frame_send(ends[0], 1, "last", 4, NULL, 0), 0);
    close(ends[0]);
    cr_assert_eq(frame_recv(ends[1], &frame), 0);
    frame_free(frame);
    cr_assert_eq(frame_recv(ends[1], &frame), -ECONNRESET);
    cr_assert_eq(frame_send(ends[1], 1, "x", 1, NULL, 0), -EPIPE); /* and no SIGPIPE */
    ends[0] = dup(ends[1]);
}

/* ---- hostile senders ---- */

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
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *why = NULL;
        cr_assert_eq(frame_header_check(&table[i].header, &why), table[i].expected, "row %zu", i);
        cr_assert_eq(why != NULL, table[i].expected != 0, "row %zu", i);
        cr_assert_eq(frame_header_check(&table[i].header, NULL), table[i].expected, "row %zu", i);
        if (table[i].expected != 0) {
            send_raw(&table[i].header, sizeof table[i].header, (int[]){0, 1}, 2);
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
    for (size_t i = 0; i < sizeof stated / sizeof *stated; i++) {
        frame_header_fill(&raw.header, 1, stated[i]);
        send_raw(&raw, sizeof raw, (int[]){0}, 1);
        expect_refused(-EPROTO);
    }
    for (size_t bytes = 1; bytes < sizeof raw.header; bytes++) {
        send_raw(&raw, bytes, (int[]){0}, 1);
        expect_refused(-EPROTO);
    }
}

/* An empty message cannot be told from the end. */
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
    send_raw(&header, sizeof header, fds, FRAME_FDS_MAX + 1);
    expect_refused(-EPROTO);
    send_raw(&header, sizeof header, fds, 100);
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

static void send_memfd(int fd, uint32_t stated, const void *extra, size_t extra_bytes)
{
    uint8_t raw[sizeof(struct frame_header) + 64];
    struct frame_header header;
    frame_header_fill(&header, 9, stated);
    header.flags = FRAME_IN_MEMFD;
    memcpy(raw, &header, sizeof header);
    if (extra_bytes > 0)
        memcpy(raw + sizeof header, extra, extra_bytes);
    send_raw(raw, sizeof header + extra_bytes, &fd, fd >= 0);
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

/* Even when descriptor 0, which an empty list might be taken for, would do. */
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
    for (size_t i = 0; i < sizeof seals / sizeof *seals; i++) {
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
    cr_assert_eq(pread(fd, back, sizeof back, 0), 5);
    cr_assert_eq(pwrite(fd, "x", 1, 0), -1);
    cr_assert_eq(ftruncate(fd, 4), -1);
    cr_assert_eq(ftruncate(fd, 6), -1);
    cr_assert_eq(mmap(NULL, 5, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), -1);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
}
