#include "daemon/base/dial.h"

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop.h"

#define NEXT_NS UINT64_C(250000000)

enum { TEXT_BYTES = 240 };

struct attempt {
    struct dial *dial;
    int fd; /* -1: not begun, or over */
    struct loop_io *io;
    int error; /* 0: none yet */
};

struct dial {
    struct loop *loop;
    const struct addresses *addresses;
    uint32_t skip, tried;
    unsigned next, running;
    struct loop_timer *timer; /* for the next address */
    void (*done)(void *context, int fd, unsigned which, const char *text);
    void *context;
    struct attempt attempts[ADDRESSES_MAX];
};

static void end(struct attempt *attempt)
{
    attempt->io = loop_io_free(attempt->io);
    if (attempt->fd >= 0)
        close(attempt->fd);
    attempt->fd = -1;
}

/* "No route to host", or "fd00::1: No route to host; 10.0.0.1: Connection refused". Returns the first error. */
static int explain(const struct dial *dial, char *ret_text)
{
    const bool many = (dial->tried & (dial->tried - 1)) != 0;
    size_t used = 0;
    int error = -EHOSTUNREACH;
    ret_text[0] = '\0';
    for (unsigned i = dial->addresses->count; i-- > 0;)
        if (dial->tried & 1u << i)
            error = dial->attempts[i].error;
    for (unsigned i = 0; i < dial->addresses->count && used < TEXT_BYTES; i++) {
        char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
        if (!(dial->tried & 1u << i))
            continue;
        if (many)
            address_text(&dial->addresses->list[i], host, sizeof host);
        used +=
            (size_t)snprintf(ret_text + used, TEXT_BYTES - used, "%s%s%s%s", used > 0 ? "; " : "",
                             host, many ? ": " : "", strerrordesc_np(-dial->attempts[i].error));
    }
    return error;
}

static void try_next(struct dial *dial);

static void failed(struct attempt *attempt, int error)
{
    attempt->error = error;
    end(attempt);
    attempt->dial->running--;
}

static void on_io(void *context, unsigned events)
{
    struct attempt *attempt = context;
    struct dial *dial = attempt->dial;
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(attempt->fd, SOL_SOCKET, SO_ERROR, &error, &bytes) < 0)
        error = errno;
    if (error) {
        failed(attempt, -error);
        try_next(dial);
        return;
    }
    const int fd = attempt->fd;
    attempt->io = loop_io_free(attempt->io);
    attempt->fd = -1;
    dial->done(dial->context, fd, (unsigned)(attempt - dial->attempts), "");
}

/* 0, or why it has failed at once. */
static int begin(struct attempt *attempt, const struct address *address)
{
    attempt->fd = socket(address->at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (attempt->fd < 0)
        return -errno;
    if (connect(attempt->fd, (const struct sockaddr *)&address->at, address->bytes) < 0 &&
        errno != EINPROGRESS)
        return -errno;
    return loop_io_new(attempt->dial->loop, attempt->fd, LOOP_WRITE, on_io, attempt, &attempt->io);
}

/* Begins with the next address that does not fail at once. */
static void try_next(struct dial *dial)
{
    for (int r = -EAGAIN; r < 0 && dial->next < dial->addresses->count; dial->next++) {
        struct attempt *attempt = &dial->attempts[dial->next];
        if (dial->skip & 1u << dial->next)
            continue;
        dial->tried |= 1u << dial->next;
        dial->running++;
        r = begin(attempt, &dial->addresses->list[dial->next]);
        if (r < 0)
            failed(attempt, r);
    }
    if (dial->next < dial->addresses->count) {
        loop_timer_set(dial->timer, NEXT_NS, 0);
    } else if (dial->running == 0) {
        char text[TEXT_BYTES];
        const int error = explain(dial, text);
        dial->done(dial->context, error, 0, text);
    }
}

static void on_timer(void *context)
{
    try_next(context);
}

int dial_new(struct loop *loop, const struct addresses *addresses, uint32_t skip,
             void (*done)(void *context, int fd, unsigned which, const char *text), void *context,
             struct dial **ret_dial)
{
    struct dial *dial = calloc(1, sizeof *dial);
    if (!dial)
        return -ENOMEM;
    dial->loop = loop;
    dial->addresses = addresses;
    dial->skip = skip;
    dial->done = done;
    dial->context = context;
    for (unsigned i = 0; i < ADDRESSES_MAX; i++)
        dial->attempts[i] = (struct attempt){.dial = dial, .fd = -1};
    int r = loop_timer_new(loop, on_timer, dial, &dial->timer);
    if (r < 0) {
        free(dial);
        return r;
    }
    loop_timer_set(dial->timer, 0, 0);
    *ret_dial = dial;
    return 0;
}

struct dial *dial_free(struct dial *dial)
{
    if (!dial)
        return NULL;
    for (unsigned i = 0; i < ADDRESSES_MAX; i++)
        end(&dial->attempts[i]);
    loop_timer_free(dial->timer);
    free(dial);
    return NULL;
}

uint32_t dial_failed(const struct dial *dial)
{
    uint32_t failed = 0;
    for (unsigned i = 0; i < dial->addresses->count; i++)
        failed |= dial->attempts[i].error ? 1u << i : 0;
    return failed;
}
