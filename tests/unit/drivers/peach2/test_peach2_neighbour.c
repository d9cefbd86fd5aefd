/* A hostile neighbour: whatever it writes to its end of a cable does not harm the board at the
 * other end or further boards. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/wait.h"
#include "tests/unit/drivers/kit.h"
#include "tests/unit/drivers/peach2/rig.h"
#include "tools/tca-board/link.h"

enum { MEMORY = 1 << 20, TARGETS = MEMORY / 2 };

static struct rig rig;

/* At port S of node 0, which is free. */
static struct {
    int fd, memory_fd, bell_fd;
    struct link_memory *memory;
} near;

static int say(const struct peach2_control *message, const int fds[2])
{
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iovec = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &iovec,
                            .msg_iovlen = 1,
                            .msg_control = control.bytes,
                            .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    *rights = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(2 * sizeof(int))};
    memcpy(CMSG_DATA(rights), fds, 2 * sizeof(int));
    cr_assert(sendmsg(near.fd, &header, MSG_NOSIGNAL) == sizeof(*message));
    struct peach2_control answer;
    cr_assert(recv(near.fd, &answer, sizeof(answer), 0) == sizeof(answer));
    return answer.status;
}

/* The board's reply to a cable of this version with memory of `bytes` bytes. */
static int plug(uint32_t port, uint64_t version, size_t bytes, int seals)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    strcpy(name.sun_path, rig.boards[0].path);
    near.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cr_assert(connect(near.fd, (struct sockaddr *)&name, sizeof(name)) == 0);
    near.memory_fd = memfd_create("cable", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    near.bell_fd = eventfd(0, EFD_CLOEXEC);
    cr_assert(ftruncate(near.memory_fd, (off_t)bytes) == 0);
    cr_assert(fcntl(near.memory_fd, F_ADD_SEALS, seals) == 0);
    near.memory =
        mmap(NULL, sizeof(*near.memory), PROT_READ | PROT_WRITE, MAP_SHARED, near.memory_fd, 0);
    const struct peach2_control message = {
        .type = PEACH2_LINK, .port = port, .length = PEACH2_S, .node = 9, .address = version};
    const int fds[2] = {near.memory_fd, near.bell_fd};
    return say(&message, fds);
}

static void pull(void)
{
    munmap(near.memory, sizeof(*near.memory));
    close(near.fd);
    close(near.memory_fd);
    close(near.bell_fd);
}

/* So that it looks, awake or not. */
static void ring(void)
{
    rig_ring(&rig.boards[0]);
}

/* By ring 0, as link.h says. */
static void pass(uint64_t address, uint16_t length, uint8_t node, uint32_t number)
{
    struct link_ring *out = &near.memory->rings[0];
    const uint64_t tail = atomic_load(&out->tail);
    struct packet *packet = &out->slots[tail % LINK_SLOTS].packet;
    packet->header = (struct packet_header){.address = address,
                                            .length = length,
                                            .node = node,
                                            .number = number,
                                            .hops = PEACH2_HOPS_MAX};
    memset(packet->payload, 7, sizeof(packet->payload));
    atomic_store(&out->tail, tail + 1);
    ring();
}

static void wait_cause(uint32_t bits)
{
    struct peach2_registers *bar0 = rig.boards[0].bar0;
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while ((atomic_load(&bar0->cause) & bits) != bits) {
        cr_assert(clock_now_ns() < give_up_ns, "%x, not %x", atomic_load(&bar0->cause), bits);
        usleep(20);
    }
    atomic_store(&bar0->cause, 0);
}

/* 0 and 1 can put to each other, now. */
static void check_works(void)
{
    for (unsigned from = 0; from < 2; from++) {
        struct rig_board *board = &rig.boards[from];
        fill(board->memory, 4096, from);
        board->bar0->descriptors[0] =
            (struct peach2_descriptor){.source = RIG_BUS,
                                       .destination = peach2_global(1 - from, RIG_BUS + TARGETS),
                                       .length = 4096,
                                       .flags = PEACH2_END | PEACH2_ACKNOWLEDGE};
        rig_command(board, 0, PEACH2_FETCH_INTERNAL, 0);
        cr_assert(rig_done(board, 0));
        cr_assert(memcmp(rig.boards[1 - from].memory + TARGETS, board->memory, 4096) == 0);
    }
}

Test(peach2_neighbour, cables_that_do_not_fit, .timeout = 60)
{
    static const struct {
        uint32_t port;
        uint64_t version;
        size_t bytes;
        int seals, status;
    } cases[] = {
        {PEACH2_N, LINK_VERSION, sizeof(struct link_memory), F_SEAL_SHRINK, -EINVAL},
        {PEACH2_PORTS, LINK_VERSION, sizeof(struct link_memory), F_SEAL_SHRINK, -EINVAL},
        {PEACH2_S, LINK_VERSION + 1, sizeof(struct link_memory), F_SEAL_SHRINK, -EINVAL},
        {PEACH2_S, LINK_VERSION, sizeof(struct link_memory) - 4096, F_SEAL_SHRINK, -EPERM},
        {PEACH2_S, LINK_VERSION, sizeof(struct link_memory), F_SEAL_GROW, -EPERM},
        {PEACH2_E, LINK_VERSION, sizeof(struct link_memory), F_SEAL_SHRINK, -EBUSY}, /* dials */
    };
    rig_open(&rig, 2, 1, MEMORY);
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const int status = plug(cases[i].port, cases[i].version, cases[i].bytes, cases[i].seals);
        cr_assert(status == cases[i].status, "case %u: %d", i, status);
        pull();
        check_works();
    }
    rig_close(&rig);
}

