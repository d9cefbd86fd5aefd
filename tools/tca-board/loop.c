/* The board's only thread: rounds while there is work, then sleep. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/tca-board/board.h"

enum { WATCHED_MAX = 3 + BOARD_VISITORS + PEACH2_PORTS, HELD_POLL_MS = 5 };

static int make_bar(const char *name, size_t bytes, void **ret_memory)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    void *memory = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) == 0 &&
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        int r = -errno;
        close(fd);
        return r;
    }
    *ret_memory = memory;
    return fd;
}

static int listen_at(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(name.sun_path))
        return -ENAMETOOLONG;
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    /* A killed board leaves its socket behind; connecting succeeds only if a board is alive. */
    if (connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0) {
        close(fd);
        return -EADDRINUSE;
    }
    unlink(path);
    mode_t mask = umask(0077);
    int r = bind(fd, (struct sockaddr *)&name, sizeof(name));
    umask(mask);
    if (r < 0 || listen(fd, 64) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

int board_init(struct board *board, uint32_t node, const char *path)
{
    *board = (struct board){.node = node,
                            .path = path,
                            .listen_fd = -1,
                            .bar0_fd = -1,
                            .bar2_fd = -1,
                            .interrupt_fd = -1,
                            .bell_fd = -1};
    for (unsigned i = 0; i < BOARD_VISITORS; i++)
        board->visitors[i].fd = -1;
    for (unsigned i = 0; i < PEACH2_PORTS; i++)
        board->ports[i].fd = board->ports[i].bell_fd = -1;
    void *memory;
    if ((board->bar0_fd = make_bar("peach2-bar0", sizeof(*board->bar0), &memory)) < 0)
        return board->bar0_fd;
    board->bar0 = memory;
    if ((board->bar2_fd = make_bar("peach2-bar2", sizeof(*board->bar2), &memory)) < 0)
        return board->bar2_fd;
    board->bar2 = memory;
    board->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    board->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (board->interrupt_fd < 0 || board->bell_fd < 0)
        return -errno;
    if (getrandom(&board->boot, sizeof(board->boot), 0) != sizeof(board->boot))
        return -EIO;
    atomic_store(&board->bar0->hold_ms, BOARD_HOLD_MS);
    board_show(board);
    board->listen_fd = listen_at(path);
    return board->listen_fd < 0 ? board->listen_fd : 0;
}

void board_deinit(struct board *board)
{
    for (unsigned i = 0; i < BOARD_VISITORS; i++)
        if (board->visitors[i].fd >= 0)
            close(board->visitors[i].fd);
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++) {
        if (board->ports[i].fd >= 0)
            port_down(board, i);
    }
    for (unsigned i = 0; i < PEACH2_NODES; i++)
        free(board->replays[i].packets);
    iommu_clear(&board->iommu);
    if (board->listen_fd >= 0) {
        unlink(board->path);
        close(board->listen_fd);
    }
    if (board->bar0)
        munmap(board->bar0, sizeof(*board->bar0));
    if (board->bar2)
        munmap(board->bar2, sizeof(*board->bar2));
    const int fds[] = {board->bar0_fd, board->bar2_fd, board->interrupt_fd, board->bell_fd};
    for (unsigned i = 0; i < 4; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* ---- rounds ---- */

static unsigned serve(struct board *board, unsigned source)
{
    if (source < PEACH2_CHANNELS)
        return channel_run(board, source);
    if (source < PEACH2_CHANNELS + 3)
        return link_run(board, source - PEACH2_CHANNELS + PEACH2_E);
    return source == PEACH2_CHANNELS + 3 ? pio_run(board) : acks_run(board);
}

unsigned board_round(struct board *board)
{
    const unsigned sources = PEACH2_CHANNELS + 3 + 2;
    unsigned moved = 0;
    board_take_commit(board);
    moved += scratch_run(board) + replay_run(board);
    for (unsigned i = 0; i < sources; i++)
        moved += serve(board, (board->turn + i) % sources);
    board->turn = (board->turn + 1) % sources;
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++)
        link_wake(&board->ports[i]);
    return moved;
}

/* ---- sleep ---- */

/* Whether packets may be waiting for a port that is down, so that hold_ms must be checked. */
static bool holding(const struct board *board)
{
    bool down = false,
         work = board->replay_count > 0 || board->ack_count > 0 ||
                atomic_load_explicit(&board->bar2->tail, memory_order_relaxed) != board->pio_head;
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++) {
        const struct port *port = &board->ports[i];
        down |= !port->up && port->changes > 0;
        work |= port->has_held || port->claimed;
    }
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        work |= board->channels[i].running;
    return down && work;
}

