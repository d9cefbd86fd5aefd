/* Access to the board: control socket, registers, doorbell. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "drivers/peach2/device.h"
#include "proto/wait.h"

static int dial(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(name.sun_path))
        return -ENAMETOOLONG;
    strcpy(name.sun_path, path);
    /* non-blocking, because a stuck board does not accept connections and its queue may be full */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0) {
        close(fd);
        return -ENODEV;
    }
    return fd;
}

static int send_message(int fd, const struct peach2_control *message, int passed)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iovec = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iovec, .msg_iovlen = 1};
    if (passed >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &passed, sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) == sizeof(*message) ? 0 : -ENODEV;
}

/* Receives a reply with at most PEACH2_CONTROL_FDS descriptors. Returns their number; -ETIMEDOUT:
 * no reply yet. */
static int receive(int fd, struct peach2_control *ret_message, int ret_fds[PEACH2_CONTROL_FDS],
                   int wait_ms)
{
    union {
        char bytes[CMSG_SPACE(PEACH2_CONTROL_FDS * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    struct iovec iovec = {.iov_base = ret_message, .iov_len = sizeof(*ret_message)};
    struct msghdr header = {.msg_iov = &iovec,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    int ready;
    while ((ready = poll(&poll_fd, 1, wait_ms)) < 0 && errno == EINTR)
        ;
    if (ready <= 0)
        return -ETIMEDOUT;
    if (recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != sizeof(*ret_message))
        return -ENODEV;
    unsigned count = 0;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS) {
        count = (unsigned)((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(ret_fds, CMSG_DATA(rights), count * sizeof(int));
    }
    return (int)count;
}

int peach2_device_request(struct device *device, const struct peach2_control *message, int fd)
{
    struct peach2_control reply;
    int fds[PEACH2_CONTROL_FDS];
    int r = send_message(device->control, message, fd);
    int count = r < 0 ? r : receive(device->control, &reply, fds, REPLY_MS);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (count == -ETIMEDOUT) { /* disconnect: a late reply would be mistaken for the next one */
        shutdown(device->control, SHUT_RDWR);
        return -ENODEV;
    }
    return count < 0 ? count : reply.status;
}

/* Checks size and seals first, because a board of another version may have a smaller BAR. */
static int map_bar(int fd, size_t bytes, void **ret_bar)
{
    struct stat stat;
    const int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &stat) < 0 ||
        (uint64_t)stat.st_size < bytes)
        return -EPROTO;
    void *bar = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bar == MAP_FAILED)
        return -errno;
    *ret_bar = bar;
    return 0;
}

static int map_bars(struct device *device, int bar0_fd, int bar2_fd)
{
    void *bar0 = NULL, *bar2 = NULL;
    int r = map_bar(bar0_fd, sizeof(*device->bar0), &bar0);
    if (r == 0)
        r = map_bar(bar2_fd, sizeof(*device->bar2), &bar2);
    device->bar0 = bar0;
    device->bar2 = bar2;
    if (r < 0)
        return r;
    const uint32_t node = device->bar0->node;
    if (device->bar0->magic != PEACH2_MAGIC || device->bar0->version != PEACH2_VERSION ||
        node >= PEACH2_NODES)
        return -EPROTO;
    device->node = node;
    return 0;
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

int peach2_device_dial(struct device *device)
{
    const struct peach2_control attach = {.type = PEACH2_ATTACH};
    device->control = dial(device->path);
    if (device->control < 0)
        return device->control;
    int r = send_message(device->control, &attach, -1);
    if (r < 0)
        close_fd(&device->control);
    return r;
}

int peach2_device_attach(struct device *device, int wait_ms)
{
    struct peach2_control reply;
    int fds[PEACH2_CONTROL_FDS];
    int count = receive(device->control, &reply, fds, wait_ms);
    if (count == -ETIMEDOUT)
        return -EAGAIN;
    int r = count < 0                     ? count
            : reply.status < 0            ? reply.status
            : count != PEACH2_CONTROL_FDS ? -EPROTO
                                          : 0;
    if (r == 0) {
        r = map_bars(device, fds[0], fds[1]);
        device->interrupt_fd = fds[2];
        device->bell_fd = fds[3];
        count = 2; /* the BARs' descriptors are closed below */
    }
    for (int i = 0; i < count; i++)
        close(fds[i]);
    if (r < 0)
        peach2_device_detach(device);
    return r;
}

void peach2_device_detach(struct device *device)
{
    close_fd(&device->control);
    close_fd(&device->interrupt_fd);
    close_fd(&device->bell_fd);
    if (device->bar0)
        munmap(device->bar0, sizeof(*device->bar0));
    if (device->bar2)
        munmap(device->bar2, sizeof(*device->bar2));
    device->bar0 = NULL;
    device->bar2 = NULL;
}

void peach2_device_disable(struct device *device)
{
    for (unsigned node = 0; node < PEACH2_NODES; node++)
        atomic_store(&device->bar0->accept_epoch[node], UINT64_MAX);
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        atomic_store(&device->bar0->channels[i].control, PEACH2_ABORT);
}

void peach2_device_ring(struct device *device)
{
    atomic_thread_fence(
        memory_order_seq_cst); /* orders earlier stores before the load: see registers.h */
    if (atomic_load_explicit(&device->bar0->bell_armed, memory_order_relaxed) != 0 &&
        atomic_exchange(&device->bar0->bell_armed, 0) != 0)
        eventfd_write(device->bell_fd, 1);
}

/* Waits for a register to have a value; this takes microseconds unless the board is stuck. */
static int wait_for(const struct device *device, const _Atomic uint32_t *word, uint32_t value)
{
    const uint64_t deadline_ns = clock_now_ns() + (uint64_t)ABORT_MS * 1000000;
    const struct timespec nap = {.tv_nsec = 20000};
    for (unsigned look = 0; atomic_load_explicit(word, memory_order_acquire) != value; look++) {
        if (look < 100)
            continue;
        if (clock_now_ns() > deadline_ns)
            return -ETIMEDOUT;
        nanosleep(&nap, NULL);
    }
    return 0;
}

int peach2_device_commit(struct device *device)
{
    uint32_t commit = atomic_load(&device->bar0->commit) + 1;
    atomic_store_explicit(&device->bar0->commit, commit,
                          memory_order_release); /* pairs with the board's acquire */
    peach2_device_ring(device);
    return wait_for(device, &device->bar0->committed, commit);
}

int peach2_device_abort(struct device *device, unsigned channel)
{
    struct peach2_channel *registers = &device->bar0->channels[channel];
    atomic_store_explicit(&registers->control, PEACH2_ABORT, memory_order_release);
    peach2_device_ring(device);
    return wait_for(device, &registers->control, 0);
}
