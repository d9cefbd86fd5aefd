/* Input and output, in files below tca-hostd's directory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/tca-hostd/delegate.h"

/* Opens a regular file. O_NONBLOCK: opening a FIFO or device does not block. */
static int open_file(struct delegate *delegate, const struct host_request *request, uint64_t flags)
{
    const struct open_how how = {.flags = flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
                                 .mode = flags & O_CREAT ? 0666 : 0,
                                 .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    struct stat status;
    int fd = (int)syscall(SYS_openat2, delegate->directory, request->name, &how, sizeof(how));
    int r = fd < 0 || fstat(fd, &status) < 0 ? -errno : 0;
    if (r == 0 && S_ISREG(status.st_mode))
        return fd;
    if (fd >= 0)
        close(fd);
    if (r == 0)
        return delegate_fail(delegate, -EINVAL, "%s is not a regular file", request->name);
    return delegate_fail(delegate, r, "%s: %s", request->name,
                         r == -EXDEV ? "the path leaves tca-hostd's directory"
                                     : strerrordesc_np(-r));
}

/* All `count` bytes, or those until the end of the file. */
static int64_t move(struct delegate *delegate, const struct host_request *request, int fd,
                    uint8_t *at)
{
    uint64_t done = 0;
    while (done < request->count) {
        const off_t offset = (off_t)(request->offset + done);
        const size_t left = request->count - done;
        const ssize_t n = request->what == HOST_READ ? pread(fd, at + done, left, offset)
                                                     : pwrite(fd, at + done, left, offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return delegate_fail(delegate, -errno, "%s: %s", request->name, strerrordesc_np(errno));
        if (n == 0)
            break;
        done += (uint64_t)n;
    }
    return (int64_t)done;
}

static int64_t transfer(struct delegate *delegate, const struct host_request *request,
                        uint64_t memory, uint64_t flags)
{
    uint8_t *at = delegate_range(delegate, memory, request->count);
    if (!at)
        return delegate_fail(delegate, REFUSED, "data is outside the processor's memory");
    if (request->offset > INT64_MAX - request->count)
        return delegate_fail(delegate, -EINVAL, "%s: offset %llu is too large", request->name,
                             (unsigned long long)request->offset);
    int fd = open_file(delegate, request, flags);
    if (fd < 0)
        return fd;
    int64_t r = move(delegate, request, fd, at);
    if (close(fd) < 0 && r >= 0)
        r = delegate_fail(delegate, -errno, "%s: %s", request->name, strerrordesc_np(errno));
    return r;
}

int64_t delegate_read(struct delegate *delegate, const struct host_request *request)
{
    return transfer(delegate, request, request->out, O_RDONLY);
}

int64_t delegate_write(struct delegate *delegate, const struct host_request *request)
{
    return transfer(delegate, request, request->in, O_WRONLY | O_CREAT);
}
