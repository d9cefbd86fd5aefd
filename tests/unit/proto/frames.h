/* Two ends of a socket, for tests of frames. */
#pragma once

#include <criterion/criterion.h>
#include <dirent.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/frame.h"

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
