/* Connecting to one of several addresses. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/loop.h"
#include "daemon/base/loop_dial.h"

TestSuite(dial, .timeout = 60);

static struct loop *loop;
static struct loop_dial *dial;
static int connection;
static unsigned at;
static uint32_t failed;
static int results[3];
static char said[256];

static void done(void *context, int fd, unsigned which, const char *text)
{
    connection = fd;
    at = which;
    failed = loop_dial_failed(dial);
    for (unsigned i = 0; i < 3; i++)
        results[i] = loop_dial_result(dial, i);
    strncpy(said, text, sizeof(said) - 1);
    dial = loop_dial_free(dial);
    loop_stop(loop);
}

static uint16_t listen_here(int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof(address);
    *ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(*ret_fd, (struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(listen(*ret_fd, 1), 0);
    cr_assert_eq(getsockname(*ret_fd, (struct sockaddr *)&address, &bytes), 0);
    return ntohs(address.sin_port);
}

/* The addresses of several hosts. */
static struct addresses *list(uint16_t port, unsigned count, const char *const *hosts)
{
    struct addresses *all = calloc(1, sizeof(*all) + count * sizeof(all->list[0]));
    for (; all->count < count; all->count++) {
        struct addresses *one;
        cr_assert_eq(addresses_parse(hosts[all->count], port, &one), 0);
        all->list[all->count] = one->list[0];
        free(one);
    }
    return all;
}

static void go(const struct addresses *addresses, uint32_t skip)
{
    cr_assert_eq(loop_new(&loop), 0);
    cr_assert_eq(loop_dial_new(loop, addresses, skip, done, NULL, &dial), 0);
    cr_assert_eq(loop_run(loop), 0);
    loop_free(loop);
}

Test(dial, takes_the_next_when_one_refuses)
{
    int listener;
    const uint16_t port = listen_here(&listener);
    struct addresses *addresses =
        list(port, 3, (const char *[]){"127.0.0.2", "127.0.0.3", "127.0.0.1"});
    go(addresses, 0);
    cr_assert_geq(connection, 0);
    cr_assert_eq(at, 2);
    cr_assert_eq(failed, 3);
    close(connection);
    close(listener);
    free(addresses);
}

Test(dial, says_what_each_has_said)
{
    int listener;
    const uint16_t port = listen_here(&listener);
    struct addresses *addresses =
        list(port, 3, (const char *[]){"127.0.0.2", "127.0.0.1", "127.0.0.3"});
    go(addresses, 1 << 1);
    cr_assert_eq(connection, -ECONNREFUSED);
    cr_assert_str_eq(said, "127.0.0.2: Connection refused; 127.0.0.3: Connection refused");
    cr_assert_eq(failed, 5);
    cr_assert(results[0] == -ECONNREFUSED && results[1] == 0 && results[2] == -ECONNREFUSED);
    close(listener);
    free(addresses);
}

Test(dial, goes_on_when_one_does_not_answer)
{
    int listener, silent, full[8];
    const uint16_t port = listen_here(&listener);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = inet_addr("127.0.0.2")};
    /* A listener whose queue is full answers nobody. */
    silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(silent, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(silent, 0), 0);
    for (unsigned i = 0; i < 8; i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(full[i], (struct sockaddr *)&address, sizeof(address));
    }
    struct addresses *addresses = list(port, 2, (const char *[]){"127.0.0.2", "127.0.0.1"});
    go(addresses, 0);
    cr_assert_geq(connection, 0);
    cr_assert_eq(at, 1);
    cr_assert_eq(failed, 0);
    cr_assert(results[0] == -EINPROGRESS && results[2] == 0);
    close(connection);
    for (unsigned i = 0; i < 8; i++)
        close(full[i]);
    close(silent);
    close(listener);
    free(addresses);
}

/* Of one family first, as they are looked up: each other one is of the other family, as long as
 * there are some. */
Test(addresses, families_take_turns)
{
    static const char *const found[] = {"fd00::1", "fd00::2", "fd00::3", "10.0.0.1", "10.0.0.2"},
                             *const tried[] = {"fd00::1", "10.0.0.1", "fd00::2", "10.0.0.2",
                                               "fd00::3"};
    struct addresses *addresses = list(1, 5, found);
    addresses_interleave(addresses);
    for (unsigned i = 0; i < 5; i++) {
        char text[64];
        address_text(&addresses->list[i], text, sizeof(text));
        cr_assert_str_eq(text, tried[i]);
    }
    free(addresses);
}

static bool is_v6(const struct address *address)
{
    return address->at.ss_family == AF_INET6;
}

Test(addresses, some_are_kept)
{
    struct addresses *addresses =
        list(1, 3, (const char *[]){"127.0.0.1", "10.0.0.1", "127.0.0.2"});
    addresses_keep(addresses, is_v6);
    cr_assert_eq(addresses->count, 3); /* there is none */
    addresses_keep(addresses, address_is_outside);
    cr_assert_eq(addresses->count, 1);
    cr_assert_not(address_is_loopback(&addresses->list[0]));
    free(addresses);
}

Test(addresses, are_parsed)
{
    struct addresses *addresses;
    char text[64];
    cr_assert_eq(addresses_parse("host", 1, &addresses), -EINVAL);
    cr_assert_eq(addresses_parse("fe80::1%lo", 1, &addresses), 0);
    address_text(&addresses->list[0], text, sizeof(text));
    cr_assert_str_eq(text, "fe80::1%lo");
    cr_assert_not(address_is_loopback(&addresses->list[0]));
    free(addresses);
    cr_assert_eq(addresses_parse("127.0.1.1", 1, &addresses), 0);
    cr_assert(address_is_loopback(&addresses->list[0]));
    free(addresses);
}
