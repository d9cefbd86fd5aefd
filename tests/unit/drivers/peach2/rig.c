#include "tests/unit/drivers/peach2/rig.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/wait.h"

#define PATIENCE_NS UINT64_C(30000000000)

extern char **environ;

static bool timed_out(uint64_t since_ns)
{
    usleep(20);
    return clock_now_ns() - since_ns > PATIENCE_NS;
}

/* ---- control ---- */

int rig_dial(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    for (uint64_t since_ns = clock_now_ns();
         connect(fd, (struct sockaddr *)&name, sizeof(name)) < 0;)
        cr_assert(!timed_out(since_ns), "no board at %s", path);
    return fd;
}

static void say(int fd, const struct peach2_control *message, int passed)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iovec = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iovec, .msg_iovlen = 1};
    if (passed >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        *rights = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(int))};
        memcpy(CMSG_DATA(rights), &passed, sizeof(int));
    }
    cr_assert(sendmsg(fd, &header, MSG_NOSIGNAL) == sizeof(*message));
}

static int hear(int fd, struct peach2_control *ret_message, int *ret_fds)
{
    union {
        char bytes[CMSG_SPACE(4 * sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iovec = {.iov_base = ret_message, .iov_len = sizeof(*ret_message)};
    struct msghdr header = {.msg_iov = &iovec,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    if (recvmsg(fd, &header, MSG_CMSG_CLOEXEC) != sizeof(*ret_message))
        return -ECONNRESET;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    if (rights && ret_fds)
        memcpy(ret_fds, CMSG_DATA(rights), rights->cmsg_len - CMSG_LEN(0));
    return ret_message->status;
}

int rig_ask(struct rig_board *board, const struct peach2_control *message, int fd)
{
    struct peach2_control answer;
    say(board->control, message, fd);
    return hear(board->control, &answer, NULL);
}

void rig_plug(struct rig *rig, unsigned node, unsigned port, bool in)
{
    const struct peach2_control message = {.type = in ? PEACH2_PLUG : PEACH2_UNPLUG, .port = port};
    struct peach2_control answer;
    int fd = rig_dial(rig->boards[node].path);
    say(fd, &message, -1);
    cr_assert(hear(fd, &answer, NULL) == 0);
    close(fd);
}

/* ---- boards ---- */

void rig_start(struct rig *rig, unsigned node)
{
    static const char names[] = "NEWS"; /* by enum peach2_port */
    char number[12], cables[PEACH2_PORTS][140];
    char *argv[16] = {(char *)PEACH2_PROGRAM, (char *)"--die",  (char *)"--socket",
                      rig->boards[node].path, (char *)"--node", number};
    unsigned n = 6;
    sprintf(number, "%u", node);
    for (unsigned port = PEACH2_E; port < PEACH2_PORTS; port++) {
        struct peach2_end far = rig->topology.far[node][port];
        if (far.node == PEACH2_NO_NODE || port == PEACH2_W || (port == PEACH2_S && far.node < node))
            continue; /* none, or the other end dials */
        snprintf(cables[port], sizeof(cables[port]), "%c=%s:%c", names[port],
                 rig->boards[far.node].path, names[far.port]);
        argv[n++] = (char *)"--cable";
        argv[n++] = cables[port];
    }
    cr_assert(posix_spawn(&rig->boards[node].pid, PEACH2_PROGRAM, NULL, NULL, argv, environ) == 0);
}

void rig_kill_board(struct rig *rig, unsigned node)
{
    struct rig_board *board = &rig->boards[node];
    kill(board->pid, SIGKILL);
    waitpid(board->pid, NULL, 0);
    board->pid = 0;
}

void rig_kill(struct rig *rig, unsigned node)
{
    rig_kill_board(rig, node);
    rig_detach(&rig->boards[node]);
}

void rig_detach(struct rig_board *board)
{
    if (board->control < 0)
        return;
    close(board->control);
    close(board->interrupt_fd);
    close(board->bell_fd);
    munmap(board->bar0, sizeof(*board->bar0));
    munmap(board->bar2, sizeof(*board->bar2));
    board->control = -1;
}

static void *map_bar(int fd, size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(memory != MAP_FAILED);
    close(fd);
    return memory;
}

static size_t rings_bytes(void)
{
    return PEACH2_NODES * RIG_RING * sizeof(struct peach2_notification);
}

void rig_attach(struct rig *rig, unsigned node)
{
    struct rig_board *board = &rig->boards[node];
    const struct peach2_control attach = {.type = PEACH2_ATTACH};
    struct peach2_control answer;
    int fds[4];
    board->control = rig_dial(board->path);
    say(board->control, &attach, -1);
    cr_assert(hear(board->control, &answer, fds) == 0);
    board->bar0 = map_bar(fds[0], sizeof(*board->bar0));
    board->bar2 = map_bar(fds[1], sizeof(*board->bar2));
    board->interrupt_fd = fds[2];
    board->bell_fd = fds[3];
    cr_assert(board->bar0->magic == PEACH2_MAGIC && board->bar0->node == node);
    const struct peach2_control map = {
        .type = PEACH2_MAP, .address = RIG_BUS, .length = rig->memory_bytes + rings_bytes()};
    cr_assert(rig_ask(board, &map, board->memory_fd) == 0);
    memset(board->memory + rig->memory_bytes, 0, rings_bytes());
    board->bar0->notify_base = RIG_BUS + rig->memory_bytes;
    board->bar0->notify_entries = RIG_RING;
    atomic_store(&board->bar0->admitted, UINT32_MAX);
    for (unsigned i = 0; i < PEACH2_NODES; i++) {
        board->notified[i] = 0;
        atomic_store(&board->bar0->notify_taken[i], 0);
    }
    for (unsigned i = 0; i < PEACH2_CHANNELS; i++)
        board->starts[i] = atomic_load(&board->bar0->channels[i].start);
}

void rig_wait_cables(struct rig *rig, unsigned without)
{
    uint64_t since_ns = clock_now_ns();
    for (unsigned node = 0; node < rig->topology.nodes; node++) {
        for (unsigned port = PEACH2_E; node != without && port < PEACH2_PORTS; port++) {
            unsigned far = rig->topology.far[node][port].node;
            bool up = far != PEACH2_NO_NODE && far != without;
            while (atomic_load(&rig->boards[node].bar0->ports[port].up) != up)
                cr_assert(!timed_out(since_ns), "port %u of node %u", port, node);
        }
    }
}

void rig_route(struct rig *rig, const struct peach2_links *links)
{
    for (unsigned node = 0; node < rig->topology.nodes; node++) {
        uint8_t ports[PEACH2_NODES];
        if (rig->boards[node].control < 0)
            continue;
        peach2_exits(&rig->topology, links, node, ports);
        peach2_routes(ports, peach2_links_whole(&rig->topology, links),
                      rig->boards[node].bar0->routes);
        rig_commit(&rig->boards[node]);
    }
}

void rig_boards(struct rig *rig, unsigned nodes, unsigned rings)
{
    *rig = (struct rig){.folder = "/tmp/peach2-XXXXXX"};
    cr_assert(mkdtemp(rig->folder));
    cr_assert(peach2_topology_init(&rig->topology, nodes, rings) == 0);
    for (unsigned node = 0; node < nodes; node++)
        snprintf(rig->boards[node].path, sizeof(rig->boards[node].path), "%s/%u", rig->folder,
                 node);
    for (unsigned node = 0; node < nodes; node++)
        rig_start(rig, node);
}

void rig_open(struct rig *rig, unsigned nodes, unsigned rings, size_t memory_bytes)
{
    struct peach2_links links;
    rig_boards(rig, nodes, rings);
    rig->memory_bytes = memory_bytes;
    for (unsigned node = 0; node < nodes; node++) {
        struct rig_board *board = &rig->boards[node];
        board->memory_fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        size_t bytes = memory_bytes + rings_bytes();
        cr_assert(ftruncate(board->memory_fd, (off_t)bytes) == 0);
        cr_assert(fcntl(board->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
        board->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, board->memory_fd, 0);
    }
    for (unsigned node = 0; node < nodes; node++)
        rig_attach(rig, node);
    rig_wait_cables(rig, PEACH2_NO_NODE);
    peach2_links_all(&rig->topology, &links);
    rig_route(rig, &links);
}

unsigned rig_end_boards(struct rig *rig)
{
    unsigned bad = 0;
    for (unsigned node = 0; node < rig->topology.nodes; node++) {
        struct rig_board *board = &rig->boards[node];
        int status = 0;
        if (board->pid > 0) {
            kill(board->pid, SIGTERM);
            waitpid(board->pid, &status, 0);
            bad += !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        }
        unlink(board->path);
    }
    rmdir(rig->folder);
    return bad;
}

void rig_close(struct rig *rig)
{
    for (unsigned node = 0; node < rig->topology.nodes; node++)
        rig_detach(&rig->boards[node]);
    cr_assert(rig_end_boards(rig) == 0);
    for (unsigned node = 0; node < rig->topology.nodes; node++) {
        munmap(rig->boards[node].memory, rig->memory_bytes + rings_bytes());
        close(rig->boards[node].memory_fd);
    }
}

/* ---- registers ---- */

void rig_ring(struct rig_board *board)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&board->bar0->bell_armed) != 0 &&
        atomic_exchange(&board->bar0->bell_armed, 0) != 0)
        eventfd_write(board->bell_fd, 1);
}

void rig_commit(struct rig_board *board)
{
    uint32_t commit = atomic_fetch_add(&board->bar0->commit, 1) + 1;
    rig_ring(board);
    for (uint64_t since_ns = clock_now_ns(); atomic_load(&board->bar0->committed) != commit;)
        cr_assert(!timed_out(since_ns), "not committed");
}

void rig_command(struct rig_board *board, unsigned channel, uint32_t fetch, uint64_t first)
{
    struct peach2_channel *registers = &board->bar0->channels[channel];
    for (uint64_t since_ns = clock_now_ns();
         board->starts[channel] - atomic_load(&registers->done) >= PEACH2_COMMANDS;)
        cr_assert(!timed_out(since_ns), "channel %u is stuck", channel);
    registers->commands[board->starts[channel] % PEACH2_COMMANDS] =
        (struct peach2_command){.first = first, .fetch = fetch};
    atomic_store_explicit(&registers->start, ++board->starts[channel], memory_order_release);
    rig_ring(board);
}

bool rig_done(struct rig_board *board, unsigned channel)
{
    struct peach2_channel *registers = &board->bar0->channels[channel];
    for (uint64_t since_ns = clock_now_ns();
         atomic_load(&registers->done) != board->starts[channel];)
        if (atomic_load(&registers->error) != 0 || timed_out(since_ns))
            return false;
    return true;
}

uint32_t rig_error(struct rig_board *board, unsigned channel)
{
    for (uint64_t since_ns = clock_now_ns();
         atomic_load(&board->bar0->channels[channel].error) == 0;)
        if (timed_out(since_ns))
            return 0;
    return atomic_load(&board->bar0->channels[channel].error);
}

void rig_abort(struct rig_board *board, unsigned channel)
{
    struct peach2_channel *registers = &board->bar0->channels[channel];
    atomic_store(&registers->control, PEACH2_ABORT);
    rig_ring(board);
    for (uint64_t since_ns = clock_now_ns(); atomic_load(&registers->control) != 0;)
        cr_assert(!timed_out(since_ns), "not aborted");
    board->starts[channel] = atomic_load(&registers->start);
}

bool rig_notified(struct rig_board *board, unsigned from, uint64_t ret_notify[2])
{
    const struct peach2_notification *ring =
        (const void *)(board->memory + (board->bar0->notify_base - RIG_BUS) +
                       from * RIG_RING * sizeof(struct peach2_notification));
    const struct peach2_notification *entry = &ring[board->notified[from] % RIG_RING];
    for (uint64_t since_ns = clock_now_ns();
         atomic_load_explicit(&entry->serial, memory_order_acquire) != board->notified[from] + 1;)
        if (timed_out(since_ns))
            return false;
    memcpy(ret_notify, entry->notify, sizeof(entry->notify));
    cr_assert(entry->node == from);
    atomic_store_explicit(&board->bar0->notify_taken[from], ++board->notified[from],
                          memory_order_release);
    return true;
}

void rig_pio(struct rig_board *board, uint64_t address, uint64_t mask, const uint8_t *bytes)
{
    uint32_t tail = atomic_load(&board->bar2->tail);
    for (uint64_t since_ns = clock_now_ns();
         tail - atomic_load(&board->bar2->head) >= PEACH2_PIO_LINES;)
        cr_assert(!timed_out(since_ns), "the window is stuck");
    struct peach2_pio_line *line = &board->bar2->lines[tail % PEACH2_PIO_LINES];
    line->address = address;
    line->mask = mask;
    memcpy(line->bytes, bytes, sizeof(line->bytes));
    atomic_store_explicit(&board->bar2->tail, tail + 1, memory_order_release);
    rig_ring(board);
}

void rig_restart(struct rig *rig, unsigned from, unsigned to)
{
    static uint64_t number;
    number++;
    uint64_t line[8] = {number, ~number}, notify[2];
    rig_pio(&rig->boards[from], peach2_global(to, PEACH2_INTERNAL | PEACH2_AT_RESTART), 0xffff,
            (const uint8_t *)line);
    do
        cr_assert(rig_notified(&rig->boards[to], from, notify));
    while (notify[0] != number || notify[1] != ~number);
}
