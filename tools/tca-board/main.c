/* tca-peach2: runs a board, or plugs and unplugs the cables of one. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tca-board/board.h"

static const char usage[] =
    "Usage: tca-peach2 --node N --socket PATH [--cable PORT=PATH:PORT]...\n"
    "                  [--spin US] [--die]\n"
    "       tca-peach2 --socket PATH --unplug PORT | --plug PORT\n"
    "Models a PEACH2 board until SIGTERM or SIGINT; see tca-peach2(1).\n"
    "Ports: E, W, S.\n"
    "\n"
    "      --node N          the board's number in the sub-cluster, 0 to 15\n"
    "      --socket PATH     the board's socket: for its driver, neighbours and the\n"
    "                        second form\n"
    "      --cable E=PATH:W  a cable from port E to port W of the board at PATH;\n"
    "                        specify it at one of the two boards\n"
    "      --spin US         microseconds to poll for work before sleeping (20)\n"
    "      --die             end when the process that started the board ends\n"
    "      --unplug PORT     unplug a cable of a running board\n"
    "      --plug PORT       plug it in again\n"
    "  -h, --help            print this text\n"
    "  -V, --version         print the version\n";

struct options {
    long node;
    const char *socket;
    long spin_us;
    bool die;
    int plug; /* 0, PEACH2_PLUG or PEACH2_UNPLUG */
    int port;
    struct {
        const char *path;
        unsigned far;
    } cables[PEACH2_PORTS];
};

/* One of E, W, S; -1: none. */
static int port_from(char letter)
{
    return letter == 'E' ? PEACH2_E : letter == 'W' ? PEACH2_W : letter == 'S' ? PEACH2_S : -1;
}

static bool parse_cable(struct options *options, char *text)
{
    char *colon = strrchr(text, ':');
    int port = port_from(text[0]), far = colon ? port_from(colon[1]) : -1;
    if (port < 0 || text[1] != '=' || far < 0 || colon[2] != '\0')
        return false;
    *colon = '\0';
    options->cables[port].path = text + 2;
    options->cables[port].far = (unsigned)far;
    return true;
}

static bool parse_number(const char *text, long max, long *ret)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < 0 || value > max)
        return false;
    *ret = value;
    return true;
}

static bool parse_plug(struct options *options, int plug, const char *port)
{
    options->plug = plug;
    options->port = port[0] != '\0' && port[1] == '\0' ? port_from(port[0]) : -1;
    return options->port >= 0;
}

/* 0: continue; else the exit status plus 1. */
static int parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"node", required_argument, NULL, 'n'},   {"socket", required_argument, NULL, 's'},
        {"cable", required_argument, NULL, 'c'},  {"spin", required_argument, NULL, 'i'},
        {"unplug", required_argument, NULL, 'u'}, {"plug", required_argument, NULL, 'p'},
        {"die", no_argument, NULL, 'd'},          {"help", no_argument, NULL, 'h'},
        {"version", no_argument, NULL, 'V'},      {0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "hV", known, NULL)) >= 0) {
        bool good = true;
        switch (c) {
        case 'n':
            good = parse_number(optarg, PEACH2_NODES - 1, &options->node);
            break;
        case 's':
            options->socket = optarg;
            break;
        case 'c':
            good = parse_cable(options, optarg);
            break;
        case 'i':
            good = parse_number(optarg, 1000000, &options->spin_us);
            break;
        case 'u':
            good = parse_plug(options, PEACH2_UNPLUG, optarg);
            break;
        case 'p':
            good = parse_plug(options, PEACH2_PLUG, optarg);
            break;
        case 'd':
            options->die = true;
            break;
        case 'h':
            fputs(usage, stdout);
            return 1;
        case 'V':
            puts("tca-peach2 " TCAD_VERSION);
            return 1;
        default:
            good = false;
            optarg = NULL;
        }
        if (!good) {
            if (optarg)
                fprintf(stderr, "tca-peach2: invalid argument '%s': see --help\n", optarg);
            return 3;
        }
    }
    if (optind < argc || !options->socket || (options->node < 0 && !options->plug)) {
        fputs(usage, stderr);
        return 3;
    }
    return 0;
}

static int report(const char *what, const char *about, int error)
{
    fprintf(stderr, "tca-peach2: %s %s: %s\n", what, about, strerror(-error));
    return 1;
}

static int send_plug(const struct options *options)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct peach2_control message = {.type = (uint32_t)options->plug,
                                     .port = (uint32_t)options->port};
    if (strlen(options->socket) >= sizeof(name.sun_path))
        return report("socket", options->socket, -ENAMETOOLONG);
    strcpy(name.sun_path, options->socket);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0)
        return report("no board at", options->socket, -errno);
    if (send(fd, &message, sizeof(message), MSG_NOSIGNAL) < 0 ||
        recv(fd, &message, sizeof(message), 0) != sizeof(message))
        return report("no reply from", options->socket, -EIO);
    close(fd);
    return message.status < 0
               ? report("cannot change the cable of the board at", options->socket, message.status)
               : 0;
}

static int take_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int main(int argc, char **argv)
{
    struct options options = {.node = -1, .spin_us = 20};
    int r = parse(argc, argv, &options);
    if (r > 0)
        return r - 1;
    if (options.plug)
        return send_plug(&options);
    if (options.die)
        prctl(PR_SET_PDEATHSIG, SIGTERM);
    int signal_fd = take_signals();
    struct board *board = malloc(sizeof(*board));
    if (!board || signal_fd < 0)
        return report("cannot start", options.socket, -ENOMEM);
    r = board_init(board, (uint32_t)options.node, options.socket);
    for (unsigned i = 0; i < PEACH2_PORTS; i++) {
        board->ports[i].dial = options.cables[i].path;
        board->ports[i].dial_port = options.cables[i].far;
    }
    if (r == 0)
        r = board_run(board, (uint32_t)options.spin_us, signal_fd);
    if (r < 0)
        report("board at", options.socket, r);
    board_deinit(board);
    free(board);
    close(signal_fd);
    return r < 0;
}
