/* Plugs and unplugs cables. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tca-board/board.h"

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void report_change(struct board *board, unsigned index)
{
    board->ports[index].changes++;
    board_show(board);
    board_cause(board, PEACH2_CAUSE_PORT);
}

/* ---- unplugging ---- */

/* Takes back packets that the neighbour has not claimed, before others that wait for the same nodes
 * because they are older; and keeps the neighbour's packet that we have claimed. */
static void divide(struct board *board, struct port *port)
{
    uint64_t first = atomic_fetch_or(&port->out->claimed, LINK_CLOSED) & ~LINK_CLOSED;
    if (port->out_tail - first > LINK_SLOTS)
        first = port->out_tail;
    for (uint64_t at = port->out_tail; at != first; at--) {
        const struct packet *packet = &port->out->slots[(at - 1) % LINK_SLOTS].packet;
        const struct packet_header header =
            packet->header; /* copied, because the neighbour could change it */
        if (!replay_push(board, &header, packet->payload, true))
            board_discard(board, PEACH2_CAUSE_HELD);
    }
    if (port->claimed) {
        port->held = *port->claim;
        port->has_held = true;
        port->claimed = false;
    }
}

static void disconnect_port(struct port *port)
{
    if (port->memory)
        munmap(port->memory, sizeof(*port->memory));
    port->memory = NULL;
    port->in = port->out = NULL;
    close_fd(&port->bell_fd);
    close_fd(&port->fd);
}

void port_down(struct board *board, unsigned index)
{
    struct port *port = &board->ports[index];
    bool was_up = port->up;
    if (was_up)
        divide(board, port);
    port->up = false;
    disconnect_port(port);
    port->redial_ns = clock_now_ns() + (was_up ? 0 : BOARD_REDIAL_NS);
    if (was_up) {
        port->down_ns = clock_now_ns();
        report_change(board, index);
    }
}

/* ---- plugging in ---- */

static void port_up(struct board *board, unsigned index, uint32_t node, uint32_t far_port,
                    unsigned ring)
{
    struct port *port = &board->ports[index];
    port->out = &port->memory->rings[ring];
    port->in = &port->memory->rings[1 - ring];
    port->out_tail = port->out_head = port->out_shown = port->in_head = port->in_tail = 0;
    port->claimed = false;
    port->sent = port->taken = false;
    port->up = true;
    port->scratch_version = 0;
    scratch_write(board, port);
    port->node = node;
    port->far_port = far_port;
    report_change(board, index);
}

static int map_memory(struct port *port, int fd)
{
    struct stat stat;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &stat) < 0 ||
        stat.st_size < (off_t)sizeof(*port->memory))
        return -EPERM;
    void *memory = mmap(NULL, sizeof(*port->memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return -errno;
    port->memory = memory;
    return 0;
}

static int make_memory(struct port *port)
{
    int fd = memfd_create("peach2-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int r = ftruncate(fd, sizeof(*port->memory)) < 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0
                ? -errno
                : map_memory(port, fd);
    if (r < 0) {
        close(fd);
        return r;
    }
    return fd;
}

static int connect_to(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(name.sun_path))
        return -ENAMETOOLONG;
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

static int dial(struct board *board, unsigned index)
{
    struct port *port = &board->ports[index];
    port->fd = connect_to(port->dial);
    if (port->fd < 0)
        return port->fd;
    int memory_fd = make_memory(port);
    if (memory_fd < 0)
        return memory_fd;
    const struct peach2_control message = {.type = PEACH2_LINK,
                                           .port = port->dial_port,
                                           .length = index,
                                           .node = board->node,
                                           .address = LINK_VERSION};
    const int fds[] = {memory_fd, board->bell_fd};
    int r = control_send(port->fd, &message, fds, 2);
    close(memory_fd);
    return r;
}

uint64_t ports_dial(struct board *board)
{
    uint64_t soonest_ns = UINT64_MAX;
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++) {
        struct port *port = &board->ports[i];
        if (!port->dial || port->unplugged || port->fd >= 0)
            continue;
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= port->redial_ns && dial(board, i) < 0)
            port_down(board, i);
        if (port->fd < 0) {
            uint64_t wait_ns = port->redial_ns > now_ns ? port->redial_ns - now_ns : 1;
            soonest_ns = wait_ns < soonest_ns ? wait_ns : soonest_ns;
        }
    }
    return soonest_ns;
}

void port_readable(struct board *board, unsigned index)
{
    struct port *port = &board->ports[index];
    struct peach2_control message;
    int fds[PEACH2_CONTROL_FDS];
    unsigned fd_count = 0;
    int r = control_receive(port->fd, &message, fds, &fd_count);
    if (r == -EAGAIN)
        return;
    bool accepted =
        r > 0 && !port->up && message.type == PEACH2_LINK && message.status == 0 && fd_count == 1;
    if (accepted) {
        port->bell_fd = fds[0];
        fcntl(port->bell_fd, F_SETFL, O_NONBLOCK);
        port_up(board, index, message.node, port->dial_port, 0);
        return;
    }
    while (fd_count > 0)
        close(fds[--fd_count]);
    port_down(board, index);
}

int port_accept(struct board *board, int fd, const struct peach2_control *message, int *fds,
                unsigned fd_count)
{
    if (message->port < PEACH2_E || message->port >= PEACH2_PORTS ||
        message->address != LINK_VERSION || fd_count != 2)
        return -EINVAL;
    struct port *port = &board->ports[message->port];
    if (port->unplugged)
        return -ENETDOWN;
    if (port->dial)
        return -EBUSY;
    if (port->up)
        port_down(board, message->port);
    int r = map_memory(port, fds[0]);
    if (r < 0)
        return r;
    const struct peach2_control reply = {.type = PEACH2_LINK, .node = board->node};
    r = control_send(fd, &reply, &board->bell_fd, 1);
    if (r < 0) {
        disconnect_port(port);
        return r;
    }
    close_fd(&fds[0]);
    port->bell_fd = fds[1];
    fds[1] = -1;
    port->fd = fd;
    port_up(board, message->port, message->node, (uint32_t)message->length, 1);
    return 0;
}