Test(peach2_neighbour, packets_that_make_no_sense, .timeout = 60)
{
    static const uint16_t lengths[] = {PEACH2_PAYLOAD_MAX + 1, 1 << 12, UINT16_MAX};
    const uint64_t own = peach2_global(0, RIG_BUS + TARGETS), nobody = 200;
    rig_open(&rig, 2, 1, MEMORY);
    struct rig_board *board = &rig.boards[0];
    cr_assert(plug(PEACH2_S, LINK_VERSION, sizeof(struct link_memory), F_SEAL_SHRINK) == 0);
    wait_cause(PEACH2_CAUSE_PORT);
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        pass(own, lengths[i], 9, i);
        wait_cause(PEACH2_CAUSE_MALFORMED);
    }
    cr_assert_eq(atomic_load(&board->bar0->discarded), 3);
    cr_assert_eq(board->memory[TARGETS], 0);
    pass(0, 16, 9, 0); /* no global address */
    wait_cause(PEACH2_CAUSE_UNROUTED);
    pass(peach2_global(7, RIG_BUS), 16, 9, 0);
    wait_cause(PEACH2_CAUSE_UNROUTED);
    pass(own - RIG_BUS, 16, 9, 0);
    wait_cause(PEACH2_CAUSE_UNMAPPED);
    pass(peach2_global(0, PEACH2_INTERNAL | PEACH2_AT_NOTIFY), 8, 9, 1); /* half of one */
    wait_cause(PEACH2_CAUSE_MALFORMED);
    pass(peach2_global(0, PEACH2_INTERNAL | PEACH2_AT_NOTIFY), 16, (uint8_t)nobody, 0);
    wait_cause(PEACH2_CAUSE_MALFORMED);
    pass(own, 16, 9, 2); /* valid packets still arrive */
    const uint64_t give_up_ns = clock_now_ns() + UINT64_C(20000000000);
    while (*(_Atomic uint8_t *)(board->memory + TARGETS + 15) != 7)
        cr_assert(clock_now_ns() < give_up_ns);
    cr_assert_eq(board->memory[TARGETS + 16], 0);
    pass(own + 64, 16, 9, 2); /* what comes twice does not */
    while (atomic_load(&board->bar0->stale) != 1)
        cr_assert(clock_now_ns() < give_up_ns);
    cr_assert_eq(board->memory[TARGETS + 64], 0);
    check_works();
    pull();
    rig_close(&rig);
}

/* More packets in the ring than slots, fewer taken than sent. */
Test(peach2_neighbour, counts_that_make_no_sense, .timeout = 60)
{
    static const uint64_t counts[] = {LINK_SLOTS + 1, UINT64_MAX, LINK_CLOSED, UINT64_MAX / 2};
    rig_open(&rig, 2, 1, MEMORY);
    struct peach2_registers *bar0 = rig.boards[0].bar0;
    bar0->routes[9] = (struct peach2_route){
        .base = peach2_global(9, 0), .mask = PEACH2_WINDOW_MASK, .port = PEACH2_S};
    atomic_store(&bar0->hold_ms, 0); /* what is left in the cable goes nowhere */
    rig_commit(&rig.boards[0]);
    for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        cr_assert(plug(PEACH2_S, LINK_VERSION, sizeof(struct link_memory), F_SEAL_SHRINK) == 0);
        const uint64_t passed = atomic_load(&bar0->ports[PEACH2_S].packets_in);
        atomic_store(&near.memory->rings[0].tail, counts[i]);
        ring();
        check_works();
        cr_assert_eq(atomic_load(&bar0->ports[PEACH2_S].packets_in), passed);
        /* The ring is full and the head becomes invalid: no slot is overwritten. */
        rig.boards[0].bar0->descriptors[1] =
            (struct peach2_descriptor){.source = RIG_BUS,
                                       .destination = peach2_global(9, RIG_BUS),
                                       .length = (LINK_SLOTS + 16) * PEACH2_PAYLOAD_MAX,
                                       .flags = PEACH2_END};
        rig_command(&rig.boards[0], 1, PEACH2_FETCH_INTERNAL, 1);
        while (atomic_load(&near.memory->rings[1].tail) < LINK_SLOTS - 1)
            usleep(20);
        atomic_store(&near.memory->rings[1].head, counts[i]);
        ring();
        check_works();
        cr_assert(atomic_load(&near.memory->rings[1].tail) <= LINK_SLOTS);
        atomic_store(&near.memory->rings[1].claimed, counts[i]);
        pull();
        check_works();
        rig_abort(&rig.boards[0], 1);
    }
    rig_close(&rig);
}