static int poll_sockets(struct board *board, int signal_fd, int timeout_ms)
{
    struct pollfd watched[WATCHED_MAX];
    unsigned who[WATCHED_MAX], n = 0;
    watched[n++] = (struct pollfd){.fd = signal_fd, .events = POLLIN};
    watched[n++] = (struct pollfd){.fd = board->bell_fd, .events = POLLIN};
    watched[n++] = (struct pollfd){.fd = board->listen_fd, .events = POLLIN};
    for (unsigned i = 0; i < BOARD_VISITORS; i++) {
        if (board->visitors[i].fd < 0)
            continue;
        who[n] = i;
        watched[n++] = (struct pollfd){.fd = board->visitors[i].fd, .events = POLLIN};
    }
    const unsigned ports_from = n;
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++) {
        if (board->ports[i].fd < 0)
            continue;
        who[n] = i;
        watched[n++] = (struct pollfd){.fd = board->ports[i].fd, .events = POLLIN};
    }
    if (poll(watched, n, timeout_ms) < 0)
        return errno == EINTR ? 0 : -errno;
    eventfd_t ignored;
    if (watched[1].revents)
        eventfd_read(board->bell_fd, &ignored);
    for (unsigned i = ports_from; i < n;
         i++) /* first, because a new connection can replace the cable of a port */
        if (watched[i].revents)
            port_readable(board, who[i]);
    for (unsigned i = 3; i < ports_from; i++)
        if (watched[i].revents)
            control_readable(board, &board->visitors[who[i]]);
    if (watched[2].revents)
        control_accept(board);
    return watched[0].revents ? 1 : 0;
}

static void arm(struct board *board, bool armed)
{
    atomic_store_explicit(&board->bar0->bell_armed, armed, memory_order_relaxed);
    for (unsigned i = PEACH2_E; i < PEACH2_PORTS; i++)
        link_arm(&board->ports[i], armed);
    atomic_thread_fence(memory_order_seq_cst); /* before the last check: pairs with the doorbell */
}

static int sleep_once(struct board *board, int signal_fd)
{
    int r = 0;
    uint64_t redial_ns = ports_dial(board);
    board_show(board);
    arm(board, true);
    if (board_round(board) == 0) {
        uint64_t ms = redial_ns / 1000000 + 1;
        if (holding(board) && ms > HELD_POLL_MS)
            ms = HELD_POLL_MS;
        r = poll_sockets(board, signal_fd,
                         redial_ns == UINT64_MAX && ms > HELD_POLL_MS ? -1 : (int)ms);
    }
    arm(board, false);
    return r;
}

int board_run(struct board *board, uint32_t spin_us, int signal_fd)
{
    unsigned rounds = 0;
    int r = 0;
    waiter_init(&board->waiter, spin_us * 1000, BOARD_YIELD_NS);
    waiter_begin(&board->waiter);
    while (r == 0) {
        if (board_round(board) > 0)
            waiter_begin(&board->waiter);
        else if (waiter_step_dear(&board->waiter) == WAITER_SLEEP) {
            r = sleep_once(board, signal_fd);
            waiter_begin(&board->waiter);
        }
        if (++rounds % BOARD_LOOK_ROUNDS == 0 && r == 0) {
            board_show(board);
            ports_dial(board);
            r = poll_sockets(board, signal_fd, 0);
        }
    }
    return r < 0 ? r : 0;
}
