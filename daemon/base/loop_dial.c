#include "daemon/base/loop_dial.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/base/loop.h"
#include "proto/wait.h"

enum { TEXT_BYTES = 240 };

struct loop_dial {
    struct dial *dial;
    struct loop_io *io;
    struct loop_timer *timer;
    void (*done)(void *context, int fd, unsigned which, const char *text);
    void *context;
};

static void step(struct loop_dial *dial)
{
    const uint64_t now_ns = clock_now_ns();
    char text[TEXT_BYTES] = "";
    unsigned which = 0;
    int r = dial_step(dial->dial, now_ns, &which);
    const uint64_t due_ns = dial_due_ns(dial->dial);
    if (r == -EAGAIN && due_ns != 0)
        loop_timer_set(dial->timer, due_ns > now_ns ? due_ns - now_ns : 0, 0);
    if (r == -EAGAIN)
        return;
    if (r < 0)
        dial_text(dial->dial, text, sizeof(text));
    dial->done(dial->context, r, which, text);
}

static void on_io(void *context, unsigned events)
{
    step(context);
}

static void on_timer(void *context)
{
    step(context);
}

int loop_dial_new(struct loop *loop, const struct addresses *addresses, uint32_t skip,
                  void (*done)(void *context, int fd, unsigned which, const char *text),
                  void *context, struct loop_dial **ret_dial)
{
    struct loop_dial *dial = calloc(1, sizeof(*dial));
    if (!dial)
        return -ENOMEM;
    dial->done = done;
    dial->context = context;
    int r = dial_new(addresses, skip, &dial->dial);
    if (r == 0)
        r = loop_io_new(loop, dial_fd(dial->dial), LOOP_READ, on_io, dial, &dial->io);
    if (r == 0)
        r = loop_timer_new(loop, on_timer, dial, &dial->timer);
    if (r < 0) {
        loop_dial_free(dial);
        return r;
    }
    loop_timer_set(dial->timer, 0, 0);
    *ret_dial = dial;
    return 0;
}

struct loop_dial *loop_dial_free(struct loop_dial *dial)
{
    if (!dial)
        return NULL;
    loop_timer_free(dial->timer);
    loop_io_free(dial->io);
    dial_free(dial->dial);
    free(dial);
    return NULL;
}

int loop_dial_result(const struct loop_dial *dial, unsigned which)
{
    return dial_result(dial->dial, which);
}

uint32_t loop_dial_failed(const struct loop_dial *dial)
{
    return dial_failed(dial->dial);
}
