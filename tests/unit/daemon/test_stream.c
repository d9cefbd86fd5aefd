/* Streams of frames, in plain, to a socket of the test's. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "proto/frame.h"

TestSuite(stream, .timeout = 60);

static struct loop *loop;
static struct stream *stream;
static struct loop_post post;
static int other; /* end of the connection */
static char heard[64];

static void heard_frame(void *context, uint32_t tag, const void *payload, size_t bytes)
{
    cr_assert_lt(bytes, sizeof(heard));
    memcpy(heard, payload, bytes);
}

static void closed(void *context, int error, const char *text)
{
    loop_stop(loop);
}

static void say(const char *text)
{
    struct frame_header header;
    frame_header_fill(&header, 1, (uint32_t)strlen(text));
    cr_assert_eq(write(other, &header, sizeof(header)), sizeof(header));
    cr_assert_eq(write(other, text, strlen(text)), (ssize_t)strlen(text));
}

/* The end of this turn writes before the next one can read. */
static void say_and_break(void *context)
{
    const struct linger reset = {.l_onoff = 1};
    say("last words");
    setsockopt(other, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(other);
    cr_assert_eq(stream_send(stream, 1, "x", 1), 0);
}

static void ready(void *context)
{
    loop_post_own(loop, &post, say_and_break, NULL);
}

static void connect_to(int listener)
{
    const struct stream_events events = {.ready = ready, .frame = heard_frame, .closed = closed};
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    cr_assert_eq(loop_new(&loop), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    connect(fd, (struct sockaddr *)&address, bytes);
    cr_assert_eq(stream_connect(loop, NULL, fd, &events, &stream), 0);
    other = accept(listener, NULL, NULL);
    cr_assert_geq(other, 0);
}

Test(stream, what_was_said_before_a_write_fails_is_heard)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    signal(SIGPIPE, SIG_IGN); /* as tcad does */
    connect_to(listener);
    cr_assert_eq(loop_run(loop), 0);
    cr_assert_str_eq(heard, "last words");
    stream_free(stream);
    loop_free(loop);
    close(listener);
}
