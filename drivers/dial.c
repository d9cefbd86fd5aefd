#include "drivers/dial.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define NEXT_NS UINT64_C(250000000)

struct attempt {
    int fd;    /* -1: not begun, or over */
    int error; /* 0: none yet */
};

struct dial {
    int epoll_fd;
    uint32_t skip, tried;
    unsigned next, running;
    uint64_t due_ns;
    struct attempt attempts[ADDRESSES_MAX];
    struct addresses addresses; /* last: with its list */
};

int dial_new(const struct addresses *addresses, uint32_t skip, struct dial **ret_dial)
{
    const size_t list_bytes = addresses->count * sizeof(addresses->list[0]);
    struct dial *dial = calloc(1, sizeof(*dial) + list_bytes);
    if (!dial)
        return -ENOMEM;
    dial->skip = skip;
    dial->addresses.count = addresses->count;
    memcpy(dial->addresses.list, addresses->list, list_bytes);
    for (unsigned i = 0; i < ADDRESSES_MAX; i++)
        dial->attempts[i].fd = -1;
    dial->due_ns = 1;
    dial->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (dial->epoll_fd < 0) {
        int r = -errno;
        free(dial);
        return r;
    }
    *ret_dial = dial;
    return 0;
}

struct dial *dial_free(struct dial *dial)
{
    if (!dial)
        return NULL;
    for (unsigned i = 0; i < ADDRESSES_MAX; i++)
        if (dial->attempts[i].fd >= 0)
            close(dial->attempts[i].fd);
    close(dial->epoll_fd);
    free(dial);
    return NULL;
}

int dial_fd(const struct dial *dial)
{
    return dial->epoll_fd;
}

uint64_t dial_due_ns(const struct dial *dial)
{
    return dial->due_ns;
}

static void failed(struct dial *dial, unsigned which, int error)
{
    struct attempt *attempt = &dial->attempts[which];
    attempt->error = error;
    if (attempt->fd >= 0)
        close(attempt->fd);
    attempt->fd = -1;
    dial->running--;
}

/* 0, or why it has failed at once. */
static int begin(struct dial *dial, unsigned which)
{
    const struct address *address = &dial->addresses.list[which];
    struct epoll_event event = {.events = EPOLLOUT, .data.u32 = which};
    struct attempt *attempt = &dial->attempts[which];
    attempt->fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attempt->fd < 0)
        return -errno;
    if (connect(attempt->fd, (const struct sockaddr *)&address->at, address->bytes) < 0 &&
        errno != EINPROGRESS)
        return -errno;
    return epoll_ctl(dial->epoll_fd, EPOLL_CTL_ADD, attempt->fd, &event) < 0 ? -errno : 0;
}

/* Begins with the next address that does not fail at once. */
static void try_next(struct dial *dial, uint64_t now_ns)
{
    for (int r = -EAGAIN; r < 0 && dial->next < dial->addresses.count; dial->next++) {
        if (dial->skip & 1u << dial->next)
            continue;
        dial->tried |= 1u << dial->next;
        dial->running++;
        r = begin(dial, dial->next);
        if (r < 0)
            failed(dial, dial->next, r);
    }
    dial->due_ns = dial->next < dial->addresses.count ? now_ns + NEXT_NS : 0;
}

/* An attempt has an end: its descriptor, or why it has failed. */
static int take_end(struct dial *dial, unsigned which)
{
    struct attempt *attempt = &dial->attempts[which];
    const int fd = attempt->fd;
    int error = 0;
    socklen_t bytes = sizeof(error);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    if (error) {
        failed(dial, which, -error);
        return -error;
    }
    epoll_ctl(dial->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
    attempt->fd = -1;
    return fd;
}

static int first_error(const struct dial *dial)
{
    for (unsigned i = 0; i < dial->addresses.count; i++)
        if (dial->tried & 1u << i)
            return dial->attempts[i].error;
    return -EHOSTUNREACH;
}

int dial_step(struct dial *dial, uint64_t now_ns, unsigned *ret_which)
{
    struct epoll_event event;
    bool has_failed = false;
    while (epoll_wait(dial->epoll_fd, &event, 1, 0) > 0) {
        int fd = take_end(dial, event.data.u32);
        if (fd >= 0) {
            *ret_which = event.data.u32;
            return fd;
        }
        has_failed = true;
    }
    if (has_failed || (dial->due_ns != 0 && now_ns >= dial->due_ns))
        try_next(dial, now_ns);
    return dial->running > 0 || dial->due_ns != 0 ? -EAGAIN : first_error(dial);
}

uint32_t dial_failed(const struct dial *dial)
{
    uint32_t failed = 0;
    for (unsigned i = 0; i < dial->addresses.count; i++)
        failed |= dial->attempts[i].error ? 1u << i : 0;
    return failed;
}

int dial_result(const struct dial *dial, unsigned which)
{
    const int error = dial->attempts[which].error;
    return error ? error : dial->tried & 1u << which ? -EINPROGRESS : 0;
}

void dial_text(const struct dial *dial, char *ret_text, size_t text_bytes)
{
    const bool many = (dial->tried & (dial->tried - 1)) != 0;
    size_t used = 0;
    ret_text[0] = '\0';
    for (unsigned i = 0; i < dial->addresses.count && used < text_bytes; i++) {
        char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
        if (!(dial->tried & 1u << i))
            continue;
        if (many)
            address_text(&dial->addresses.list[i], host, sizeof(host));
        used +=
            (size_t)snprintf(ret_text + used, text_bytes - used, "%s%s%s%s", used > 0 ? "; " : "",
                             host, many ? ": " : "", strerrordesc_np(-dial->attempts[i].error));
    }
}
