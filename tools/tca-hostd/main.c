/* tca-hostd: host-side services for the offload processors of its user. Each gets a process of its
 * own. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/common/number.h"
#include "tools/tca-hostd/delegate.h"

enum { PROCESSORS = 64, PROCESSORS_MAX = 4096, EXIT_USAGE = 2 };

static const char usage[] =
    "Usage: tca-hostd [--socket PATH] [--directory DIR] [--processors N]\n"
    "Serves offload processors of this user until SIGTERM or SIGINT: groups, files,\n"
    "reductions.\n"
    "\n"
    "  -s, --socket PATH     the socket where processors connect (TCA_HOSTD)\n"
    "  -d, --directory DIR   the directory of their files (.)\n"
    "  -p, --processors N    how many to serve at once, 1 to 4096 (64)\n"
    "  -h, --help            print this text\n"
    "  -V, --version         print the version\n";

struct options {
    const char *socket;
    const char *directory;
    unsigned processors;
};

/* -1: go on; else the exit status. */
static int parse(int argc, char **argv, struct options *ret_options)
{
    static const struct option known[] = {
        {"socket", required_argument, NULL, 's'},     {"directory", required_argument, NULL, 'd'},
        {"processors", required_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},          {NULL, 0, NULL, 0},
    };
    int option;
    *ret_options =
        (struct options){.socket = getenv("TCA_HOSTD"), .directory = ".", .processors = PROCESSORS};
    while ((option = getopt_long(argc, argv, "s:d:p:hV", known, NULL)) != -1) {
        if (option == 's')
            ret_options->socket = optarg;
        else if (option == 'd')
            ret_options->directory = optarg;
        else if (option == 'h')
            return fputs(usage, stdout) < 0;
        else if (option == 'V')
            return printf("tca-hostd (libtca %s)\n", tca_version()) < 0;
        else if (option != 'p' ||
                 !number_parse("--processors", optarg, 1, PROCESSORS_MAX, &ret_options->processors))
            return EXIT_USAGE;
    }
    if (optind == argc && ret_options->socket && ret_options->socket[0])
        return -1;
    fputs(usage, stderr);
    return EXIT_USAGE;
}

/* ---- the socket ---- */

/* Whether a process listens there; if not, a killed one has left the socket. */
static bool is_used(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const bool used = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0;
    close(fd);
    return used;
}

static int listen_at(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat status;
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    if (lstat(path, &status) == 0 && S_ISSOCK(status.st_mode)) {
        if (is_used(&address))
            return -EADDRINUSE;
        unlink(path);
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const mode_t mask = umask(S_IRWXG | S_IRWXO);
    int r = fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
                    listen(fd, SOMAXCONN) < 0
                ? -errno
                : 0;
    umask(mask);
    if (r < 0 && fd >= 0)
        close(fd);
    else
        *ret_fd = fd;
    return r;
}

/* ---- processors ---- */

static volatile sig_atomic_t ending;

static void on_signal(int number)
{
    ending |= number != SIGCHLD;
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t bytes = sizeof(peer);
    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid == geteuid();
}

/* The process of a processor: ends with it, or with its parent. */
static void delegate(int listener, int fd, int directory, pid_t parent, const sigset_t *signals)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_SETMASK, signals, NULL);
    close(listener);
    exit(getppid() == parent ? delegate_run(fd, directory) : 1);
}

/* Accepts one, unless it is another user's. The number of new processes. */
static unsigned accept_one(int listener, int directory, const sigset_t *signals)
{
    const pid_t parent = getpid();
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return 0;
    pid_t pid = is_ours(fd) ? fork() : -1;
    if (pid == 0)
        delegate(listener, fd, directory, parent, signals);
    close(fd);
    return pid > 0;
}

static void serve(int listener, int directory, unsigned most)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGCHLD};
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t caught, before;
    unsigned count = 0;
    sigemptyset(&caught);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        sigaddset(&caught, numbers[i]);
        sigaction(numbers[i], &action, NULL);
    }
    sigprocmask(SIG_BLOCK, &caught, &before); /* they arrive in ppoll() only */
    while (!ending) {
        struct pollfd fd = {.fd = listener, .events = count < most ? POLLIN : 0};
        if (ppoll(&fd, 1, NULL, &before) > 0)
            count += accept_one(listener, directory, &before);
        while (count > 0 && waitpid(-1, NULL, WNOHANG) > 0)
            count--;
    }
}

int main(int argc, char **argv)
{
    struct options options;
    int listener, status = parse(argc, argv, &options);
    if (status >= 0)
        return status;
    int directory = open(options.directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        fprintf(stderr, "tca-hostd: %s: %s\n", options.directory, strerrordesc_np(errno));
        return 1;
    }
    int r = listen_at(options.socket, &listener);
    if (r < 0) {
        fprintf(stderr, "tca-hostd: socket %s: %s\n", options.socket, strerrordesc_np(-r));
        return 1;
    }
    serve(listener, directory, options.processors);
    unlink(options.socket);
    close(listener);
    close(directory);
    return 0;
}
