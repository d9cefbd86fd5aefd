#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/include/tca-admin.h"
#include "tests/unit/client/environment.h"

struct row {
    const char *argument;
    const char *pairs[4];
    const char *path; /* NULL: -result */
    const char *why;
    int result;
};

static const struct row table[] = {
    {"/a/b.sock", {"TCA_SOCKET=/c"}, "/a/b.sock", "argument"},
    {"", {"TCA_SOCKET=/c", "TCA_NODE=1"}, "/c", "TCA_SOCKET"},
    {NULL, {"TCA_NODE=3", "TCA_CLUSTER_DIR=/x"}, "/x/node3/tcad.sock", "TCA_NODE"},
    {NULL,
     {"TCA_NODE=0", "XDG_RUNTIME_DIR=/run/user/5"},
     "/run/user/5/tca-cluster/node0/tcad.sock",
     "TCA_NODE"},
    {NULL, {"TCA_NODE=", "XDG_RUNTIME_DIR=/nowhere"}, "/run/tcad/tcad.sock", "system"},
    {NULL, {"TCA_NODE=three"}, NULL, NULL, -EINVAL},
    {NULL, {"TCA_NODE=4294967296"}, NULL, NULL, -EINVAL},
};

Test(socket, rules)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        char path[PATH_MAX];
        const char *why;
        set_environment(table[i].pairs);
        int r = tca_socket_path(table[i].argument, path, sizeof(path), &why);
        cr_expect_eq(r, table[i].result, "row %zu: %d", i, r);
        if (r < 0)
            continue;
        /* where the tests run, the user's own tcad may run too */
        if (strcmp(table[i].why, "system") == 0 && strcmp(why, "user") == 0)
            continue;
        cr_expect_str_eq(path, table[i].path, "row %zu: %s", i, path);
        cr_expect_str_eq(why, table[i].why, "row %zu: %s", i, why);
    }
}

Test(socket, emulated_nodes_without_a_runtime_directory)
{
    char path[PATH_MAX], expected[PATH_MAX];
    set_environment((const char *const[]){"TCA_NODE=2", NULL});
    cr_assert_eq(tca_socket_path(NULL, path, sizeof(path), NULL), 0);
    snprintf(expected, sizeof(expected), "/tmp/tca-cluster-%u/node2/tcad.sock", (unsigned)getuid());
    cr_assert_str_eq(path, expected);
}

Test(socket, the_users_own_goes_before_the_systems)
{
    char directory[] = "/tmp/tca-test-XXXXXX", path[PATH_MAX], pair[PATH_MAX];
    const char *why;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cr_assert_not_null(mkdtemp(directory));
    snprintf(pair, sizeof(pair), "XDG_RUNTIME_DIR=%s", directory);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s/tcad", directory);
    cr_assert_eq(mkdir(address.sun_path, 0700), 0);
    strcat(address.sun_path, "/tcad.sock");
    set_environment((const char *const[]){pair, NULL});

    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(tca_socket_path(NULL, path, sizeof(path), &why), 0);
    cr_expect_str_eq(path, address.sun_path);
    cr_expect_str_eq(why, "user");

    /* nobody listens there */
    struct tca_admin *admin;
    cr_expect_eq(tca_admin_open(NULL, TCA_DEFAULT, &admin), -ECONNREFUSED);
    cr_expect_not_null(strstr(tca_error_text(), address.sun_path));
    close(fd);
    unlink(address.sun_path);
    cr_expect_eq(tca_admin_open(address.sun_path, TCA_DEFAULT, &admin), -ECONNREFUSED);
    *strrchr(address.sun_path, '/') = 0;
    rmdir(address.sun_path);
    rmdir(directory);
}

Test(socket, a_path_that_does_not_fit)
{
    char path[PATH_MAX], long_path[200];
    memset(long_path, 'x', sizeof(long_path) - 1);
    long_path[sizeof(long_path) - 1] = 0;
    cr_assert_eq(tca_socket_path(long_path, path, sizeof(path), NULL), -ENAMETOOLONG);
    cr_assert_eq(tca_socket_path("/abc", path, 4, NULL), -ENAMETOOLONG);
    cr_assert_eq(tca_socket_path("/abc", path, 5, NULL), 0);
}

/* A daemon whose backlog is full and that accepts no connection. */
Test(socket, a_stopped_daemon_is_a_time_out)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct tca_admin *admin;
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/tca-test-full-%d", (int)getpid());
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_eq(listen(fd, 0), 0);
    int first = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    cr_assert_eq(connect(first, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_expect_eq(tca_admin_open(address.sun_path, 20000000, &admin), -ETIMEDOUT);
    close(first);
    close(accept(fd, NULL, NULL));
    cr_expect_eq(tca_admin_open(address.sun_path, 20000000, &admin), -ETIMEDOUT,
                 "it does not answer the hello");
    close(fd);
    unlink(address.sun_path);
}
